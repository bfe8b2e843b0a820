"""What a saved query holds, and what its routes take and give (reference ``spans-api`` §9). What every kind shares: ``registry/shapes.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic import Field, create_model, field_validator

from query_api.filter.models import FilteringModel
from query_api.filter.parse import check_groups
from query_api.registry.answered import RetrievalInfo
from query_api.registry.bodies import RevisionData
from query_api.registry.models import Moment, json_text, storable_json
from query_api.registry.names import QUERIES
from query_api.registry.shapes import Example, Held
from query_api.registry.shaping import shapes_of
from query_api.request.body_models import Listed, Strict
from query_api.request.references import ReferenceIn, Text
from query_api.spans.windowing import Focus, Format, Windowing, WindowingResponse

LIMIT_MAX: Final = 10_000
"""Of a page, in what is saved (contract §3.3); an installation may allow less when it is run."""

SAVED_AT: Final = "data.filtering"
"""The path of the conditions of a saved query, in messages about them."""

STORED: Final = ("formatting", "filtering", "windowing")
"""The members of ``data`` that are stored. What a query finds is not part of it."""


class Formatting(Strict):
    """What a saved query is about, and how clients like to see it."""

    focus: Focus | None = Field(
        None, description="Which route may run it: /traces/query or /spans/query; both if absent."
    )
    format: Format | None = Field(None, description="For clients: answers look as their route makes them.")


class SavedWindowing(Windowing):
    """The page that a saved query asks for, where a request does not say; times are kept in UTC."""

    newest: Moment | None = Field(None, description="Bound of start_time: excluded when descending.")
    oldest: Moment | None = Field(None, description="Bound of start_time: excluded when ascending.")
    next: Text | None = Field(None, max_length=131_072, description="Belongs into a request rather than here.")
    limit: int | None = Field(None, ge=1, le=LIMIT_MAX, description="On a page; default 100.")


class QueryData(RevisionData):
    """What a revision of a saved query holds."""

    formatting: Formatting | None = None
    filtering: FilteringModel | None = Field(
        None, description="As on /spans/query; refused here if it is illegal there."
    )
    windowing: SavedWindowing | None = Field(None, description="What requests do not say.")
    trace_ids: Listed[str] | None = Field(
        None, description="Only in the answer to a retrieval that asks for it; else ignored."
    )
    traces: list[Any] | None = Field(None, description="The same.")

    @field_validator("filtering", mode="before")
    @classmethod
    def _can_be_kept(cls, filtering: Any) -> Any:
        check_groups(filtering, path="data.filtering")
        return storable_json(filtering)

    def text(self) -> str:
        """As it is stored: with the operators that are meant where none is said, without the members that are null."""
        stored = self.model_dump(mode="json", include=set(STORED), exclude_none=True)
        return json_text(stored) or "{}"


class RetrieveQueryRevision(Strict):
    """Which revision, and whether it is run."""

    query_ref: ReferenceIn | None = None
    query_variant_ref: ReferenceIn | None = None
    query_revision_ref: ReferenceIn | None = None
    include_trace_ids: bool | None = Field(None, description="Run it, and show in `data` the ids of the traces found.")
    include_traces: bool | None = Field(None, description="The same, with the traces themselves.")
    windowing: Windowing | None = Field(None, description="Which page of them; members that are absent are as saved.")


_EXAMPLE: Final = Example(
    slug="failed-answers",
    name="Failed answers",
    data={"filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]}},
)
_MADE: Final = shapes_of(QUERIES, Held(data=QueryData, example=_EXAMPLE))
_RETRIEVED: Final = create_model(
    "RetrievedQueryRevisionResponse",
    __base__=_MADE.revisions.one,
    __doc__="The revision that was named, or none; with what it finds, where that was asked for.",
    __module__=__name__,
    retrieval_info=(RetrievalInfo | None, None),
    windowing=(WindowingResponse | None, Field(None, description="When it was run, and there are more traces.")),
    complete=(bool | None, Field(None, description="False when the budget ended before the page was full.")),
)
SHAPES: Final = replace(
    _MADE,
    revisions=replace(_MADE.revisions, retrieve=RetrieveQueryRevision, retrieved=_RETRIEVED),
)
