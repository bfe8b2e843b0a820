"""Which version of a span is visible: the rule, in Python and in SQL (contract §4, ADR 0003).

A span may be sent several times. In one partition the version with the highest offset is the latest, unless it was
deleted (a deletion is the odd version above it). Across partitions it is the one with the latest record time, then
the higher offset. A row of ``spans`` is visible exactly if it is the latest version of its span in ``span_versions``.

The rule is here in Python, for the spans of a page, and in ``queries.sql`` (``latest_versions``), for aggregates over
many spans: planning the SQL takes longer than all other work for a page. A test compares the two.

An insert reaches ``span_versions`` and ``spans`` at slightly different times, and a worker may die in between. So a
version without a row (``absent``) counts as not sent, and the one before it is the latest. A version whose row the
engine has merged into a later one is returned as that later one (``current_rows`` in ``versions.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from common.fair_share import in_thread
from common.span import NO_METRICS, Metrics
from query_api.filter.sql.compile import Compiled
from query_api.spans.project_spans import SQL, ProjectSpans
from query_api.spans.usage import Report, TraceSums, counted
from query_api.spans.versions import (
    CurrentRow,
    Position,
    SpanKey,
    Version,
    among_ids,
    current_rows,
    packed_ids,
    rows_as,
    values_of,
)

_USAGE: Final = ", ".join(("parent_id", "usage_is_own", *Metrics._fields))
"""What sums need: nine of 15 columns, a quarter of the processor time of a read where versions are scattered."""
_IN_TRACES: Final = f"trace_id IN {among_ids('trace_ids')}"
_IN_SPANS: Final = f"span_id IN {among_ids('span_ids')}"
_IN_WHOLE_TRACES: Final = f"trace_id IN {among_ids('whole_trace_ids')}"
MANY_VERSIONS: Final = 5_000
"""From this number on they are judged in a thread: about 3 ms."""

_TRACE_ID: Final = attrgetter("trace_id")
_SPAN_ID: Final = attrgetter("span_id")
_KEY: Final = attrgetter("trace_id", "span_id")


@dataclass(frozen=True, slots=True)
class _SentVersions:
    """Rows of ``span_versions``, column by column: versions that were sent, and their deletions."""

    keys: list[tuple[bytes, bytes]]
    """Trace id and span id, as in ``SpanKey``."""

    versions: list[int]
    """Even; the deletion of a version is odd."""

    record_ms: list[int]
    sent: list[Version]
    """The version that each row is about."""

    parent_ids: list[bytes]
    """Empty if nothing is summed."""

    are_own: list[int]
    """1 if the usage is the span's own (ADR 0010), else 0. Empty if nothing is summed."""

    reports: Mapping[int, Metrics]
    """What a version used, by the index of its row, without those that used nothing. Empty if nothing is summed."""

    @classmethod
    def of(cls, rows: pa.Table) -> _SentVersions:
        """Read the rows of a table."""
        has_usage = "usage_is_own" in rows.column_names
        return cls(
            keys=list(zip(values_of(rows, "trace_id"), values_of(rows, "span_id"), strict=True)),
            versions=values_of(rows, "version"),
            record_ms=values_of(rows, "record_ms"),
            sent=_sent(rows),
            parent_ids=values_of(rows, "parent_id") if has_usage else [],
            are_own=values_of(rows, "usage_is_own") if has_usage else [],
            reports=_reports(rows) if has_usage else {},
        )

    def is_deletion(self, index: int) -> bool:
        """Whether the row is the deletion of a version."""
        return self.versions[index] % 2 == 1

    def rank(self, index: int) -> tuple[int, int, bytes]:
        """Return the key whose maximum is the latest version across partitions."""
        return self.record_ms[index], self.versions[index], self.sent[index].partition_id


_Latest = dict[tuple[bytes, bytes], int]
"""Span → index of the row of its latest version."""

OnSent: TypeAlias = Callable[[pa.Table], Awaitable[None]]
"""Called with the rows of ``span_versions``, ``members`` included, before it is known which of them are visible."""


class LatestAndSums(NamedTuple):
    """The latest versions of some spans, and what their traces used."""

    latest: set[Version]
    sums: TraceSums
    """What the visible spans of each trace to sum used together."""

    replacements: Mapping[Position, CurrentRow]
    """Latest versions that match and were not seen: each replaced a seen version at its place after that was read."""

    deleted: Collection[Version]
    """Seen versions that were the latest of their span when it was deleted. It was not sent again since."""


async def latest_and_sums(
    spans: ProjectSpans,
    seen: Collection[Version],
    matching: Compiled,
    *,
    traces_to_sum: Collection[bytes],
    on_sent: OnSent | None = None,
) -> LatestAndSums:
    """Return the latest versions of the spans of ``seen`` and of other spans of their traces, and the sums of
    ``traces_to_sum``.

    One statement: planning a second one costs more than reading. ``traces_to_sum`` are among the traces of ``seen``.
    ``seen`` are versions that have a row and match. Other latest versions of the same spans are looked up; those
    without a row do not count. ``on_sent`` is awaited with all versions of these traces before they are judged,
    unless there are many: nearly all of them are latest versions.
    """
    if not seen:
        return LatestAndSums(set(), {}, {}, ())
    trace_ids, whole = set(map(_TRACE_ID, seen)), set(traces_to_sum)
    condition, parameters = _IN_TRACES, {"trace_ids": packed_ids(trace_ids)}
    if not trace_ids <= whole:
        narrowed = f"({_IN_WHOLE_TRACES} OR {_IN_SPANS})" if whole else _IN_SPANS
        condition = f"{_IN_TRACES} AND {narrowed}"
        parameters |= {"span_ids": packed_ids(set(map(_SPAN_ID, seen))), "whole_trace_ids": packed_ids(whole)}
    sent_versions = await _read_versions(spans, condition, parameters, with_usage=bool(whole), on_sent=on_sent)
    latest, rows = await _with_rows(spans, sent_versions, seen, matching)
    visible = {sent_versions.sent[index] for index in latest.values()}
    if rows:
        visible = {rows[version].version if version in rows else version for version in visible}
    are_many = len(sent_versions.keys) >= MANY_VERSIONS
    sums = await in_thread(_summed, sent_versions, latest, whole) if are_many else _summed(sent_versions, latest, whole)
    deleted = _deleted(sent_versions, latest, [version for version in seen if version not in visible])
    return LatestAndSums(visible, sums, _replacements(seen, rows.values()), deleted)


async def latest_of_ids(
    spans: ProjectSpans,
    *,
    trace_ids: Collection[bytes] = (),
    span_ids: Collection[bytes] = (),
    absent: Collection[Version] = (),
) -> list[Version]:
    """Return the latest versions of all spans in one of the traces and with one of the ids, if these are given.

    ``absent`` are versions that were looked up and have no row: an earlier version takes their place.
    """
    conditions = [text for text, ids in ((_IN_TRACES, trace_ids), (_IN_SPANS, span_ids)) if ids]
    if not conditions:
        return []
    parameters = {"trace_ids": packed_ids(trace_ids), "span_ids": packed_ids(span_ids)}
    sent_versions = await _read_versions(spans, " AND ".join(conditions), parameters, with_usage=False)
    return [sent_versions.sent[index] for index in (await _judged(sent_versions, absent)).values()]


async def latest_of_traces(
    spans: ProjectSpans,
    trace_ids: Collection[bytes],
    *,
    absent: Collection[Version] = (),
    on_sent: OnSent | None = None,
) -> tuple[list[Version], TraceSums]:
    """Return the latest versions of all spans of the traces, and what those of each trace used together.

    ``absent`` as for ``latest_of_ids``, ``on_sent`` as for ``latest_and_sums``.
    """
    if not trace_ids:
        return [], {}
    sent_versions = await _read_versions(
        spans, _IN_TRACES, {"trace_ids": packed_ids(trace_ids)}, with_usage=True, on_sent=on_sent
    )
    latest = await _judged(sent_versions, absent)
    return [sent_versions.sent[index] for index in latest.values()], _summed(sent_versions, latest, trace_ids)


async def sums_of_traces(spans: ProjectSpans, trace_ids: Iterable[bytes]) -> TraceSums:
    """Return what the visible spans of each trace used together."""
    return (await latest_of_traces(spans, set(trace_ids)))[1]


async def delete_trace(spans: ProjectSpans, trace_id: bytes) -> list[SpanKey]:
    """Delete all spans of the trace; return the keys of those that were visible until now, sorted. Safe to repeat.

    One statement: it deletes what it reads, and a span that arrives while it runs is a new record. The rows of
    ``spans`` stay, and no route returns them, until retention removes them.
    """
    visible = await latest_of_ids(spans, trace_ids=[trace_id])
    sql = SQL["delete_spans"].replace("{condition}", SQL["of_trace"])
    await spans.execute(sql, {"trace_id": trace_id.hex()})
    return sorted(version.key for version in visible)


async def _read_versions(
    spans: ProjectSpans,
    condition: str,
    parameters: Mapping[str, Any],
    *,
    with_usage: bool,
    on_sent: OnSent | None = None,
) -> _SentVersions:
    others = (f", {_USAGE}" if with_usage else "") + (", members" if on_sent is not None else "")
    sql = SQL["sent_versions"].replace("{condition}", condition).replace("{others}", others)
    rows = await spans.select(sql, parameters, step="latest versions")
    if rows.num_rows >= MANY_VERSIONS:
        return await in_thread(_SentVersions.of, rows)
    if on_sent is not None:
        await on_sent(rows)
    return _SentVersions.of(rows)


def _sent(rows: pa.Table) -> list[Version]:
    """Return the version that each row of ``span_versions`` is about."""
    starts, span_ids, trace_ids, partition_ids, versions = (
        values_of(rows, name) for name in ("start_us", "span_id", "trace_id", "partition_id", "version")
    )
    return rows_as(Version, starts, span_ids, trace_ids, partition_ids, (version // 2 for version in versions))


def _reports(rows: pa.Table) -> dict[int, Metrics]:
    if not rows.num_rows:
        return {}
    columns = [rows.column(name).to_numpy() for name in Metrics._fields]
    if not any(column.any() for column in columns):
        return {}
    amounts = np.column_stack(columns)
    indexes = np.flatnonzero((amounts != 0).any(axis=1))
    return dict(zip(indexes.tolist(), map(Metrics._make, amounts[indexes].tolist()), strict=True))


async def _judged(sent_versions: _SentVersions, absent: Collection[Version]) -> _Latest:
    if len(sent_versions.keys) < MANY_VERSIONS:
        return _latest_among(sent_versions, absent)
    return await in_thread(_latest_among, sent_versions, absent)


def _latest_among(sent_versions: _SentVersions, absent: Collection[Version]) -> _Latest:
    """Apply the rule to all rows of some spans."""
    once = dict(zip(sent_versions.keys, range(len(sent_versions.keys)), strict=True))
    if len(once) == len(sent_versions.keys) and not absent:  # nearly always: each span was sent once
        versions = sent_versions.versions
        return {key: index for key, index in once.items() if versions[index] % 2 == 0}
    latest: _Latest = {}
    for index in _latest_in_partitions(sent_versions, absent):
        key = sent_versions.keys[index]
        known = latest.setdefault(key, index)
        if sent_versions.rank(known) < sent_versions.rank(index):
            latest[key] = index
    return latest


def _latest_in_partitions(sent_versions: _SentVersions, absent: Collection[Version]) -> Iterable[int]:
    """Return the latest version of each span in each partition, unless the span is deleted there."""
    latest: dict[tuple[bytes, bytes, bytes], int] = {}
    for index, ((trace_id, span_id), sent) in enumerate(zip(sent_versions.keys, sent_versions.sent, strict=True)):
        if sent in absent and not sent_versions.is_deletion(index):
            continue
        known = latest.setdefault((trace_id, span_id, sent.partition_id), index)
        if sent_versions.versions[known] < sent_versions.versions[index]:
            latest[trace_id, span_id, sent.partition_id] = index
    return (index for index in latest.values() if not sent_versions.is_deletion(index))


async def _with_rows(
    spans: ProjectSpans, sent_versions: _SentVersions, seen: Collection[Version], matching: Compiled
) -> tuple[_Latest, Mapping[Version, CurrentRow]]:
    """Return the latest versions of spans that have rows, and the rows of those that were not seen."""
    latest = await _judged(sent_versions, ())
    rows: dict[Version, CurrentRow] = {}
    absent: set[Version] = set()
    while unseen := _of_spans_of(seen, {sent_versions.sent[index] for index in latest.values()}.difference(seen, rows)):
        rows |= await current_rows(spans, unseen, matching, step="rows of latest versions")
        if unseen <= rows.keys():
            break
        absent |= unseen - rows.keys()
        latest = await _judged(sent_versions, absent)
    return latest, rows


def _replacements(seen: Collection[Version], rows: Collection[CurrentRow]) -> Mapping[Position, CurrentRow]:
    """Return the rows that match and are at the place of a seen version."""
    if not rows:
        return {}
    places = {version.position for version in seen}
    return {row.version.position: row for row in rows if row.matches and row.version.position in places}


def _deleted(sent_versions: _SentVersions, latest: _Latest, stale: Sequence[Version]) -> Collection[Version]:
    """Return those of ``stale`` that were the latest version of a span without a visible one."""
    gone = {_KEY(version): version for version in stale if _KEY(version) not in latest}
    if not gone:
        return ()
    last: dict[tuple[bytes, bytes], int] = {}
    for index, key in enumerate(sent_versions.keys):
        if key in gone and sent_versions.rank(last.setdefault(key, index)) < sent_versions.rank(index):
            last[key] = index
    return {sent_versions.sent[index] for index in last.values()}.intersection(stale)


def _of_spans_of(seen: Collection[Version], others: set[Version]) -> set[Version]:
    """Return those of ``others`` that are versions of spans of ``seen``."""
    if not others:
        return others
    wanted = set(map(_KEY, seen))
    return {version for version in others if _KEY(version) in wanted}


def _summed(sent_versions: _SentVersions, latest: _Latest, trace_ids: Collection[bytes]) -> TraceSums:
    """Add up what counts of the latest versions of each trace that used something."""
    if not sent_versions.reports:
        return {}
    by_trace: dict[bytes, list[int]] = defaultdict(list)
    for (trace_id, _), index in latest.items():
        if trace_id in trace_ids:
            by_trace[trace_id].append(index)
    return {
        trace_id: counted(
            Report(
                sent_versions.keys[index][1],
                sent_versions.parent_ids[index],
                sent_versions.reports.get(index, NO_METRICS),
                sent_versions.are_own[index] == 1,
            )
            for index in indexes
        )
        for trace_id, indexes in by_trace.items()
        if not sent_versions.reports.keys().isdisjoint(indexes)
    }
