"""Pieces of models of what clients send: however much of a body is wrong, it costs no more than to read it.

Pydantic makes an error of everything that is wrong, half a kilobyte and five microseconds each: a few megabytes of
``{}`` where spans should be would keep a process for a minute, and take gigabytes. Whoever sent them reads the first
``PROBLEMS_MAX``.
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
"""So many elements of a body may be wrong; what comes behind is not looked at."""

LENGTH_MAX: Final = 20_000
"""Elements of a list, and members of an object whose names are the client's. Lists that become part of a filter end
at 10,000, with a message of their own."""

SPANS_LENGTH_MAX: Final = 200_000
"""The same where spans are sent: more than fit into a body of 10 MiB."""

MEMBERS_MAX: Final = 200
"""Of an object that takes none that it does not know."""

Name = TypeVar("Name")
Element = TypeVar("Element")

_ELEMENTS: Final = {"items_schema", "keys_schema", "values_schema"}


class Problems:
    """How many elements of one body were found wrong, handed along as pydantic's context."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def are_enough(self) -> bool:
        """Whether no more are looked for."""
        return self.count >= PROBLEMS_MAX


class _LookedAtUntilEnough:
    """Annotates a list or an object. Without ``Problems`` as the context all of its elements are looked at, but never
    more than ``length_max``: with more it is refused before the first.
    """

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The annotated schema, with a look at its length, and at ``Problems`` before each element, and each name of
        one.
        """
        schema: dict[str, Any] = dict(handler(source))
        for part in _ELEMENTS & schema.keys():
            schema[part] = core_schema.with_info_wrap_validator_function(_look_at, schema[part])
        schema.setdefault("max_length", self._length_max)
        if schema["type"] == "dict":  # pydantic looks at the length of a list first, at that of an object last
            return core_schema.no_info_before_validator_function(self._refuse_long, cast(CoreSchema, schema))
        return cast(CoreSchema, schema)

    def _refuse_long(self, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > self._length_max:
            length = {"field_type": "Dictionary", "max_length": self._length_max, "actual_length": len(value)}
            raise PydanticKnownError("too_long", length)
        return value


def _look_at(value: Any, check: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    problems: Problems | None = info.context
    if problems is None:
        return check(value)
    if problems.are_enough:
        raise PydanticOmit
    try:
        return check(value)
    except ValidationError:
        problems.count += 1
        raise


Listed: TypeAlias = Annotated[list[Element], _LookedAtUntilEnough(LENGTH_MAX)]
"""A list in a body."""

Named: TypeAlias = Annotated[dict[Name, Element], _LookedAtUntilEnough(LENGTH_MAX)]
"""An object in a body whose names are the client's."""

ListedSpans: TypeAlias = Annotated[list[Element], _LookedAtUntilEnough(SPANS_LENGTH_MAX)]
"""A list of spans, or of what a span holds."""

NamedSpans: TypeAlias = Annotated[dict[Name, Element], _LookedAtUntilEnough(SPANS_LENGTH_MAX)]
"""Spans or traces by names of the client."""

LISTED: Final = "list"
UNLISTED: Final = "object"


def _form(value: Any) -> str:
    return LISTED if isinstance(value, list) else UNLISTED


BY_FORM: Final = Discriminator(_form)
"""Tells a ``Listed`` from the object that may stand in its place, by the tags ``LISTED`` and ``UNLISTED``. What is
wrong is told of the form that was sent, which stands in its path; without tags a path would spell the schemas out,
down to our function that looks at elements."""


def refuse_boolean(value: Any) -> Any:
    """Return a number. Raise ``ValueError`` for a boolean, which pydantic would read as 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")  # noqa: TRY004 - pydantic reports only ValueError
    return value


class Strict(BaseModel):
    """An object that takes no members that it does not know: a typo would be lost in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MEMBERS_MAX:
            raise ValueError(f"an object with {len(value)} members, of which few can be legal")
        return value


class PromotedTexts(BaseModel):
    """The values of attributes that are members of a span too, as requests and responses have them
    (``common/span.py``).
    """

    session_id: str | None = Field(None, description="The session that the span belongs to.")
    user_id: str | None = Field(None, description="The end user that the span belongs to.")
    agent_id: str | None = Field(None, description="The agent that the span belongs to.")
