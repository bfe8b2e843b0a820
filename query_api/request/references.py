"""A reference to an artifact, a variant or a revision, and texts and times, as clients send them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from pydantic import (
    AfterValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from common.errors import InvalidInput
from common.times import RELATIVE_TIMES, RelativeTime, looks_relative, parse_time_ns
from query_api.request.json_body import Strict

_SLUG: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_ACCEPTED_AS_TIME: Final[dict[str, Any]] = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}
_RELATIVE: Final = {
    "type": "string",
    "pattern": "^(now|-[0-9]{1,9}[smhdw])$",
    "description": "Relative to the server's clock.",
}


def _url_safe(slug: str) -> str:
    if not _SLUG.fullmatch(slug):
        raise ValueError("'slug' must be URL-safe.")
    return slug


def refuse_nul(text: str) -> str:
    """Return the text. Raise ``ValueError`` if it holds U+0000, which Postgres cannot store."""
    if "\0" in text:
        raise ValueError("U+0000 cannot be stored.")
    return text


Time: TypeAlias = Annotated[datetime, WithJsonSchema(_ACCEPTED_AS_TIME, mode="validation")]
"""Text, or a number since 1970: seconds up to 2e10, milliseconds above (reference ``spans-api`` §6.1)."""


class BoundIn:
    """Annotates a bound of a window, which may be a relative time. A malformed one raises ``InvalidInput``.

    ``at`` is the path of the window in a request. Any other value is read by ``read`` and then by pydantic as a time,
    which ``convert`` changes.
    """

    def __init__(
        self,
        at: str = "",
        *,
        read: Callable[[Any], Any] | None = None,
        convert: Callable[[datetime], datetime] | None = None,
    ) -> None:
        self._prefix = f"{at}." if at else ""
        self._read = read
        self._convert = convert

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a time with the relative times before it."""
        time = handler.generate_schema(datetime)
        shown = core_schema.wrap_serializer_function_ser_schema(_serialize_bound, schema=time)
        return core_schema.with_info_wrap_validator_function(self._validate, time, serialization=shown)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe what is accepted. In a response it is never a number; one schema serves both."""
        number = {"type": "number" if self._read is None else "integer"}
        return {"anyOf": [{"type": "string", "format": "date-time"}, _RELATIVE, number]}

    def _validate(
        self, value: Any, validate: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> datetime | RelativeTime:
        relative = read_relative(value, f"{self._prefix}{info.field_name}")
        if relative is not None:
            return relative
        moment: datetime = validate(value if self._read is None else self._read(value))
        return moment if self._convert is None else self._convert(moment)


def _serialize_bound(bound: datetime | RelativeTime, serialize: Callable[[Any], Any]) -> Any:
    return bound if isinstance(bound, RelativeTime) else serialize(bound)


def read_relative(value: Any, at: str) -> RelativeTime | None:
    """Return the relative time that a value is, or ``None``. Raises ``InvalidInput`` for a malformed one; ``at`` is its
    path."""
    relative = RelativeTime.read(value)
    if relative is None and looks_relative(value):
        raise InvalidInput(f"{at}: '{value[:64]}' is not a relative time; allowed: {RELATIVE_TIMES}.")
    return relative


Bound: TypeAlias = Annotated[datetime | RelativeTime, BoundIn("windowing")]
"""A bound of ``windowing``: a ``Time``, or a time relative to the server's clock."""


def _parse_microseconds(value: Any, info: ValidationInfo) -> int | RelativeTime | None:
    if value is None:
        return None
    if (relative := read_relative(value, str(info.field_name))) is not None:
        return relative
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(  # noqa: TRY004 - pydantic reports only ValueError
            "a time is an ISO 8601 string, or an integer of 10, 13, 16 or 19 digits (s, ms, µs or ns since 1970)"
        )
    try:
        return parse_time_ns(value) // 1000
    except OverflowError as exc:
        raise ValueError(str(exc)) from exc


_Digits: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]{10}([0-9]{3}([0-9]{3}){0,2})?$")]
_IsoText: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
_RelativeText: TypeAlias = Annotated[str, Field(json_schema_extra=_RELATIVE)]
Moment: TypeAlias = Annotated[
    int | RelativeTime | None,
    PlainValidator(_parse_microseconds, json_schema_input_type=_IsoText | _RelativeText | _Digits | int | None),
]
"""A time in a request: microseconds since 1970, or relative to the server's clock."""


def moment_us(moment: int | RelativeTime | None, *, now_us: int) -> int | None:
    """Return a ``Moment`` in microseconds since 1970; a relative one counts from ``now_us``."""
    return moment.at_us(now_us) if isinstance(moment, RelativeTime) else moment


Text = Annotated[str, AfterValidator(refuse_nul)]
NamedSlug = Annotated[str, AfterValidator(_url_safe), Field(json_schema_extra={"pattern": f"^{_SLUG.pattern}$"})]
"""A slug that refers to something. A forked revision has a longer slug than people may choose."""


class Reference(NamedTuple):
    """Names an artifact, a variant or a revision of a kind. Every given member must match."""

    id: UUID | None = None
    slug: str | None = None
    version: str | None = None

    @property
    def identifies(self) -> bool:
        """Whether the reference is sufficient on its own: a version alone is not."""
        return self.id is not None or self.slug is not None


class ReferenceIn(Strict):
    """A reference to an artifact, a variant or a revision. Every given member must match."""

    id: UUID | None = None
    slug: NamedSlug | None = None
    version: Text | None = Field(None, description="The version in decimal digits; only revisions have one.")

    def value(self) -> Reference:
        """Return the reference as the store takes it."""
        return Reference(self.id, self.slug, self.version)
