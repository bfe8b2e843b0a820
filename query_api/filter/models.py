"""The JSON shape of a filter, as pydantic models: what is wrong with the shape is 422, what it means is ``parse``'s.

A group has ``conditions``, a condition has ``field``, never both; a member without ``field`` is a group (reference §5.1).
Unknown members are refused: in a filter a typo would widen the answer (contract §1).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from query_api.filter.ast import GroupOperator
from query_api.filter.fields import OperatorName
from query_api.request.body_models import Strict


class Options(Strict):
    """How a condition compares."""

    case_sensitive: bool | None = Field(None, description="Texts: compare letters with their case; default false.")
    exact_match: bool | None = Field(None, description="Texts: look at the whole of it; default false.")
    all: bool | None = Field(None, description="`in`: every value of the list instead of one; default false.")


class ConditionModel(Strict):
    """A question about one field of a span."""

    field: str = Field(description="Which field; `attributes`, `resource` and `scope` need a `key`.")
    key: str | None = Field(
        None,
        description=(
            "Dotted path into the field; a number is an index of an array. On `resource` and `scope` it is a path in their"
            " attributes (`service.name`), or one of their members: `schema_url`, `dropped_attributes_count`, and `name` and"
            " `version` of `scope`. `attributes.name` is the attribute of that name."
        ),
    )
    value: Any = Field(None, description="What to compare with.")
    operator: OperatorName = Field(OperatorName.IS, description="How to compare.")
    options: Options | None = Field(None, description="Details of the comparison.")


def _tag(member: Any) -> str:
    has_field = "field" in member if isinstance(member, dict) else isinstance(member, ConditionModel)
    return "Condition" if has_field else "Filtering"


class FilteringModel(Strict):
    """Conditions under a Boolean function; without conditions it is true."""

    operator: GroupOperator = Field(GroupOperator.AND, description="How the conditions combine.")
    conditions: list[
        Annotated[
            Annotated[ConditionModel, Tag("Condition")] | Annotated[FilteringModel, Tag("Filtering")],
            Discriminator(_tag),
        ]
    ] = Field(default_factory=list, description="Conditions, and groups of conditions.")
