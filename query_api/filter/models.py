"""The JSON shape of a filter as pydantic models: a wrong shape is 422; ``parse`` checks what a filter means.

A group has ``conditions``, a condition has ``field``, never both; a member without ``field`` is a group (reference
§5.1). Unknown members are refused: in a filter, a typo would widen the result (contract §1).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from query_api.filter.ast import GroupOperator
from query_api.filter.fields import Operator
from query_api.request.body_models import Strict


class Options(Strict):
    """How a condition compares."""

    case_sensitive: bool | None = Field(None, description="Text operators: compare case-sensitively. Default: false.")
    exact_match: bool | None = Field(None, description="Text operators: match the whole text. Default: false.")
    all: bool | None = Field(None, description="`in`: require every value of the list instead of one. Default: false.")


class ConditionModel(Strict):
    """A condition on one field of a span."""

    field: str = Field(description="The field to look at. `attributes`, `resource` and `scope` need a `key`.")
    key: str | None = Field(
        None,
        description=(
            "A dotted path into the field; a number is an index of an array. On `resource` and `scope` it is a path"
            " in their attributes (`service.name`), or one of their members: `schema_url`, `dropped_attributes_count`,"
            " and for `scope` also `name` and `version`. `attributes.name` is the attribute of that name."
        ),
    )
    value: Any = Field(None, description="The value to compare with.")
    operator: Operator = Field(Operator.IS, description="The comparison.")
    options: Options | None = Field(None, description="Details of the comparison.")


def _tag(member: Any) -> str:
    has_field = "field" in member if isinstance(member, dict) else isinstance(member, ConditionModel)
    return "Condition" if has_field else "Filtering"


class FilteringModel(Strict):
    """Conditions combined by a Boolean function. Without conditions it is true of every span."""

    operator: GroupOperator = Field(GroupOperator.AND, description="How the conditions combine.")
    conditions: list[
        Annotated[
            Annotated[ConditionModel, Tag("Condition")] | Annotated[FilteringModel, Tag("Filtering")],
            Discriminator(_tag),
        ]
    ] = Field(default_factory=list, description="Conditions, and groups of conditions.")
