"""Types of members that all kinds of history take: names, tags, metadata, times and pages.

Unknown members are ignored in what creates or edits something (``Loose``). They are rejected in a query (``Strict``),
which would otherwise return more than the client meant. Source: contract §1, reference ``applications-api`` §1.1,
§1.5, §8.1.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from query_api.registry.values import Header
from query_api.request.json_body import Strict
from query_api.request.references import NamedSlug, ReferenceIn, Text, Time, refuse_nul
from query_api.spans.windowing import Order

JSON_DEPTH_MAX: Final = 64
"""Levels of nested objects and arrays in tags, metadata and data."""

SLUG_LENGTH_MAX: Final = 2_500
"""The longest slug that a Postgres index can hold after a fork has appended its suffix."""


def _not_too_long(slug: str) -> str:
    if len(slug) > SLUG_LENGTH_MAX:
        raise ValueError(f"'slug' must not be longer than {SLUG_LENGTH_MAX} characters.")
    return slug


def storable_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return ``value``. Raise ``ValueError`` for U+0000, a number that is not finite, or more than 64 levels."""
    level: list[Any] = [value]
    for _ in range(JSON_DEPTH_MAX + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend((*item, *item.values()))
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str):
                refuse_nul(item)
            elif isinstance(item, float) and not math.isfinite(item):  # the JSON parser of query strings lets it pass
                raise PydanticCustomError("json_invalid", "NaN and Infinity are not JSON.")
        if not below:
            return value
        level = below
    raise ValueError(f"Objects and arrays nest deeper than {JSON_DEPTH_MAX}.")


def _tags(value: dict[str, Any]) -> dict[str, Any]:
    for tag in value.values():
        if isinstance(tag, dict):
            _tags(tag)
        elif not isinstance(tag, str | bool):
            # pydantic reports ValueError only
            raise ValueError("A tag is a text, a boolean or an object of tags.")  # noqa: TRY004
    return value


def in_utc(moment: datetime) -> datetime:
    """Convert to UTC. A time without a zone is UTC."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("This time has no date in UTC.") from exc


Slug = Annotated[NamedSlug, AfterValidator(_not_too_long)]
Moment = Annotated[Time, AfterValidator(in_utc)]
Meta = Annotated[dict[str, Any], AfterValidator(storable_json)]
Tags = Annotated[Meta, AfterValidator(_tags)]


class Loose(BaseModel):
    """An object whose unknown members are ignored."""

    model_config = ConfigDict(frozen=True)


class LooseReferenceIn(ReferenceIn):
    """A reference in a body that creates something: unknown members are ignored."""

    model_config = ConfigDict(extra="ignore")


class HeaderIn(Loose):
    """The name, description, tags and metadata of an artifact, a variant or a revision."""

    name: Text | None = None
    description: Text | None = None
    tags: Tags | None = Field(None, description="Tags: texts, booleans, and objects of these.")
    meta: Meta | None = Field(None, description="Metadata: any JSON object.")

    def header(self) -> Header:
        """Return the values that the store takes."""
        tags, meta = (None if value is None else json_text(value) for value in (self.tags, self.meta))
        return Header(self.name, self.description, tags, meta)


class IdWindowing(Strict):
    """The page to return. The order is descending by default."""

    newest: Moment | None = Field(None, description="Upper bound of created_at; exclusive in descending order.")
    oldest: Moment | None = Field(None, description="Lower bound of created_at; exclusive in ascending order.")
    next: UUID | None = Field(None, description="The id of the last row of the previous page.")
    limit: int | None = Field(
        None, description="Rows on a page, at least 1. Without it all rows are returned, up to 64 MiB."
    )
    order: Order | None = None
    interval: int | None = Field(None, gt=0, description="Ignored here.")
    rate: float | None = Field(None, ge=0, le=1, description="Ignored here.")


def json_text(value: Any) -> str:
    """Return the JSON text to store: members in the order in which they were sent, exact integers."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
