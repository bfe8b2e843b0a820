"""The identity of spans and of their versions, and the rows that are at the place of a version now.

A page takes several statements, and producers store new versions in between. A version that was replaced at its place
by one that matches too must not be lost, so each step that misses the row of a version looks at its place again
(``current_rows``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from query_api.filter.sql.compile import Compiled
from query_api.spans.columns import HexDigits, packed_ids, packed_starts, rows_as, values_of
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.tables import SQL


class Position(NamedTuple):
    """The place of a span in the order of pages, which is the order of these columns."""

    start_us: int
    span_id: bytes
    trace_id: bytes


class SpanKey(NamedTuple):
    """The identity of a span in a project."""

    trace_id: bytes
    span_id: bytes


class Version(NamedTuple):
    """The identity of one row of ``spans``: its place and the record that it came in."""

    start_us: int
    span_id: bytes
    trace_id: bytes
    partition_id: bytes
    record_offset: int

    @property
    def key(self) -> SpanKey:
        """Return the span that this is a version of."""
        return SpanKey(self.trace_id, self.span_id)

    @property
    def position(self) -> Position:
        """Return its place in the order of pages."""
        return Position(self.start_us, self.span_id, self.trace_id)


def standing_in(versions: Iterable[Version], rows: Collection[Version]) -> dict[Version, Version]:
    """Map each version to its row, or else to the latest row that replaced it at its place in its partition.

    The engine drops a row only when it merges it with such a later one. So rows that one statement read at the place
    of a version hold one of the two, unless the version never had a row: then it is left out.
    """
    latest = {row[:-1]: row for row in sorted(rows)}
    found: dict[Version, Version] = {}
    for version in versions:
        row = version if version in rows else latest.get(version[:-1])
        if row is not None and row.record_offset >= version.record_offset:
            found[version] = row
    return found


def packed_versions(versions: Collection[Version]) -> dict[str, HexDigits]:
    """Return the parameters ``starts`` and ``span_ids`` for the places of versions (``among_starts``,
    ``among_ids``).
    """
    return {
        "starts": packed_starts([version.start_us for version in versions]),
        "span_ids": packed_ids([version.span_id for version in versions]),
    }


def versions_of(rows: pa.Table) -> list[Version]:
    """Return the versions of a table that has their columns."""
    return rows_as(Version, *(values_of(rows, name) for name in Version._fields))


class CurrentRow(NamedTuple):
    """A row of ``spans``, and whether it matches a filter."""

    version: Version
    answer_bytes: int
    matches: bool


async def current_rows(
    spans: ProjectSpans, versions: Collection[Version], matching: Compiled, *, step: str
) -> Mapping[Version, CurrentRow]:
    """Return the row of each version, or the row that replaced it at its place. Versions without either are left
    out.
    """
    if not versions:
        return {}
    values = {**matching.parameters, **packed_versions(versions)}
    rows = await spans.select(SQL["current_rows"].replace("{matching}", matching.sql), values, step=step)
    columns = (values_of(rows, "answer_bytes"), map(bool, values_of(rows, "matches")))
    found = {
        version: CurrentRow(version, *others) for version, *others in zip(versions_of(rows), *columns, strict=True)
    }
    return {version: found[row] for version, row in standing_in(versions, found.keys()).items()}
