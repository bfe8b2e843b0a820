"""The request and the response of ``POST /spans/facets/query`` as pydantic models (contract §3.5)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, field_validator

from query_api.analytics.groups_models import FieldAndKey, GroupsWindowing
from query_api.explain.explain import Explain, Explanation
from query_api.filter.language import ATTRIBUTES, FIELDS
from query_api.request.json_body import ApiModel, Listed, Strict, refuse_boolean
from query_api.request.references import ReferenceIn
from query_api.spans.sample import SampleSize
from query_api.spans.windowing import Filtering

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000
KEYS_MAX: Final = 16
_EXAMPLE: Final[dict[str, Any]] = {
    "windowing": {"oldest": "-1h"},
    "keys": ["service", "http.method"],
    "limit": 10,
}


def _named(value: Any) -> Any:
    """Read a text: the name of a field, or else a path in the attributes."""
    if not isinstance(value, str):
        return value
    if value in FIELDS:
        return {"field": value}
    return {"field": ATTRIBUTES, "key": value.removeprefix(f"{ATTRIBUTES}.")}


FacetKey: TypeAlias = Annotated[FieldAndKey, BeforeValidator(_named, json_schema_input_type=FieldAndKey | str)]


class FacetsQuery(Strict):
    """A query for the attribute paths of spans, or for values.

    References name a saved query, whose conditions apply in addition to those of the request.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    filtering: Filtering = Field(None, description="The filter of the spans.")
    windowing: GroupsWindowing | None = Field(None, description="The time range of the spans.")
    keys: Listed[FacetKey] | None = Field(
        None,
        min_length=1,
        max_length=KEYS_MAX,
        description="Count the values of these instead of the attribute paths. Each is the name of a field, an object"
        " with `field` and `key`, such as a score and its name, or a text that is a path in the attributes.",
    )
    limit: int = Field(
        LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="The most frequent paths, or values of each key, to return."
    )
    query_ref: ReferenceIn | None = Field(None, description="A saved query: the newest revision of its first variant.")
    query_variant_ref: ReferenceIn | None = Field(None, description="A variant of a saved query: its newest revision.")
    query_revision_ref: ReferenceIn | None = Field(
        None, description="A revision of a saved query, by id or slug; or by version, with one of the other references."
    )
    explain: Explain = None

    _is_number = field_validator("limit", mode="before")(refuse_boolean)


PathType: TypeAlias = Literal["string", "number", "boolean", "array", "object"]


class PathFacet(ApiModel):
    """A path in the attributes that occurs."""

    path: str
    types: list[PathType] = Field(description="The types of its values. An `object` is one without members.")
    count: int = Field(description="Spans that have a value there.")


class ScoreFacet(ApiModel):
    """The name of a score that occurs."""

    name: str
    types: list[Literal["string", "number"]] = Field(
        description="The types of its values; `string` if it has labels only."
    )
    count: int = Field(description="Spans that have a score of this name.")


class CountedValue(ApiModel):
    """A value and how often it occurs."""

    value: str | int | float | bool
    count: int = Field(description="Spans that have this value.")


class ValueFacet(ApiModel):
    """The most frequent values of one key."""

    field: str
    key: str | None = None
    values: list[CountedValue] = Field(description="Most frequent first.")
    others: int | None = Field(
        None, description="Spans whose value is not listed, because of `limit` or its length; absent if there are none."
    )


class FacetsResponse(ApiModel):
    """The attribute paths that occur, or the values of the requested keys."""

    count: int = Field(description="The number of facets.")
    facets: list[PathFacet] | list[ValueFacet] = Field(
        description="Paths by their count and then by name, or one facet for each key, in the order of the request."
    )
    scores: list[ScoreFacet] | None = Field(
        None, description="Names of scores by their count and then by name. Absent with `keys`, or if there are none."
    )
    sampled: SampleSize | None = Field(None, description="Present if only the newest spans were examined.")
    explain: Explanation = None
