"""Pages of artifacts, variants and revisions, as SQL. Pure; ``store.py`` runs the statements.

Pages follow the order of ids, which are UUIDs of version 7 and so in the order of creation. The id of the last row is
the cursor (reference ``applications-api`` §8.1). The statement contains every condition, so only the last page is
short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from common.limits import MIB
from query_api.registry.values import Artifact, Revision, SimpleArtifact, Variant

BYTES_MAX: Final = 64 * MIB
"""The largest response, which is in memory about three times: six revisions of the largest body, or 6,000 of 10 KB."""

ROW_BYTES: Final = 1_000
"""The size of a row without what people wrote: ids, times, flags, and the names of members."""

_WRITTEN: Final = ("name", "description", "tags", "meta", "message", "data")
"""The columns that may be large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdWindow:
    """A page. ``newest`` and ``oldest`` bound the time of creation; which of them is inclusive: reference §8.1."""

    is_descending: bool = False
    after_id: UUID | None = None
    newest: datetime | None = None
    oldest: datetime | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Rows that have one of the ids or one of the slugs; ``None`` in both is no condition.

    If any version is given, ``versions`` is parallel to ids and slugs: a row with the id or slug of a place must have
    its version.
    """

    ids: tuple[UUID | None, ...] = ()
    slugs: tuple[str | None, ...] = ()
    versions: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The conditions on rows; ``None`` is no condition.

    ``name``, ``description`` and ``message`` are parts of the text; case is ignored. ``tags``, ``meta``, ``role_flags``
    (of the artifact) and ``revision_flags`` are JSON objects whose members a row must have. ``folder_id`` is a tuple of
    one, in which ``None`` selects rows without a folder.
    """

    slugs: tuple[str, ...] | None = None
    name: str | None = None
    description: str | None = None
    message: str | None = None
    version: int | None = None
    tags: str | None = None
    meta: str | None = None
    role_flags: str | None = None
    revision_flags: str | None = None
    folder_id: tuple[UUID | None] | None = None
    authors: tuple[UUID, ...] | None = None
    dates: tuple[datetime, ...] | None = None
    artifact_id: UUID | None = None
    variant_id: UUID | None = None
    artifacts: Named | None = None
    variants: Named | None = None
    revisions: Named | None = None
    includes_archived: bool = False


TABLES: Final[Mapping[type, str]] = {
    Artifact: """(
    SELECT *, id AS artifact_id, slug AS artifact_slug, flags AS artifact_flags, (
        SELECT r.flags FROM revisions r
        WHERE r.project_id = a.project_id AND r.variant_id = (
            SELECT id FROM variants WHERE project_id = a.project_id AND artifact_id = a.id
            ORDER BY created_at, id LIMIT 1)
        ORDER BY r.version DESC LIMIT 1) AS revision_flags
    FROM artifacts a)""",
    Variant: """(
    SELECT v.*, v.id AS variant_id, v.slug AS variant_slug, a.slug AS artifact_slug, a.flags AS artifact_flags, (
        SELECT r.flags FROM revisions r
        WHERE r.project_id = v.project_id AND r.variant_id = v.id ORDER BY r.version DESC LIMIT 1) AS revision_flags
    FROM variants v JOIN artifacts a ON a.project_id = v.project_id AND a.id = v.artifact_id)""",
    Revision: """(
    SELECT r.*, r.flags AS revision_flags, a.slug AS artifact_slug, a.flags AS artifact_flags, v.slug AS variant_slug
    FROM revisions r
    JOIN variants v ON v.project_id = r.project_id AND v.id = r.variant_id
    JOIN artifacts a ON a.project_id = r.project_id AND a.id = r.artifact_id)""",
    SimpleArtifact: """(
    SELECT a.*, a.id AS artifact_id, a.slug AS artifact_slug, a.flags AS artifact_flags,
        v.id AS variant_id, r.id AS revision_id, r.flags AS revision_flags, r.data
    FROM artifacts a
    CROSS JOIN LATERAL (
        SELECT id FROM variants
        WHERE project_id = a.project_id AND artifact_id = a.id ORDER BY created_at, id LIMIT 1) v
    CROSS JOIN LATERAL (
        SELECT id, flags, data FROM revisions
        WHERE project_id = a.project_id AND variant_id = v.id ORDER BY version DESC LIMIT 1) r)""",
}
"""The rows of each layer with the ids and slugs of the layers above, and the flags of the revision or the head."""


def page_statement(
    layer: type, search: Search, window: IdWindow, *, scope: tuple[UUID, str], columns: str, bytes_max: int
) -> tuple[str, list[object]]:
    """Return the bounded statement of a page, and its arguments. ``columns`` are the fields of the layer's value."""
    where = _Where("project_id = $1", "kind = $2", arguments=list(scope))
    _add_search(where, search)
    _add_window(where, window)
    direction = "DESC" if window.is_descending else "ASC"
    limit = "" if window.limit is None else f"\nLIMIT {where.place(window.limit)}"
    sql = f"SELECT {columns}\nFROM {TABLES[layer]} AS entity\nWHERE {where.text}\nORDER BY id {direction}{limit}"
    place = where.place(bytes_max)
    return bounded_statement(layer, sql, columns=columns, order=f"id {direction}", bytes_max=place), where.arguments


def bounded_statement(layer: type, statement: str, *, columns: str, order: str, bytes_max: str) -> str:
    """Return ``statement``, cut after the first row with which the rows are larger than ``bytes_max``.

    ``bytes_max`` is a placeholder like ``$3``. Rows have a column ``bytes_count``. ``order`` is the order of the
    statement.
    """
    written = [field.name for field in fields(layer) if field.name in _WRITTEN]
    size = " + ".join([f"{ROW_BYTES}::bigint", *(f"coalesce(octet_length({name}::text), 0)" for name in written)])
    return f"""SELECT {columns}, bytes_count
FROM (
    SELECT *, sum(bytes_count) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (SELECT *, {size} AS bytes_count FROM ({statement}) AS found OFFSET 0) AS measured) AS added_up
WHERE coalesce(bytes_before, 0) <= {bytes_max}::bigint
ORDER BY {order}"""


class _Where:
    """Conditions and their arguments."""

    def __init__(self, *clauses: str, arguments: list[object]) -> None:
        self._clauses = list(clauses)
        self.arguments = arguments

    @property
    def text(self) -> str:
        return "\n    AND ".join(self._clauses)

    def place(self, value: object) -> str:
        """Add an argument and return its placeholder, ``$n``."""
        self.arguments.append(value)
        return f"${len(self.arguments)}"

    def add(self, clause: str, *values: Any) -> None:
        """Add a condition; each ``{}`` in it becomes the placeholder of a value."""
        self._clauses.append(clause.format(*(self.place(value) for value in values)))

    def add_given(self, clause: str, value: Any) -> None:
        """Add a condition unless ``value`` is ``None``."""
        if value is not None:
            self.add(clause, value)


def _add_search(where: _Where, search: Search) -> None:
    if not search.includes_archived:
        where.add("deleted_at IS NULL")
    where.add_given("slug = ANY({}::text[])", search.slugs)
    for column in ("name", "description", "message"):
        where.add_given(f"position(lower({{}}::text) IN lower({column})) > 0", getattr(search, column))
    where.add_given("tags @> {}::jsonb", search.tags)
    where.add_given("meta::jsonb @> {}::jsonb", search.meta)
    _add_flags(where, "artifact_flags", search.role_flags)
    _add_flags(where, "revision_flags", search.revision_flags)
    where.add_given("created_by = ANY({}::uuid[])", search.authors)
    where.add_given("created_at = ANY({}::timestamptz[])", search.dates)
    where.add_given("version = {}::integer", search.version)
    where.add_given("artifact_id = {}::uuid", search.artifact_id)
    where.add_given("variant_id = {}::uuid", search.variant_id)
    if search.folder_id is not None:
        where.add("folder_id IS NOT DISTINCT FROM {}::uuid", search.folder_id[0])
    _add_named(where, search.artifacts, id_column="artifact_id", slug_column="artifact_slug")
    _add_named(where, search.variants, id_column="variant_id", slug_column="variant_slug")
    _add_named(where, search.revisions, id_column="id", slug_column="slug")


def _add_flags(where: _Where, column: str, wanted: str | None) -> None:
    """Add a condition on flags. A flag that was never set is false."""
    if wanted is not None:
        unset = json.dumps(dict.fromkeys(json.loads(wanted), False))
        where.add(f"({{}}::jsonb || coalesce({column}, '{{{{}}}}')) @> {{}}::jsonb", unset, wanted)


def _add_named(where: _Where, named: Named | None, *, id_column: str, slug_column: str) -> None:
    if named is None:
        return
    if not named.versions:
        clause = f"({id_column} = ANY({{}}::uuid[]) OR {slug_column} = ANY({{}}::text[]))"
        where.add(clause, list(named.ids), list(named.slugs))
        return
    clause = f"""EXISTS (
        SELECT FROM unnest({{}}::uuid[], {{}}::text[], {{}}::integer[]) AS named (id, slug, version)
        WHERE (entity.{id_column} = named.id OR entity.{slug_column} = named.slug
                OR coalesce(named.id::text, named.slug) IS NULL)
            AND coalesce(entity.version = named.version, true))"""
    where.add(clause, list(named.ids), list(named.slugs), list(named.versions))


def _add_window(where: _Where, window: IdWindow) -> None:
    """Add the bounds of a page. The first bound in its order is exclusive, but includes the time of a cursor."""
    loose = "=" if window.after_id is not None else ""
    if window.is_descending:
        where.add_given("id < {}", window.after_id)
        where.add_given(f"created_at <{loose} {{}}", window.newest)
        where.add_given("created_at >= {}", window.oldest)
    else:
        where.add_given("id > {}", window.after_id)
        where.add_given(f"created_at >{loose} {{}}", window.oldest)
        where.add_given("created_at <= {}", window.newest)
