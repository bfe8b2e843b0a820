"""What people write about artifacts, variants and revisions, as pydantic models: shared by every kind.

Source: reference ``applications-api`` §1.1, §1.5, §8.1; contract §1: unknown members are ignored where something is created or edited
(``Loose``) and refused where a question would be answered with more than was asked for (``Strict``).
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from query_api.registry.pages import IdWindow
from query_api.registry.values import Header
from query_api.request.body_models import Strict
from query_api.request.references import NamedSlug, ReferenceIn, Text, Time, refuse_nul

JSON_DEPTH_MAX: Final = 64
"""Objects and arrays in each other, in tags, meta and data."""

SLUG_LENGTH_MAX: Final = 2_500
"""What Postgres can hold in an index, less what a fork appends."""

LIMIT_MAX: Final = 2**31 - 1


def _not_too_long(slug: str) -> str:
    if len(slug) > SLUG_LENGTH_MAX:
        raise ValueError(f"'slug' must not be longer than {SLUG_LENGTH_MAX} characters.")
    return slug


def storable_json(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse what cannot be stored: U+0000 in a text or a name, a number that is not finite, and what nests too deep."""
    level: list[Any] = [value]
    for _ in range(JSON_DEPTH_MAX + 1):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below.extend((*each, *each.values()))
            elif isinstance(each, list):
                below.extend(each)
            elif isinstance(each, str):
                refuse_nul(each)
            elif isinstance(each, float) and not math.isfinite(each):  # what a query string holds is read less strictly
                raise PydanticCustomError("json_invalid", "NaN and Infinity are no JSON.")
        if not below:
            return value
        level = below
    raise ValueError(f"Objects and arrays nest deeper than {JSON_DEPTH_MAX}.")


def _tags(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(each.values())
            elif not isinstance(each, str | bool):
                raise ValueError("A tag is a text, a boolean or an object of tags.")  # noqa: TRY004 - pydantic takes no other
        level = below
    return value


def _in_utc(moment: datetime) -> datetime:
    """A time without a zone is UTC."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("This time has no date in UTC.") from exc


Slug = Annotated[NamedSlug, AfterValidator(_not_too_long)]
Moment = Annotated[Time, AfterValidator(_in_utc)]
Meta = Annotated[dict[str, Any], AfterValidator(storable_json)]
Tags = Annotated[dict[str, Any], AfterValidator(storable_json), AfterValidator(_tags)]


class Loose(BaseModel):
    """Unknown members are ignored."""

    model_config = ConfigDict(frozen=True)


class CreatingReference(ReferenceIn):
    """A reference in a body that creates something: unknown members are ignored."""

    model_config = ConfigDict(extra="ignore")


class HeaderIn(Loose):
    """What people write about an entity."""

    name: Text | None = None
    description: Text | None = None
    tags: Tags | None = Field(None, description="Texts, booleans, and objects of these.")
    meta: Meta | None = Field(None, description="Any JSON object.")

    def header(self) -> Header:
        """As the store takes it."""
        return Header(self.name, self.description, json_text(self.tags), json_text(self.meta))


class DiffParameters(Strict):
    """Which two revisions."""

    from_: UUID = Field(alias="from", description="The id of the older one.")
    to: UUID = Field(description="The id of the newer one.")


class Order(StrEnum):
    """Which way pages go along creation."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class IdWindowing(Strict):
    """Which page, and in which order; descending unless said otherwise."""

    newest: Moment | None = Field(None, description="Bound of created_at: excluded when descending.")
    oldest: Moment | None = Field(None, description="Bound of created_at: excluded when ascending.")
    next: UUID | None = Field(None, description="The id of the last row of the page before.")
    limit: int | None = Field(None, description="Rows on a page, at least one; all if absent, up to 64 MiB of them.")
    order: Order | None = None
    interval: int | None = Field(None, gt=0, description="No meaning here.")
    rate: float | None = Field(None, ge=0, le=1, description="No meaning here.")


def id_window(windowing: IdWindowing | None) -> IdWindow:
    """The page that is asked for; without ``windowing`` everything, oldest first."""
    if windowing is None:
        return IdWindow()
    return IdWindow(
        is_descending=windowing.order is not Order.ASCENDING,
        after_id=windowing.next,
        newest=windowing.newest,
        oldest=windowing.oldest,
        limit=None if windowing.limit is None else max(1, min(windowing.limit, LIMIT_MAX)),
    )


def json_text(value: Any) -> str | None:
    """JSON as it is stored: members in the order in which they were sent, integers exact; ``None`` stays ``None``."""
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
