"""Artifacts, variants and revisions of one kind in one project: a method is one transaction, mostly one statement.

Only this file reads and writes them. The first arguments of every statement are the project and the kind (``$1``,
``$2``); in a statement that writes, the user is the third. Source: reference ``applications-api`` §1, §5, §6;
contract §5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from common.errors import InvalidInput
from common.named_sql import load_named_sql
from common.postgres.pool import Database, Row, Transaction
from query_api.registry.kinds import json_text
from query_api.registry.searches import BYTES_MAX, EntityQuery, QueryArtifacts, bounded_statement, page_statement
from query_api.registry.values import (
    Artifact,
    CommitTarget,
    Content,
    Embedded,
    EmbedTarget,
    Header,
    Kind,
    Revision,
    SimpleArtifact,
    Variant,
    wanted_number,
)
from query_api.request.references import Reference, ReferenceIn

Layer = TypeVar("Layer", Artifact, Variant, Revision)
Entity = TypeVar("Entity", Artifact, Variant, Revision, SimpleArtifact)

LOG_MAX: Final = 2**31 - 1


def _expanded(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with the fragments that they name in braces: columns and joins."""
    for name in [name for name in texts if name.endswith(("_columns", "_joins"))]:
        texts = {key: text.replace(f"{{{name}}}", texts[name]) for key, text in texts.items()}
    return dict(texts)


_TEXTS: Final = _expanded(load_named_sql(Path(__file__).with_name("queries.sql")))
SQL: Final = {name: text for name, text in _TEXTS.items() if text.endswith(";")}
"""The statements by name. The other texts are parts of statements."""

BOUNDED_LOG: Final = bounded_statement(Revision, SQL["log"].removesuffix(";"), order="version DESC", bytes_max="$6")


class Owner(NamedTuple):
    """The project that owns the histories, and the user who changes them."""

    project_id: UUID
    user_id: UUID


@dataclass(frozen=True, slots=True)
class Lineage:
    """The histories of one kind in one project.

    What does not exist, or belongs to another project or kind, is ``None``. Raises ``UniqueViolation`` for a slug or
    a chosen id that is in use, archived or not, and the errors of ``Database``.
    """

    database: Database | Transaction
    kind: Kind
    owner: Owner

    def of(self, kind: Kind, /) -> Lineage:
        """Return the histories of another kind in the same project and transaction."""
        return replace(self, kind=kind)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Lineage]:
        """Yield histories whose changes take effect together, or not at all."""
        assert isinstance(self.database, Database), "transactions do not nest"  # noqa: S101 - a bug of the caller
        async with self.database.transaction() as transaction:
            yield replace(self, database=transaction)

    # Every layer: the statements are ``find_artifact``, ``edit_variant``, ``archive_revision`` and so on.

    async def find(self, layer: type[Layer], reference: Reference, /) -> Layer | None:
        """Return the artifact, variant or revision of that id, else of that slug; archived or not."""
        # With an id, search by it alone: a slug that contradicts it is reported later.
        key = (reference.id, None) if reference.id is not None else (None, reference.slug)
        return await self._read(f"find_{layer.__name__.lower()}", layer, *key)

    async def edit(self, layer: type[Layer], id_: UUID, /, *, header: Header) -> Layer | None:
        """Replace the header of a variant or a revision. The data of a revision never changes."""
        return await self._write(f"edit_{layer.__name__.lower()}", layer, id_, *header)

    async def archive(self, layer: type[Layer], id_: UUID, /) -> Layer | None:
        """Archive a revision, a variant with its revisions, or an artifact alone: its variants stay as they are."""
        return await self._write(f"archive_{layer.__name__.lower()}", layer, id_)

    async def unarchive(self, layer: type[Layer], id_: UUID, /) -> Layer | None:
        """Restore what is archived; a variant with the revisions that were archived with it."""
        return await self._write(f"unarchive_{layer.__name__.lower()}", layer, id_)

    # Artifacts

    async def create_artifact(
        self, slug: str, *, header: Header, flags: str, artifact_id: UUID | None = None
    ) -> Artifact:
        """Create an artifact without variants, with the given id if there is one."""
        created = await self._write("create_artifact", Artifact, artifact_id, slug, *header, flags)
        assert created is not None  # noqa: S101 - an INSERT of one row returns it, or raises
        return created

    async def edit_artifact(
        self, artifact_id: UUID, *, header: Header, flags: str | None, folder_id: UUID | None
    ) -> Artifact | None:
        """Change what is given of an artifact and keep the rest; ``None`` if it is archived."""
        return await self._write("edit_artifact", Artifact, artifact_id, *header, flags, folder_id)

    async def find_simple(self, artifact_id: UUID, /) -> SimpleArtifact | None:
        """Return an artifact with the data of the head of its first variant; ``None`` also if there is no revision."""
        query = QueryArtifacts(artifact_refs=[ReferenceIn(id=artifact_id)], include_archived=True)
        return next(iter(await self.page(SimpleArtifact, query)), None)

    # Variants

    async def create_variant(self, artifact_id: UUID, slug: str, *, header: Header) -> Variant | None:
        """Create a variant without revisions; ``None`` if the artifact does not exist."""
        return await self._write("create_variant", Variant, artifact_id, slug, *header)

    async def default_variant(self, artifact_id: UUID, /) -> Variant | None:
        """Return the first variant of an artifact, archived or not."""
        return await self._read("default_variant", Variant, artifact_id)

    async def fork_variant(self, variant_id: UUID, slug: str, *, up_to_version: int, header: Header) -> Variant | None:
        """Create a variant of the same artifact with a copy of the live revisions of ``variant_id`` up to a version.

        ``None`` if there is no such revision.
        """
        return await self._write("fork_variant", Variant, variant_id, up_to_version, slug, *header)

    # Revisions

    async def commit(self, target: CommitTarget, content: Content) -> Revision | None:
        """Commit the next version of a variant, its new head; ``None`` if the variant is not as ``target`` says."""
        named = target._replace(slug=target.slug or random_slug())
        written = (*content.header, content.message, content.flags, content.data)
        return await self._write("commit", Revision, *named, *written)

    async def lock_head(self, variant_id: UUID, /) -> Revision | None:
        """Return the head of a variant, and prevent other commits until the transaction ends."""
        await self.database.fetch_one(SQL["lock_variant"], *self._scope, variant_id)
        return await self.revision_of_variant(variant_id)

    async def revision_of_variant(self, variant_id: UUID, *, version: int | None = None) -> Revision | None:
        """Return the revision of that version, by default the head, archived or not."""
        return await self._read("revision_of_variant", Revision, variant_id, version)

    async def revision_of_artifact(self, artifact_id: UUID, *, version: int | None = None) -> Revision | None:
        """Do the same on the first variant of an artifact."""
        return await self._read("revision_of_artifact", Revision, artifact_id, version)

    async def log(
        self, variant_id: UUID, *, from_version: int = LOG_MAX, depth: int = LOG_MAX, bytes_max: int = BYTES_MAX
    ) -> list[Revision]:
        """Return at most ``depth`` live revisions of a variant, newest first, from a version back.

        Raises ``InvalidInput`` if they have more than ``bytes_max`` bytes.
        """
        arguments = (variant_id, from_version, max(0, min(depth, LOG_MAX)), bytes_max)
        rows = await self.database.fetch_all(BOUNDED_LOG, *self._scope, *arguments)
        return _entities(Revision, rows, bytes_max=bytes_max, advice="depth")

    async def page(
        self, layer: type[Entity], query: EntityQuery, *, role: str | None = None, bytes_max: int = BYTES_MAX
    ) -> list[Entity]:
        """Return a page of one layer in the order of ids; with ``role`` only of artifacts that have this flag.

        Raises ``InvalidInput`` for more than ``bytes_max`` bytes.
        """
        all_rows = _TEXTS[f"{layer.__name__.lower()}_rows"]
        sql, arguments = page_statement(layer, all_rows, query, scope=self._scope, role=role, bytes_max=bytes_max)
        rows = await self.database.fetch_all(sql, *arguments)
        return _entities(layer, rows, bytes_max=bytes_max, advice="windowing.limit")

    async def embedded(self, targets: Sequence[EmbedTarget], /, *, bytes_max: int) -> list[Embedded]:
        """Return the parts that exist, of revisions of any kind. Values that exceed ``bytes_max`` together are left
        out.
        """
        none = Reference()
        layers = [[target.references[layer] or none for target in targets] for layer in range(3)]
        columns = (
            [str(target.kind) for target in targets],
            *([reference.id for reference in layer] for layer in layers),
            *([reference.slug for reference in layer] for layer in layers),
            [revision.version for revision in layers[-1]],
            [wanted_number(revision.version) for revision in layers[-1]],
            [json_text(target.paths) for target in targets],
            [target.leads_through for target in targets],
        )
        rows = await self.database.fetch_all(SQL["embedded"], self.owner.project_id, *columns, max(0, bytes_max))
        return [Embedded(**row) for row in rows]

    @property
    def _scope(self) -> tuple[UUID, str]:
        return self.owner.project_id, str(self.kind)

    async def _read(self, name: str, layer: type[Entity], /, *arguments: object) -> Entity | None:
        row = await self.database.fetch_one(SQL[name], *self._scope, *arguments)
        return None if row is None else layer(**row)

    async def _write(self, name: str, layer: type[Entity], /, *arguments: object) -> Entity | None:
        row = await self.database.fetch_one(SQL[name], *self._scope, self.owner.user_id, *arguments)
        return None if row is None else layer(**row)


def random_slug() -> str:
    """Return a slug for a revision or a variant without one: 12 hexadecimal digits (reference §1.5)."""
    return token_hex(6)


def _entities(layer: type[Entity], rows: Sequence[Row], *, bytes_max: int, advice: str) -> list[Entity]:
    """Return values of rows with a ``bytes_count``. A single row is never too large: there is no smaller page."""
    if len(rows) > 1 and sum(row["bytes_count"] for row in rows) > bytes_max:
        raise InvalidInput(f"The response would have more than {bytes_max} bytes: request less with {advice}.")
    return [layer(**{name: value for name, value in row.items() if name != "bytes_count"}) for row in rows]
