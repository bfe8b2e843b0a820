"""Which version of a span is shown: the rule, and the only statements that know it (contract §4, ADR 0003).

A span may have been sent several times. In one log the version with the highest offset stands, unless it was deleted (a
deletion is the odd version above it); across logs the one whose record is latest, then the higher offset. That one is the
span's *head*, in ``span_heads``; a row of ``spans`` is shown exactly when it is the head of its key.

The rule is here twice: in SQL, for sums over whole traces, and in Python, for the versions of single spans, because to plan
the SQL takes the engine longer than all else about a page. A test compares the two.

An insert reaches ``span_heads`` and ``spans`` one a moment before the other, and a worker may die between. So a version of
which there is no row (``absent``) counts as not sent, and the one before it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from itertools import repeat
from operator import add
from typing import Any, Final, NamedTuple

import pyarrow as pa

from common.span import NO_METRICS, Metrics
from query_api.spans.parameters import ids_in
from query_api.spans.position import Position
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.render import SpanKey
from query_api.spans.rollup import TraceSums

_METRICS: Final = Metrics._fields
_HEADS: Final = f"""
SELECT
    trace_id,
    span_id,
    argMax(
        tuple(log, intDiv(last_version, 2), last_start_us, {", ".join(f"last_{name}" for name in _METRICS)}),
        tuple(last_record_ms, last_version, log)
    ) AS head
FROM
(
    SELECT
        trace_id,
        span_id,
        log,
        max(version) AS last_version,
        argMax(record_ms, version) AS last_record_ms,
        argMax(start_us, version) AS last_start_us,
        {", ".join(f"argMax({name}, version) AS last_{name}" for name in _METRICS)}
    FROM span_heads
    WHERE {{of_project}} AND {{which}}
    GROUP BY trace_id, span_id, log
    HAVING last_version % 2 = 0
)
GROUP BY trace_id, span_id
"""
_SUMS: Final = ", ".join(f"sum(head.{index}) AS {name}" for index, name in enumerate(_METRICS, 4))
_SUMS_OF: Final = f"""
SELECT trace_id, {_SUMS}
FROM ({_HEADS})
GROUP BY trace_id
"""
TRACES_WITH_SUMS: Final = _SUMS_OF.replace("{which}", "1").strip()
"""What the shown spans of every trace of the project used together: ``trace_id`` and a column each of ``Metrics``."""

_MERGED: Final = f"""
SELECT trace_id, span_id, log, intDiv(version, 2) AS log_offset, start_us, {", ".join(_METRICS)}
FROM span_heads FINAL
WHERE {{of_project}} AND {{which}} AND version % 2 = 0
ORDER BY trace_id, span_id, record_ms DESC, version DESC, log DESC
LIMIT 1 BY trace_id, span_id
"""
SHOWN_HEADS: Final = f"SELECT trace_id, span_id, log, log_offset, start_us FROM ({_MERGED})"
"""The same rule for many spans at once, which it reads in the order of the table: 9 ms for 100,000 heads instead of 70 by
groups. ``{which}`` is a condition on ``trace_id`` and ``span_id`` alone."""

SHOWN_SUMS: Final = (
    f"SELECT trace_id, {', '.join(f'sum({name}) AS {name}' for name in _METRICS)} FROM ({_MERGED}) GROUP BY trace_id"
)
"""What the shown spans of each trace used together, read likewise."""

_IN_TRACES: Final = f"trace_id IN {ids_in('{trace_ids:Array(String)}')}"
_IN_SPANS: Final = f"span_id IN {ids_in('{span_ids:Array(String)}')}"
_IN_WHOLE_TRACES: Final = f"trace_id IN {ids_in('{whole_trace_ids:Array(String)}')}"
_ENTRIES: Final = """
SELECT trace_id, span_id, log, version, record_ms, start_us{metrics}
FROM span_heads
WHERE {of_project} AND {which}
"""
_WITH_METRICS: Final = "".join(f", {name}" for name in _METRICS)
_PRESENT: Final = f"""
SELECT start_us, span_id, trace_id, log, log_offset
FROM spans
WHERE {{of_project}}
    AND start_us >= {{low:Int64}} AND start_us <= {{high:Int64}}
    AND start_us IN (SELECT arrayJoin({{starts:Array(Int64)}}))
    AND {_IN_SPANS}
"""
MANY_ENTRIES: Final = 2_000
"""From here on they are judged in a thread: about 3 ms."""


class Version(NamedTuple):
    """One row of ``spans``: where it stands and which record it came by."""

    start_us: int
    span_id: bytes
    trace_id: bytes
    log: bytes
    log_offset: int

    @property
    def key(self) -> SpanKey:
        """The span that this is a version of."""
        return SpanKey(self.trace_id, self.span_id)

    @property
    def position(self) -> Position:
        """Where it stands in the order of pages."""
        return Position(self.start_us, self.span_id, self.trace_id)


class _Entry(NamedTuple):
    """One row of ``span_heads``: a version that was sent, or the deletion of one."""

    trace_id: bytes
    span_id: bytes
    log: bytes
    version: int
    record_ms: int
    start_us: int
    metrics: Metrics

    @property
    def is_deletion(self) -> bool:
        return self.version % 2 == 1

    @property
    def sent(self) -> Version:
        """The version that this is about."""
        return Version(self.start_us, self.span_id, self.trace_id, self.log, self.version // 2)

    @property
    def rank(self) -> tuple[int, int, bytes]:
        """By which the head is chosen across logs."""
        return self.record_ms, self.version, self.log


async def heads_and_sums(
    spans: ProjectSpans,
    keys: Iterable[SpanKey],
    *,
    traces_to_sum: Collection[bytes],
    seen: Collection[Version] | None = None,
) -> tuple[set[Version], TraceSums]:
    """The shown versions of the spans, and of others of their traces; and what the shown spans of each of
    ``traces_to_sum``, which are traces of ``keys``, used together. One statement: to plan a second costs more than to read.

    ``seen`` are rows that are there. Where it is given, heads of ``keys`` that are not among them are looked for, and those
    without a row are not heads.
    """
    wanted = set(keys)
    if not wanted:
        return set(), {}
    which, metrics = f"{_IN_TRACES} AND {_IN_SPANS}", ""
    if traces_to_sum:
        which, metrics = f"{_IN_TRACES} AND ({_IN_WHOLE_TRACES} OR {_IN_SPANS})", _WITH_METRICS
    parameters = {
        "trace_ids": _hex({key.trace_id for key in wanted}),
        "span_ids": _hex({key.span_id for key in wanted}),
        "whole_trace_ids": _hex(set(traces_to_sum)),
    }
    entries = await _entries(spans, which, parameters, metrics=metrics)
    heads = await _judged(entries, ())
    if seen is not None:
        heads = await _with_rows(spans, entries, heads, wanted=wanted, seen=seen)
    return {head.sent for head in heads.values()}, _summed(heads.values(), traces_to_sum)


async def heads_of_ids(
    spans: ProjectSpans,
    *,
    trace_ids: Collection[bytes] = (),
    span_ids: Collection[bytes] = (),
    absent: Collection[Version] = (),
) -> list[Version]:
    """The shown versions of all spans that are of one of the traces and have one of the ids, where these are given.

    ``absent`` are versions that were looked for and have no row: another one stands in their place.
    """
    which = [text for text, ids in ((_IN_TRACES, trace_ids), (_IN_SPANS, span_ids)) if ids]
    if not which:
        return []
    parameters = {"trace_ids": _hex(trace_ids), "span_ids": _hex(span_ids)}
    entries = await _entries(spans, " AND ".join(which), parameters, metrics="")
    return [head.sent for head in (await _judged(entries, absent)).values()]


async def sums_of_traces(spans: ProjectSpans, trace_ids: Iterable[bytes]) -> TraceSums:
    """What the shown spans of each trace used together."""
    wanted = _hex(set(trace_ids))
    if not wanted:
        return {}
    rows = await spans.select(_SUMS_OF.replace("{which}", _IN_TRACES), {"trace_ids": wanted}, step="sums")
    return _sums(rows)


def versions_of(rows: pa.Table) -> list[Version]:
    """The rows of a table that has the columns of a ``Version``."""
    return list(map(Version._make, zip(*(_column(rows, name) for name in Version._fields), strict=True)))


async def _entries(spans: ProjectSpans, which: str, parameters: Mapping[str, Any], *, metrics: str) -> list[_Entry]:
    sql = _ENTRIES.replace("{which}", which).replace("{metrics}", metrics)
    rows = await spans.select(sql, parameters, step="heads")
    if rows.num_rows < MANY_ENTRIES:
        return _entries_of(rows)
    return await asyncio.to_thread(_entries_of, rows)


def _entries_of(rows: pa.Table) -> list[_Entry]:
    columns = [_column(rows, name) for name in _Entry._fields[:-1]]
    metrics: Iterable[Metrics] = repeat(NO_METRICS)
    if _METRICS[0] in rows.column_names:
        metrics = map(Metrics._make, zip(*(_column(rows, name) for name in _METRICS), strict=True))
    return list(map(_Entry._make, zip(*columns, metrics, strict=False)))


async def _judged(entries: list[_Entry], absent: Collection[Version]) -> dict[SpanKey, _Entry]:
    if len(entries) < MANY_ENTRIES:
        return _heads_among(entries, absent)
    return await asyncio.to_thread(_heads_among, entries, absent)


def _heads_among(entries: Iterable[_Entry], absent: Collection[Version]) -> dict[SpanKey, _Entry]:
    """The rule, over all that is known of some spans."""
    latest: dict[tuple[bytes, bytes, bytes], _Entry] = {}
    for entry in entries:
        if absent and not entry.is_deletion and entry.sent in absent:
            continue
        known = latest.setdefault(entry[:3], entry)
        if known.version < entry.version:
            latest[entry[:3]] = entry
    heads: dict[SpanKey, _Entry] = {}
    for entry in latest.values():
        if entry.is_deletion:
            continue
        key = SpanKey(entry.trace_id, entry.span_id)
        known = heads.setdefault(key, entry)
        if known.rank < entry.rank:
            heads[key] = entry
    return heads


async def _with_rows(
    spans: ProjectSpans,
    entries: list[_Entry],
    heads: dict[SpanKey, _Entry],
    *,
    wanted: Collection[SpanKey],
    seen: Collection[Version],
) -> dict[SpanKey, _Entry]:
    """The heads when versions without a row are left out."""
    present, absent = set(seen), set[Version]()
    while unseen := {head.sent for key, head in heads.items() if key in wanted} - present:
        present |= await _present(spans, unseen)
        if unseen <= present:
            break
        absent |= unseen - present
        heads = await _judged(entries, absent)
    return heads


async def _present(spans: ProjectSpans, versions: Collection[Version]) -> set[Version]:
    """Versions that have a row, among them all of these that have one."""
    starts = sorted({version.start_us for version in versions})
    values = {"low": starts[0], "high": starts[-1], "starts": starts}
    rows = await spans.select(
        _PRESENT, {**values, "span_ids": _hex({version.span_id for version in versions})}, step="rows of heads"
    )
    return set(versions_of(rows))


def _summed(heads: Iterable[_Entry], trace_ids: Collection[bytes]) -> TraceSums:
    sums: dict[bytes, Metrics] = {}
    for head in heads:
        if head.trace_id in trace_ids:
            known = sums.get(head.trace_id, NO_METRICS)
            sums[head.trace_id] = head.metrics if known is NO_METRICS else Metrics._make(map(add, known, head.metrics))
    return sums


def _sums(rows: pa.Table) -> TraceSums:
    metrics = zip(*(_column(rows, name) for name in _METRICS), strict=True)
    return dict(zip(_column(rows, "trace_id"), map(Metrics._make, metrics), strict=True))


def _column(rows: pa.Table, name: str) -> list[Any]:
    values: list[Any] = rows.column(name).to_pylist()
    return values


def _hex(ids: Iterable[bytes]) -> list[str]:
    return [each.hex() for each in ids]
