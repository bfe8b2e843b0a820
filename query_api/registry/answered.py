"""What the answers of every kind of history have in common, as pydantic models: they document, ``answers.py`` writes.

Source: reference ``applications-api`` §1.2 and §7; contract §5 (``forked_from``).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from pydantic import BaseModel, Field

JsonObject: TypeAlias = dict[str, Any]


class Lifecycle(BaseModel):
    """When and by whom. What has not happened is absent."""

    created_at: datetime
    updated_at: datetime | None = None
    deleted_at: datetime | None = Field(None, description="When it was archived.")
    created_by_id: UUID
    updated_by_id: UUID | None = None
    deleted_by_id: UUID | None = None


class Header(BaseModel):
    """What is written about it."""

    id: UUID
    slug: str
    name: str | None = None
    description: str | None = None
    tags: JsonObject | None = None
    meta: JsonObject | None = None


class ForkedFrom(BaseModel):
    """Where the history of a fork comes from."""

    variant_id: UUID
    revision_id: UUID


class ResolutionInfo(BaseModel):
    """What was embedded in the data."""

    references_used: list[JsonObject] = Field(
        description="The references of every revision that was embedded, each once."
    )
    depth_reached: int = Field(description="How deep embedded references stood in each other.")
    embeds_resolved: int = Field(description="How many were replaced, each counted as often as it occurs.")
    errors: list[str] = Field(description="Why others were not, with their places; at most 100.")


class RetrievalInfo(BaseModel):
    """Which references lead to the revision."""

    references: dict[str, JsonObject]
    selector: dict[str, str] | None = None


class Change(BaseModel):
    """One change on the way from one revision to the other."""

    op: str = Field(description="added, removed or changed")
    path: str = Field(description="A JSON Pointer: of what was removed in the older data, else in the newer.")
    from_: Any = Field(None, serialization_alias="from")
    to: Any = None


class DiffResponse(BaseModel):
    """What differs between two revisions."""

    count: int
    changes: list[Change]
    references: dict[str, dict[str, JsonObject]] = Field(description="The two revisions: `from` and `to`.")
