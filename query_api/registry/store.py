"""Artifacts, variants and revisions of one kind in one project: a method is one transaction, mostly one statement.

The only place that asks Postgres about them. Every statement begins with the project and the kind (``$1``, ``$2``); what writes goes
on with who does it (``$3``). Source: reference ``applications-api`` §1, §5, §6; contract §5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from common.errors import InvalidInput
from common.named_sql import load_named_sql
from common.postgres.pool import Database, Row
from query_api.registry.pages import BYTES_MAX, IdWindow, Named, Search, bounded_statement, page_statement
from query_api.registry.values import (
    Artifact,
    Content,
    Embedded,
    Header,
    Kind,
    Revision,
    SimpleArtifact,
    Variant,
    WantedEmbed,
)
from query_api.request.references import Reference

Entity = TypeVar("Entity", Artifact, Variant, Revision, SimpleArtifact)

LOG_MAX: Final = 2**31 - 1


def _with_columns(texts: Mapping[str, str]) -> dict[str, str]:
    """The statements, with the lists of columns in their places."""
    columns = {name: text for name, text in texts.items() if name.endswith("_columns")}
    statements = {name: text for name, text in texts.items() if name not in columns}
    for name, text in columns.items():
        statements = {each: statement.replace(f"{{{name}}}", text) for each, statement in statements.items()}
    return statements


COLUMNS: Final[Mapping[type, str]] = {
    layer: ", ".join(field.name for field in fields(layer)) for layer in (Artifact, Variant, Revision, SimpleArtifact)
}
SQL: Final = _with_columns(load_named_sql(Path(__file__).with_name("queries.sql")))
BOUNDED_LOG: Final = bounded_statement(
    Revision, SQL["log"].removesuffix(";"), columns=COLUMNS[Revision], order="version DESC", bytes_max="$6"
)


class Owner(NamedTuple):
    """Whose history it is, and who is at work."""

    project_id: UUID
    user_id: UUID


class _Executor(Protocol):
    """What runs a statement: the database, or a transaction on it."""

    async def fetch_one(self, sql: str, /, *arguments: object) -> Row | None: ...

    async def fetch_all(self, sql: str, /, *arguments: object) -> list[Row]: ...


class Lineage:
    """The histories of one kind that one project has.

    What is not there, or belongs to another project or kind, is ``None``. Raises ``UniqueViolation`` for a slug (or a chosen id) that is
    in use, archived or not, and the errors of ``Database``.
    """

    def __init__(self, database: Database, kind: Kind, owner: Owner) -> None:
        self._database = database
        self._executor: _Executor = database
        self._kind = kind
        self._owner = owner

    @property
    def kind(self) -> Kind:
        """What these are histories of."""
        return self._kind

    def of(self, kind: Kind, /) -> Lineage:
        """The histories of another kind, in the same project and transaction."""
        other = Lineage(self._database, kind, self._owner)
        other._executor = self._executor
        return other

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Lineage]:
        """All that is done with what it yields happens, or nothing of it."""
        async with self._database.transaction() as transaction:
            within = Lineage(self._database, self._kind, self._owner)
            within._executor = transaction
            yield within

    # Artifacts

    async def create_artifact(
        self, slug: str, *, header: Header, flags: str, artifact_id: UUID | None = None
    ) -> Artifact:
        """A new artifact without variants; ``artifact_id`` is its id if the caller chooses one."""
        created = await self._write("create_artifact", Artifact, artifact_id, slug, *header, flags)
        assert created is not None  # noqa: S101 - an INSERT of one row returns it, or raises
        return created

    async def find_artifact(self, reference: Reference, /) -> Artifact | None:
        """The artifact of that id, else of that slug."""
        return await self._read("find_artifact", Artifact, *_key(reference))

    async def edit_artifact(
        self, artifact_id: UUID, *, header: Header, flags: str | None, folder_id: UUID | None
    ) -> Artifact | None:
        """Write anew what is given of a live artifact, and keep the rest."""
        return await self._write("edit_artifact", Artifact, artifact_id, *header, flags, folder_id)

    async def archive_artifact(self, artifact_id: UUID, /) -> Artifact | None:
        """Archive an artifact; its variants and revisions stay as they are."""
        return await self._write("archive_artifact", Artifact, artifact_id)

    async def unarchive_artifact(self, artifact_id: UUID, /) -> Artifact | None:
        """Bring an artifact back."""
        return await self._write("unarchive_artifact", Artifact, artifact_id)

    async def find_simple(self, artifact_id: UUID, /) -> SimpleArtifact | None:
        """An artifact with what the head of its first variant holds; ``None`` also where that has no revision."""
        search = Search(artifacts=Named(ids=(artifact_id,)), includes_archived=True)
        return next(iter(await self.page(SimpleArtifact, search, IdWindow(limit=1))), None)

    # Variants

    async def create_variant(self, artifact_id: UUID, slug: str, *, header: Header) -> Variant | None:
        """A new variant without revisions; ``None`` if there is no such artifact."""
        return await self._write("create_variant", Variant, artifact_id, slug, *header)

    async def find_variant(self, reference: Reference, /) -> Variant | None:
        """The variant of that id, else of that slug."""
        return await self._read("find_variant", Variant, *_key(reference))

    async def default_variant(self, artifact_id: UUID, /) -> Variant | None:
        """The first variant of an artifact, archived or not."""
        return await self._read("default_variant", Variant, artifact_id)

    async def edit_variant(self, variant_id: UUID, *, header: Header) -> Variant | None:
        """Replace what is written about a variant."""
        return await self._write("edit_variant", Variant, variant_id, *header)

    async def archive_variant(self, variant_id: UUID, /) -> Variant | None:
        """Archive a variant and its live revisions."""
        return await self._write("archive_variant", Variant, variant_id)

    async def unarchive_variant(self, variant_id: UUID, /) -> Variant | None:
        """Bring a variant back, and the revisions that were archived with it."""
        return await self._write("unarchive_variant", Variant, variant_id)

    async def fork_variant(self, variant_id: UUID, slug: str, *, up_to_version: int, header: Header) -> Variant | None:
        """A new variant of the same artifact with the live history of ``variant_id`` up to a version; ``None`` if that is
        nothing.
        """
        return await self._write("fork_variant", Variant, variant_id, up_to_version, slug, *header)

    # Revisions

    async def commit(
        self,
        variant_id: UUID,
        content: Content,
        *,
        slug: str | None = None,
        artifact_id: UUID | None = None,
        base_revision_id: UUID | None = None,
    ) -> Revision | None:
        """A new head of a variant: the next version.

        ``None`` if the variant is not there, is of another artifact than ``artifact_id``, or has another head than
        ``base_revision_id``, where these are given.
        """
        arguments = (variant_id, artifact_id, base_revision_id, slug or random_slug(), *_of(content), content.data)
        return await self._write("commit", Revision, *arguments)

    async def commit_first(
        self, variant_id: UUID, content: Content, *, slug: str | None = None, artifact_id: UUID | None = None
    ) -> Revision | None:
        """Version 0 of a variant, without data; ``None`` also if it has a revision, archived ones included."""
        arguments = (variant_id, artifact_id, slug or random_slug(), *_of(content))
        return await self._write("commit_first", Revision, *arguments)

    async def lock_variant(self, variant_id: UUID, /) -> bool:
        """Whether there is the variant; until the transaction ends nobody else commits on it."""
        return await self._executor.fetch_one(SQL["lock_variant"], *self._scope, variant_id) is not None

    async def find_revision(self, reference: Reference, /) -> Revision | None:
        """The revision of that id, else of that slug."""
        return await self._read("find_revision", Revision, *_key(reference))

    async def revision_of_variant(self, variant_id: UUID, *, version: int | None = None) -> Revision | None:
        """The revision of that version, else the head, archived or not."""
        return await self._read("revision_of_variant", Revision, variant_id, version)

    async def revision_of_artifact(self, artifact_id: UUID, *, version: int | None = None) -> Revision | None:
        """The same on the default variant of an artifact."""
        return await self._read("revision_of_artifact", Revision, artifact_id, version)

    async def edit_revision(self, revision_id: UUID, *, header: Header) -> Revision | None:
        """Replace what is written about a revision; what it holds never changes."""
        return await self._write("edit_revision", Revision, revision_id, *header)

    async def archive_revision(self, revision_id: UUID, /) -> Revision | None:
        """Archive one revision."""
        return await self._write("archive_revision", Revision, revision_id)

    async def unarchive_revision(self, revision_id: UUID, /) -> Revision | None:
        """Bring one revision back."""
        return await self._write("unarchive_revision", Revision, revision_id)

    async def log(
        self, variant_id: UUID, *, from_version: int = LOG_MAX, depth: int = LOG_MAX, bytes_max: int = BYTES_MAX
    ) -> list[Revision]:
        """Live revisions of a variant, newest first, ``depth`` at most, from a version back. Raises ``InvalidInput`` where they
        have more than ``bytes_max``.
        """
        arguments = (variant_id, from_version, max(0, min(depth, LOG_MAX)), bytes_max)
        rows = await self._executor.fetch_all(BOUNDED_LOG, *self._scope, *arguments)
        return _entities(Revision, rows, bytes_max=bytes_max, advice="depth")

    async def page(
        self, layer: type[Entity], search: Search, window: IdWindow, *, bytes_max: int = BYTES_MAX
    ) -> list[Entity]:
        """The rows of a layer that are asked for, in the order of their ids. Raises ``InvalidInput`` where they have more than
        ``bytes_max``.
        """
        columns = COLUMNS[layer]
        sql, arguments = page_statement(layer, search, window, scope=self._scope, columns=columns, bytes_max=bytes_max)
        rows = await self._executor.fetch_all(sql, *arguments)
        return _entities(layer, rows, bytes_max=bytes_max, advice="windowing.limit")

    async def embedded(self, wanted: Sequence[WantedEmbed], /, *, bytes_max: int) -> list[Embedded]:
        """Parts of revisions of any kind in the project, those that are there. Values come up to ``bytes_max`` together."""
        none = Reference()
        named = [[each or none for each in part.references] for part in wanted]
        columns = (
            [None if part.kind is None else str(part.kind) for part in wanted],
            *([layers[layer].id for layers in named] for layer in range(3)),
            *([layers[layer].slug for layers in named] for layer in range(3)),
            [part.version for part in wanted],
            [part.path for part in wanted],
        )
        rows = await self._executor.fetch_all(SQL["embedded"], self._owner.project_id, *columns, max(0, bytes_max))
        return [Embedded(**row) for row in rows]

    @property
    def _scope(self) -> tuple[UUID, str]:
        return self._owner.project_id, str(self._kind)

    async def _read(self, name: str, kind: type[Entity], /, *arguments: object) -> Entity | None:
        row = await self._executor.fetch_one(SQL[name], *self._scope, *arguments)
        return None if row is None else _entity(kind, row)

    async def _write(self, name: str, kind: type[Entity], /, *arguments: object) -> Entity | None:
        row = await self._executor.fetch_one(SQL[name], *self._scope, self._owner.user_id, *arguments)
        return None if row is None else _entity(kind, row)


def random_slug() -> str:
    """Return a slug for a revision or a variant without one: 12 hexadecimal digits (reference §1.5)."""
    return token_hex(6)


def _key(reference: Reference) -> tuple[UUID | None, str | None]:
    """An id alone decides, so that a slug beside it can be found to contradict it."""
    return (reference.id, None) if reference.id is not None else (None, reference.slug)


def _of(content: Content) -> tuple[Any, ...]:
    return (*content.header, content.message, content.flags)


def _entity(kind: type[Entity], row: Row) -> Entity:
    return kind(**row)


def _entities(kind: type[Entity], rows: Sequence[Row], *, bytes_max: int, advice: str) -> list[Entity]:
    """Of rows that come with their ``bytes_count``. A single one is answered whatever it has: there is no smaller page."""
    if len(rows) > 1 and sum(row["bytes_count"] for row in rows) > bytes_max:
        raise InvalidInput(f"This would be an answer of more than {bytes_max} bytes: ask for less with {advice}.")
    return [kind(**{name: value for name, value in row.items() if name != "bytes_count"}) for row in rows]
