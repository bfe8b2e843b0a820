"""Building blocks of request models: rejecting a body costs no more than reading it, however much of it is wrong.

Pydantic reports every problem, half a kilobyte and 5 µs each. A few megabytes of ``{}`` instead of spans would keep a
process busy for a minute and take gigabytes. So elements are validated only until ``PROBLEMS_MAX`` problems are found.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticKnownError, PydanticOmit, core_schema

PROBLEMS_MAX: Final = 100
"""Problems that are reported; the elements after the last one are not validated."""

LENGTH_MAX: Final = 20_000
"""Elements of a list, and members of an object with free names. Lists of a filter end at 10,000, with their own
message."""

SPANS_LENGTH_MAX: Final = 200_000
"""``LENGTH_MAX`` where spans are sent: more than fit into a body of 10 MiB."""

MEMBERS_MAX: Final = 200
"""Members of an object that rejects unknown members."""

Name = TypeVar("Name")
Element = TypeVar("Element")

_ELEMENTS: Final = {"items_schema", "keys_schema", "values_schema"}


class Problems:
    """Counts the invalid elements of one body; passed to validators as pydantic's context."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def are_enough(self) -> bool:
        """Whether the remaining elements are skipped."""
        return self.count >= PROBLEMS_MAX


class _Bounded:
    """Annotates a list or an object: bounds its length, and stops validating its elements after enough ``Problems``.

    More than ``length_max`` elements are rejected before the first is validated. Without ``Problems`` as pydantic's
    context every element is validated.
    """

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the annotated schema with a length, and with a wrapper around each element, name and value."""
        schema: dict[str, Any] = dict(handler(source))
        for part in _ELEMENTS & schema.keys():
            schema[part] = core_schema.with_info_wrap_validator_function(_validate_until_enough, schema[part])
        schema.setdefault("max_length", self._length_max)
        if schema["type"] == "dict":  # pydantic checks the length of a list first, but that of an object last
            return core_schema.no_info_before_validator_function(self._check_length, cast(CoreSchema, schema))
        return cast(CoreSchema, schema)

    def _check_length(self, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > self._length_max:
            length = {"field_type": "Dictionary", "max_length": self._length_max, "actual_length": len(value)}
            raise PydanticKnownError("too_long", length)
        return value


def _validate_until_enough(value: Any, validate: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    problems: Problems | None = info.context
    if problems is None:
        return validate(value)
    if problems.are_enough:
        raise PydanticOmit
    try:
        return validate(value)
    except ValidationError:
        problems.count += 1
        raise


Listed: TypeAlias = Annotated[list[Element], _Bounded(LENGTH_MAX)]
"""A list in a body."""

Named: TypeAlias = Annotated[dict[Name, Element], _Bounded(LENGTH_MAX)]
"""An object with free names in a body."""

ListedSpans: TypeAlias = Annotated[list[Element], _Bounded(SPANS_LENGTH_MAX)]
"""A list of spans, or a list inside a span."""

NamedSpans: TypeAlias = Annotated[dict[Name, Element], _Bounded(SPANS_LENGTH_MAX)]
"""Spans or traces by free names."""

LISTED: Final = "list"
UNLISTED: Final = "object"


def _form(value: Any) -> str:
    return LISTED if isinstance(value, list) else UNLISTED


BY_FORM: Final = Discriminator(_form)
"""Distinguishes a ``Listed`` from the object that is allowed instead, by the tags ``LISTED`` and ``UNLISTED``.

Problems then name the form that was sent; without tags their paths would contain pydantic's internal schema names.
"""


def refuse_boolean(value: Any) -> Any:
    """Return a number. Raise ``ValueError`` for a boolean, which pydantic would read as 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")  # noqa: TRY004 - pydantic reports only ValueError
    return value


class Strict(BaseModel):
    """An object that rejects unknown members, because a typo would otherwise be ignored silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MEMBERS_MAX:
            raise ValueError(f"an object with {len(value)} members; at most {MEMBERS_MAX} are allowed")
        return value


class PromotedTexts(BaseModel):
    """The values of attributes that are members of a span too, as requests and responses have them
    (``common/span.py``).
    """

    session_id: str | None = Field(None, description="The session that the span belongs to.")
    user_id: str | None = Field(None, description="The end user that the span belongs to.")
    agent_id: str | None = Field(None, description="The agent that the span belongs to.")
