"""Spans and their versions by their identity, and which version of a span is visible (contract §4, ADR 0003).

A span may be sent several times. In one partition the version with the highest number is the latest, and between
partitions the rule of ``common/span_version.py`` decides. A row of ``spans`` is visible exactly if it is the latest
version of its span in ``span_versions``, and that is no deletion.

The rule is here in Python, for the spans of a page (``latest_among``), and in SQL, for aggregates over many spans
(``latest_versions``): planning the SQL takes longer than all other work for a page. A test compares the two.

Ids travel as whole columns: Arrow makes a Python object for each value of a fixed size, a third of a microsecond each,
and a page of traces has ten thousand ids. NumPy cuts the same memory twenty times as fast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from common.clickhouse.select import NO_VALUES, Select, Table
from common.span import Metrics
from common.span_version import DELETION_SQL, IS_SENT_SQL, LATEST_FIRST_SQL, is_deletion, offset_of, standing_of

ID_BYTES: Final = 16

TRIES_MAX: Final = 5
"""How often versions are looked up again because the row of one is still being stored."""

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_USAGE: Final = np.dtype([("amounts", "<f8", len(Metrics._fields)), ("is_own", "u1"), ("cost_is_computed", "u1")])
"""The column ``usage`` of ``span_versions`` (``ddl/0001_baseline.sql``)."""

AMOUNTS_SQL: Final[Mapping[str, str]] = {
    name: f"reinterpretAsFloat64(substring(usage, {1 + 8 * index}, 8))" for index, name in enumerate(Metrics._fields)
}
"""The fields of ``Metrics`` as expressions over a row of ``span_versions``."""

_FLAGS_SQL: Final[Mapping[str, str]] = {
    "usage_is_own": f"reinterpretAsUInt8(substring(usage, {_USAGE.itemsize - 1}, 1))",
    "cost_is_computed": f"reinterpretAsUInt8(substring(usage, {_USAGE.itemsize}, 1))",
}

LATEST_COLUMNS: Final = (
    *("trace_id", "span_id", "partition_id", "version", "start_us", "parent_id"),
    *(f"{expression} AS {name}" for name, expression in {**_FLAGS_SQL, **AMOUNTS_SQL}.items()),
)

DELETION_COLUMNS: Final = ("project_id", "trace_id", "span_id", "partition_id", "version", "record_ms", "start_us")

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


class TracePosition(NamedTuple):
    """The place of a trace in the order of pages, which is the order of these columns."""

    start_us: int
    """The start of its latest match."""

    trace_id: bytes


class SpanKey(NamedTuple):
    """The identity of a span in a project."""

    trace_id: bytes
    span_id: bytes


class Version(NamedTuple):
    """The identity of one row of ``spans``: its place, and its partition and number (``common/span_version.py``)."""

    start_us: int
    span_id: bytes
    trace_id: bytes
    partition_id: bytes
    version: int

    @property
    def key(self) -> SpanKey:
        """Return the span that this is a version of."""
        return SpanKey(self.trace_id, self.span_id)

    @property
    def record_offset(self) -> int:
        """Return the offset of its record."""
        return offset_of(self.version)

    @property
    def position(self) -> Position:
        """Return its place in the order of pages."""
        return Position(self.start_us, self.span_id, self.trace_id)


def standing_in(versions: Iterable[Version], rows: Collection[Version]) -> dict[Version, Version]:
    """Map each version to its row, or else to the latest row that replaced it at its place in its partition.

    A version that never had a row, and that no later row replaced, is left out.
    """
    latest = {row[:-1]: row for row in sorted(rows)}
    found: dict[Version, Version] = {}
    for version in versions:
        row = version if version in rows else latest.get(version[:-1])
        if row is not None and row.version >= version.version:
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


class Reported(NamedTuple):
    """What one version used, and how it counts (ADR 0010)."""

    metrics: Metrics
    is_own: bool
    """Whether it counts whatever other spans report."""

    cost_is_computed: bool
    """Whether the costs are list prices."""


@dataclass(frozen=True, slots=True)
class SentVersions:
    """Rows of ``span_versions``, column by column: versions that were sent, and their deletions."""

    keys: list[tuple[bytes, bytes]]
    """Trace id and span id, as in ``SpanKey``."""

    versions: list[int]
    """The numbers of ``sent``: even; that of a deletion is odd."""

    record_ms: list[int]
    sent: list[Version]
    """The version that each row is, or deletes."""

    parent_ids: list[bytes]
    """Empty if nothing is summed."""

    reports: Mapping[int, Reported]
    """What a version used, by the index of its row, without those that used nothing. Empty if nothing is summed."""

    @classmethod
    def of(cls, rows: pa.Table) -> SentVersions:
        """Read the rows of a table."""
        has_usage = "usage" in rows.column_names
        return cls(
            keys=list(zip(values_of(rows, "trace_id"), values_of(rows, "span_id"), strict=True)),
            versions=values_of(rows, "version"),
            record_ms=values_of(rows, "record_ms"),
            sent=versions_of(rows),
            parent_ids=values_of(rows, "parent_id") if has_usage else [],
            reports=_reports(rows) if has_usage else {},
        )

    def is_deletion(self, index: int) -> bool:
        """Whether the row is the deletion of a version."""
        return is_deletion(self.versions[index])

    def rank(self, index: int) -> tuple[int, int, int, bytes]:
        """Return the key whose maximum is the latest version across partitions."""
        version = self.versions[index]
        return standing_of(version), self.record_ms[index], version, self.sent[index].partition_id


Latest = dict[tuple[bytes, bytes], int]
"""Span → index of the row of its latest version."""


def latest_among(sent_versions: SentVersions, absent: Collection[Version]) -> Latest:
    """Apply the rule to all rows of some spans."""
    once = dict(zip(sent_versions.keys, range(len(sent_versions.keys)), strict=True))
    if len(once) == len(sent_versions.keys) and not absent:  # nearly always: each span was sent once
        versions = sent_versions.versions
        return {key: index for key, index in once.items() if versions[index] % 2 == 0}
    latest: Latest = {}
    for index in _latest_in_partitions(sent_versions, absent):
        key = sent_versions.keys[index]
        known = latest.setdefault(key, index)
        if sent_versions.rank(known) < sent_versions.rank(index):
            latest[key] = index
    return {key: index for key, index in latest.items() if not sent_versions.is_deletion(index)}


def _latest_in_partitions(sent_versions: SentVersions, absent: Collection[Version]) -> Iterable[int]:
    """Return the latest version of each span in each partition, or its deletion."""
    latest: dict[tuple[bytes, bytes, bytes], int] = {}
    for index, ((trace_id, span_id), sent) in enumerate(zip(sent_versions.keys, sent_versions.sent, strict=True)):
        if sent in absent and not sent_versions.is_deletion(index):
            continue
        known = latest.setdefault((trace_id, span_id, sent.partition_id), index)
        if sent_versions.versions[known] < sent_versions.versions[index]:
            latest[trace_id, span_id, sent.partition_id] = index
    return latest.values()


def _reports(rows: pa.Table) -> dict[int, Reported]:
    if holds_only(rows, "usage", b""):
        return {}
    usages = values_of(rows, "usage")
    indexes = [index for index, usage in enumerate(usages) if usage]
    read = np.frombuffer(b"".join(usages), _USAGE)
    metrics = map(Metrics._make, read["amounts"].tolist())
    flags = (read[name].astype(bool).tolist() for name in ("is_own", "cost_is_computed"))
    return dict(zip(indexes, rows_as(Reported, metrics, *flags), strict=True))


def sent_versions(
    project_id: UUID, conditions: Sequence[str], parameters: Mapping[str, Any], *, columns: Sequence[str] = ()
) -> Select:
    """Return a query of every version of some spans, and of every deletion: what ``latest_among`` judges."""
    own = ("trace_id", "span_id", "partition_id", "version", "record_ms", "start_us")
    return Select(project_id, Table.VERSIONS, [*own, *columns], prewhere=conditions, parameters=parameters)


def latest_versions(
    project_id: UUID,
    conditions: Sequence[str] = (),
    parameters: Mapping[str, Any] = NO_VALUES,
    *,
    columns: Sequence[str] = LATEST_COLUMNS,
) -> Select:
    """Return a query of the latest version of each span that is not deleted.

    The conditions are on ``trace_id`` and ``span_id`` alone. ``columns`` are expressions over a row of
    ``span_versions``. Reads in the order of the table: 9 ms for 100,000 versions, against 70 ms when grouped.
    """
    latest = Select(
        project_id,
        Table.VERSIONS,
        ["*"],
        where=conditions,
        is_final=True,
        order_by=["trace_id", "span_id", *LATEST_FIRST_SQL],
        limit_by="1 BY trace_id, span_id",
        parameters=parameters,
    )
    return Select(project_id, latest, columns, where=[IS_SENT_SQL])


def latest_versions_of_few(project_id: UUID, conditions: Sequence[str]) -> Select:
    """Return a query of the places of the same versions for a few of many traces.

    ``FINAL`` would merge the versions of all traces: twice the processor time for 10,000 spans of a million.
    """
    keys = ["trace_id", "span_id", "partition_id"]
    in_partitions = Select(
        project_id,
        Table.VERSIONS,
        [*keys, "argMax((version, start_us, record_ms), version) AS latest"],
        prewhere=conditions,
        group_by=keys,
    )
    versions = [*keys, "latest.1 AS version", "latest.2 AS start_us"]
    latest = Select(
        project_id,
        Select(project_id, in_partitions, [*versions, "latest.3 AS record_ms"]),
        ["*"],
        order_by=["trace_id", "span_id", *LATEST_FIRST_SQL],
        limit_by="1 BY trace_id, span_id",
    )
    return Select(project_id, latest, [*keys, "version", "start_us"], where=[IS_SENT_SQL])


def deletions(project_id: UUID, conditions: Sequence[str], parameters: Mapping[str, Any]) -> Select:
    """Return a query of what deletes spans, in the order of ``DELETION_COLUMNS``.

    For each partition, the last number of the offset of the latest version, which is odd.

    A redelivery of the record stays below it, a new record is above it, unless an end is deleted and that is a start.
    """
    keys = ["project_id", "trace_id", "span_id", "partition_id"]
    last = [
        f"{DELETION_SQL} AS deletion",
        "argMax(record_ms, version)",
        "argMax(start_us, version)",
    ]
    return Select(
        project_id,
        Table.VERSIONS,
        [*keys, *last],
        where=conditions,
        group_by=keys,
        having=["max(version) % 2 = 0"],
        parameters=parameters,
    )
