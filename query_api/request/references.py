"""A reference to an artifact, a variant or a revision, and texts and times, as clients send them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from common.times import parse_time_ns
from query_api.request.json_body import Strict

_SLUG: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_ACCEPTED_AS_TIME: Final[dict[str, Any]] = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}


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


def _parse_microseconds(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(  # noqa: TRY004 - pydantic reports only ValueError
            "a time is an ISO 8601 string, or an integer of 10, 13, 16 or 19 digits (s, ms, µs or ns since 1970)"
        )
    try:
        return parse_time_ns(value) // 1000
    except OverflowError as exc:
        raise ValueError(str(exc)) from exc


Moment: TypeAlias = Annotated[int | None, BeforeValidator(_parse_microseconds, json_schema_input_type=str | int | None)]
"""A time in a request, as microseconds since 1970."""

Text = Annotated[str, AfterValidator(refuse_nul)]
NamedSlug = Annotated[str, AfterValidator(_url_safe)]
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
