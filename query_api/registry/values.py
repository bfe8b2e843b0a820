"""A history: artifact → variant → revision, like repository → branch → commit.

Only values, which ``store.py`` reads and writes. Free JSON is kept as its text, which goes into a response unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from query_api.request.references import Reference

NO_VERSION: Final = -1
"""No revision has this number."""

_DIGITS_MAX: Final = 9
"""Versions are 32-bit integers; no variant gets near a thousand million commits."""


class Kind(StrEnum):
    """What has a history. A slug is unique in a project among one layer of one kind."""

    APPLICATION = "application"
    QUERY = "query"
    ENVIRONMENT = "environment"


class Header(NamedTuple):
    """The name, description, tags and metadata of an artifact, a variant or a revision. ``tags`` and ``meta`` are JSON
    texts.
    """

    name: str | None = None
    description: str | None = None
    tags: str | None = None
    meta: str | None = None


class Content(NamedTuple):
    """What a commit stores. ``flags`` and ``data`` are JSON texts."""

    header: Header
    message: str | None = None
    flags: str | None = None
    data: str | None = None


class CommitTarget(NamedTuple):
    """The variant to commit to, and what must hold for the commit."""

    variant_id: UUID
    artifact_id: UUID | None = None
    """If given, the artifact of the variant."""

    base_revision_id: UUID | None = None
    """If given, the newest revision of the variant."""

    is_first: bool = False
    """Whether the variant must have no revision."""

    slug: str | None = None
    """The slug of the new revision; a random one by default."""


class References(NamedTuple):
    """The references of a request by layer; ``None`` for a layer without one."""

    artifact: Reference | None = None
    variant: Reference | None = None
    revision: Reference | None = None


Steps: TypeAlias = tuple[str, ...]
"""The names of members and the numbers of elements that lead to a value, from the outside in."""


class EmbedTarget(NamedTuple):
    """What an embedded reference names: the data of a revision, or a part of it."""

    word: str
    """Its word for the kind."""

    kind: Kind
    references: References
    paths: tuple[Steps, ...] = ((),)
    """Where the part is: at the first of these paths that leads to something."""

    key: str | None = None
    """If given, the part is of the revision to which the data refers under this key; ``""`` is its only key."""

    leads_through: bool = False
    """Whether a path may lead through an embedded reference in the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A part of a revision that was read. ``place`` counts the wanted parts from 1."""

    place: int
    artifact_id: UUID
    artifact_slug: str
    variant_id: UUID
    variant_slug: str
    id: UUID
    slug: str
    version: int
    choice: int | None
    """Which path leads to it, from 1; ``None`` if there is nothing."""

    steps_count: int | None
    """The steps of that path that lead to it. If the path has more, it is an embedded reference, and these lead on."""

    bytes_count: int | None
    """The size of its JSON; ``None`` if there is nothing."""

    value: str | None
    """The JSON; also ``None`` if it did not fit after the parts before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entity:
    """What all three layers have in common."""

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
    """An artifact with the data of the newest revision of its first variant; it exists only if there is such a
    revision.
    """

    variant_id: UUID
    revision_id: UUID
    revision_flags: str | None
    data: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(_Entity):
    """A branch of an artifact. ``revisions_count`` includes archived revisions: it is the next version."""

    artifact_id: UUID
    artifact_slug: str
    artifact_flags: str
    revisions_count: int
    forked_from_variant_id: UUID | None
    forked_from_revision_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision(_Entity):
    """A commit on a variant. The versions of a variant are 0, 1, 2 … without gaps."""

    artifact_id: UUID
    artifact_slug: str
    artifact_flags: str
    variant_id: UUID
    variant_slug: str
    version: int
    message: str | None
    flags: str | None
    data: str | None


def wanted_number(version: str | None) -> int | None:
    """Return the number of a version to look for, ``NO_VERSION`` for a text that cannot be one."""
    if version is None:
        return None
    is_short_number = version.isascii() and version.isdecimal() and len(version) <= _DIGITS_MAX
    return int(version) if is_short_number and str(int(version)) == version else NO_VERSION
