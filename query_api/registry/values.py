"""What the history is made of: artifact → variant → revision, like repository → branch → commit.

Values alone. ``store.py`` reads and writes them; the shapes of answers belong to the routes of each kind. Members that hold free
JSON are its text as it is stored: an answer shows it as it is, nobody parses it on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from query_api.request.references import Reference


class Kind(StrEnum):
    """What has a history. Slugs are unique in a project per kind and layer."""

    APPLICATION = "application"
    QUERY = "query"
    ENVIRONMENT = "environment"


class Header(NamedTuple):
    """What people write about an artifact, a variant or a revision; ``tags`` and ``meta`` are JSON texts."""

    name: str | None = None
    description: str | None = None
    tags: str | None = None
    meta: str | None = None


class Content(NamedTuple):
    """What a commit brings: ``flags`` and ``data`` are JSON texts."""

    header: Header
    message: str | None = None
    flags: str | None = None
    data: str | None = None


class References(NamedTuple):
    """What a request names, layer by layer; ``None`` where it names nothing."""

    artifact: Reference | None = None
    variant: Reference | None = None
    revision: Reference | None = None


class WantedEmbed(NamedTuple):
    """A part of a revision that is to be read: at a dotted path, all of it if the path is empty."""

    kind: Kind | None
    """``None``: of a kind that is not kept here."""

    references: References
    version: int | None
    """The number of ``references.revision.version``."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What was read of a revision. ``place`` counts the wanted parts from 1."""

    place: int
    artifact_id: UUID
    artifact_slug: str
    variant_id: UUID
    variant_slug: str
    id: UUID
    slug: str
    version: int
    bytes_count: int | None
    """Of the JSON at the path; ``None`` if there is nothing."""

    value: str | None
    """The JSON; ``None`` also if it did not fit with those before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entity:
    """What all three layers have."""

    id: UUID
    slug: str
    name: str | None
    description: str | None
    tags: str | None
    meta: str | None
    created_at: datetime
    created_by: UUID
    updated_at: datetime | None
    updated_by: UUID | None
    deleted_at: datetime | None
    deleted_by: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact(_Entity):
    """A repository."""

    flags: str
    folder_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleArtifact(Artifact):
    """A repository with what the head of its first branch holds. Those without a commit there have no such view."""

    variant_id: UUID
    revision_id: UUID
    revision_flags: str | None
    data: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(_Entity):
    """A branch of an artifact. ``revisions_count`` counts archived ones too: it is the next version."""

    artifact_id: UUID
    artifact_slug: str
    artifact_flags: str
    revisions_count: int
    forked_from_variant_id: UUID | None
    forked_from_revision_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision(_Entity):
    """A commit on a variant. Versions of a variant are 0, 1, 2 … without a gap."""

    artifact_id: UUID
    artifact_slug: str
    artifact_flags: str
    variant_id: UUID
    variant_slug: str
    version: int
    message: str | None
    flags: str | None
    data: str | None
