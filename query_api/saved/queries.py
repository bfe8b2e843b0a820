"""Saved queries as a kind of history: what a revision holds, and what may be saved (reference ``spans-api`` §9,
contract §3.4).
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field, field_validator

from query_api.filter.parse import FilteringModel, check_groups, parse
from query_api.filter.sql.compile import compile_filter
from query_api.registry.fields import Moment, json_text, storable_json
from query_api.registry.kinds import QUERIES, History, RevisionData, Sample
from query_api.request.json_body import Listed, Strict
from query_api.request.references import Text
from query_api.spans.windowing import Focus, Format, Windowing, refuse_feed, refuse_unfit

LIMIT_MAX: Final = 10_000
"""The largest page that may be saved (contract §3.3); an installation may allow less when the query runs."""

STORED: Final = ("formatting", "filtering", "windowing")
"""The members of ``data`` that are stored. What a query finds is not one of them."""

SAVED_AT: Final = "data.filtering"
WINDOWING_AT: Final = "data.windowing"
"""Where a saved query holds its conditions and its page, in error messages."""


class Formatting(Strict):
    """Whether a saved query finds traces or spans, and how clients display it."""

    focus: Focus | None = Field(
        None, description="The route that may run it: /traces/query or /spans/query; both by default."
    )
    format: Format | None = Field(None, description="For clients: no effect on responses.")


class SavedWindowing(Windowing):
    """The page of a saved query; members of a request replace it. Times are stored in UTC."""

    newest: Moment | None = Field(None, description="Upper bound of start_time; exclusive in descending order.")
    oldest: Moment | None = Field(None, description="Lower bound of start_time; exclusive in ascending order.")
    next: Text | None = Field(
        None, max_length=131_072, description="Set the cursor on the request, not in a saved query."
    )
    limit: int | None = Field(None, ge=1, le=LIMIT_MAX, description="Rows on a page; 100 by default.")


class QueryData(RevisionData):
    """The data of a revision of a saved query."""

    formatting: Formatting | None = None
    filtering: FilteringModel | None = Field(
        None, description="The filter, as in /spans/query. A filter that is invalid there is rejected here."
    )
    windowing: SavedWindowing | None = Field(None, description="The page, unless a request replaces it.")
    trace_ids: Listed[str] | None = Field(
        None, description="Only in the response to a retrieval that asks for it; ignored in requests."
    )
    traces: list[Any] | None = Field(
        None, description="Only in the response to a retrieval that asks for it; ignored in requests."
    )

    @field_validator("filtering", mode="before")
    @classmethod
    def _can_be_stored(cls, filtering: Any) -> Any:
        check_groups(filtering, path=SAVED_AT)
        return storable_json(filtering)

    def text(self) -> str:
        """Return the data as JSON: with the default operators, without null members and what the query finds."""
        stored = self.model_dump(mode="json", include=set(STORED), exclude_none=True)
        return json_text(stored)

    def stored(self) -> str | None:
        """Return the JSON to store; empty data is nothing. Raises ``InvalidInput`` for a query that cannot be run."""
        compile_filter(parse(self.filtering, path=SAVED_AT))
        if self.windowing is not None:
            is_about_traces = self.formatting is not None and self.formatting.focus is Focus.TRACE
            (refuse_feed if is_about_traces else refuse_unfit)(self.windowing, at=WINDOWING_AT)
        text = self.text()
        return None if text == "{}" else text


QUERY: Final = History(
    labels=QUERIES,
    sample=Sample(
        slug="failed-answers",
        name="Failed answers",
        data={"filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]}},
    ),
    data=QueryData,
    archives_with_variant=True,
)
