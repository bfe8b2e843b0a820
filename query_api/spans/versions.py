"""Spans and their versions by their identity: from columns of a result, and as parameters of a statement.

Whole columns at a time: Arrow makes a Python object for each value of a fixed size, a third of a microsecond each, and
a page of traces has ten thousand ids. NumPy cuts the same memory twenty times as fast.

A page takes several statements, and producers store new versions in between. A version that was replaced at its place
by one that matches too must not be lost, so each step that misses the row of a version looks at its place again
(``current_rows``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from query_api.filter.sql.compile import Compiled
from query_api.spans.project_spans import SQL, ProjectSpans

ID_BYTES: Final = 16

TRIES_MAX: Final = 5
"""How often versions are looked up again because the row of one is still being stored."""

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

Row = TypeVar("Row", bound=tuple[Any, ...])


def values_of(rows: pa.Table, name: str) -> list[Any]:
    """Return the column as a list."""
    column = rows.column(name)
    if pa.types.is_fixed_size_binary(column.type):
        return split_ids(id_bytes(rows, name))
    values: list[Any] = column.to_pylist()
    return values


def holds_only(rows: pa.Table, name: str, blank: bytes | int | None) -> bool:
    """Whether all rows hold ``blank``: null, the empty text or zero.

    Decided without looking at each row; ``False`` if that is not possible.
    """
    column = rows.column(name)
    if blank is None or column.null_count:
        return blank is None and column.null_count == len(column)
    if blank == 0:
        return not column.to_numpy().any()
    return not any(chunk.buffers()[-1] for chunk in column.chunks)


def rows_as(kind: type[Row], *columns: Iterable[Any]) -> list[Row]:
    """Return rows of parallel columns as named tuples; takes a third of the time of calling the type."""
    return list(map(tuple.__new__, repeat(kind), zip(*columns, strict=True)))


def id_bytes(rows: pa.Table, name: str) -> bytes:
    """Return the ids of a column, concatenated."""
    return b"".join(_id_bytes(chunk) for chunk in rows.column(name).chunks)


def split_ids(joined: bytes) -> list[bytes]:
    """Split concatenated ids."""
    ids: list[bytes] = np.frombuffer(joined, f"V{ID_BYTES}").tolist()  # not S16: that drops zeros at the end
    return ids


def integers_of(rows: pa.Table, name: str) -> Integers:
    """Return a column of integers."""
    integers: Integers = rows.column(name).to_numpy().astype(np.int64, copy=False)
    return integers


def among_ids(name: str) -> str:
    """Return the right side of ``IN`` for a parameter that ``packed_ids`` made.

    It is a constant for the engine, which uses an index for it as for a subquery, and plans it a tenth faster. A list
    that is made by nested functions is neither folded nor looked up.
    """
    return f"reinterpret({{{name}:String}}, 'Array(FixedString({ID_BYTES}))')"


def among_starts(name: str) -> str:
    """Return the right side of ``IN`` for a parameter that ``packed_starts`` made; the primary key prunes by it."""
    return f"reinterpret({{{name}:String}}, 'Array(Int64)')"


def packed_ids(ids: Collection[bytes]) -> bytes:
    """Return ids as the value of a parameter."""
    return b"".join(ids)


def packed_starts(starts_us: Sequence[int] | Integers) -> bytes:
    """Return microseconds as the value of a parameter: eight bytes each, little-endian."""
    return np.asarray(starts_us, "<i8").tobytes()


def _id_bytes(chunk: pa.Array) -> bytes:
    if not len(chunk):
        return b""
    values = chunk.buffers()[1]
    ids: bytes = values[chunk.offset * ID_BYTES : (chunk.offset + len(chunk)) * ID_BYTES].to_pybytes()
    return ids


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


def packed_places(starts_us: Sequence[int] | Integers, span_ids: bytes) -> dict[str, bytes]:
    """Return the parameters ``starts`` and ``span_ids``; the ids are concatenated."""
    return {"starts": packed_starts(starts_us), "span_ids": span_ids}


def packed_versions(versions: Collection[Version]) -> dict[str, bytes]:
    """Return the parameters ``starts`` and ``span_ids`` for the places of versions (``among_starts``,
    ``among_ids``).
    """
    return packed_places(
        [version.start_us for version in versions], b"".join([version.span_id for version in versions])
    )


def versions_of(rows: pa.Table) -> list[Version]:
    """Return the versions of a table that has their columns."""
    return rows_as(Version, *(values_of(rows, name) for name in Version._fields))


class CurrentRow(NamedTuple):
    """A row of ``spans``, and whether it matches a filter."""

    version: Version
    response_bytes: int
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
    columns = (values_of(rows, "response_bytes"), map(bool, values_of(rows, "matches")))
    found = {
        version: CurrentRow(version, *others) for version, *others in zip(versions_of(rows), *columns, strict=True)
    }
    return {version: found[row] for version, row in standing_in(versions, found.keys()).items()}
