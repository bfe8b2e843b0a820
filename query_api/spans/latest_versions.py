"""Which version of a span is shown: the rule, and the only statements that know it (contract §4, ADR 0003).

A span may have been sent several times. In one log the version with the highest offset stands, unless it was deleted
(a deletion is the odd version above it); across logs the one whose record is latest, then the higher offset. That one
is the span's *head*, in ``span_versions``; a row of ``spans`` is shown exactly when it is the head of its key.

The rule is here twice: in SQL, for numbers over many spans, and in Python, for the spans of a page, because to plan
the SQL takes the engine longer than all else about a page. A test compares the two. What the spans of a trace used
together is ``usage.py``'s concern, here are the heads that it counts.

An insert reaches ``span_versions`` and ``spans`` one a moment before the other, and a worker may die between. So a
version of which there is no row (``absent``) counts as not sent, and the one before it stands. A version whose row
the engine has merged into a later one is shown as that later one (``current_rows.py``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from common.span import NO_METRICS, Metrics
from common.threads import in_thread
from query_api.filter.sql.compile import Compiled
from query_api.spans.columns import among_ids, packed_ids, rows_as, values_of
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.tables import SQL
from query_api.spans.usage import Report, TraceSums, counted
from query_api.spans.version import CurrentRow, Position, SpanKey, Version, current_rows

_METRICS: Final = ", ".join(Metrics._fields)
_IN_TRACES: Final = f"trace_id IN {among_ids('trace_ids')}"
_IN_SPANS: Final = f"span_id IN {among_ids('span_ids')}"
_IN_WHOLE_TRACES: Final = f"trace_id IN {among_ids('whole_trace_ids')}"
MANY_ENTRIES: Final = 5_000
"""From here on they are judged in a thread: about 3 ms."""

_TRACE_ID: Final = attrgetter("trace_id")
_SPAN_ID: Final = attrgetter("span_id")
_KEY: Final = attrgetter("trace_id", "span_id")


@dataclass(frozen=True, slots=True)
class _Entries:
    """Rows of ``span_versions``, column by column: versions that were sent, and deletions of such."""

    keys: list[tuple[bytes, bytes]]
    """As of ``SpanKey``."""

    versions: list[int]
    """Even; the deletion of one is odd."""

    record_ms: list[int]
    parent_ids: list[bytes]
    sent: list[Version]
    """The version that each is about."""

    are_own: list[int]
    """Whether what it used is its own by its meaning, 1 or 0."""

    reports: Mapping[int, Metrics]
    """What it used, by the index of the row, where that was asked for and is something."""

    @classmethod
    def of(cls, rows: pa.Table) -> _Entries:
        """The rows of a table."""
        return cls(
            keys=list(zip(values_of(rows, "trace_id"), values_of(rows, "span_id"), strict=True)),
            versions=values_of(rows, "version"),
            record_ms=values_of(rows, "record_ms"),
            parent_ids=values_of(rows, "parent_id"),
            are_own=values_of(rows, "usage_is_own"),
            sent=_sent(rows),
            reports=_reports(rows),
        )

    def is_deletion(self, index: int) -> bool:
        """Whether the row says that a version is deleted."""
        return self.versions[index] % 2 == 1

    def rank(self, index: int) -> tuple[int, int, bytes]:
        """By which the head is chosen across logs."""
        return self.record_ms[index], self.versions[index], self.sent[index].partition_id


_Latest = dict[tuple[bytes, bytes], int]
"""Span → the entry that is its head, by its index."""

OnSent: TypeAlias = Callable[[pa.Table], Awaitable[None]]
"""Is told which versions were sent, as rows of ``span_versions``, before it is known which of them are shown;
``members`` are among their columns then."""


class LatestAndSums(NamedTuple):
    """Which versions of some spans are shown, and what their traces used."""

    latest: set[Version]
    sums: TraceSums
    """What the shown spans of each trace used together, where that was asked for."""

    replacements: Mapping[Position, CurrentRow]
    """Heads that match and were not seen: they replaced a version that was seen, after that, at its place."""


async def latest_and_sums(
    spans: ProjectSpans,
    seen: Collection[Version],
    matching: Compiled,
    *,
    traces_to_sum: Collection[bytes],
    on_sent: OnSent | None = None,
) -> LatestAndSums:
    """The shown versions of the spans of ``seen``, and of others of their traces; and what the shown spans of each of
    ``traces_to_sum``, which are among these traces, used together. One statement: to plan a second costs more than to
    read.

    ``seen`` are rows that are there and match. Heads of the same spans that are not among them are looked for; those
    without a row are not heads. ``on_sent`` is awaited with all that is known of these traces, unless it is much,
    before it is judged: nearly all of it are heads."""
    if not seen:
        return LatestAndSums(set(), {}, {})
    trace_ids, whole = set(map(_TRACE_ID, seen)), set(traces_to_sum)
    which, parameters = _IN_TRACES, {"trace_ids": packed_ids(trace_ids)}
    if not trace_ids <= whole:
        narrowed = f"({_IN_WHOLE_TRACES} OR {_IN_SPANS})" if whole else _IN_SPANS
        which = f"{_IN_TRACES} AND {narrowed}"
        parameters |= {"span_ids": packed_ids(set(map(_SPAN_ID, seen))), "whole_trace_ids": packed_ids(whole)}
    entries = await _entries(spans, which, parameters, with_metrics=bool(whole), on_sent=on_sent)
    latest, rows = await _with_rows(spans, entries, seen, matching)
    shown = {entries.sent[index] for index in latest.values()}
    if rows:
        shown = {rows[head].version if head in rows else head for head in shown}
    return LatestAndSums(shown, _summed(entries, latest, whole), _replacements(seen, rows.values()))


async def latest_of_ids(
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
    parameters = {"trace_ids": packed_ids(trace_ids), "span_ids": packed_ids(span_ids)}
    entries = await _entries(spans, " AND ".join(which), parameters, with_metrics=False)
    return [entries.sent[index] for index in (await _judged(entries, absent)).values()]


async def latest_of_traces(
    spans: ProjectSpans,
    trace_ids: Collection[bytes],
    *,
    absent: Collection[Version] = (),
    on_sent: OnSent | None = None,
) -> tuple[list[Version], TraceSums]:
    """The shown versions of all spans of the traces, and what those of each used together. ``absent`` as for
    ``latest_of_ids``, ``on_sent`` as for ``latest_and_sums``."""
    if not trace_ids:
        return [], {}
    entries = await _entries(
        spans, _IN_TRACES, {"trace_ids": packed_ids(trace_ids)}, with_metrics=True, on_sent=on_sent
    )
    latest = await _judged(entries, absent)
    return [entries.sent[index] for index in latest.values()], _summed(entries, latest, trace_ids)


async def sums_of_traces(spans: ProjectSpans, trace_ids: Iterable[bytes]) -> TraceSums:
    """What the shown spans of each trace used together."""
    return (await latest_of_traces(spans, set(trace_ids)))[1]


async def delete_trace(spans: ProjectSpans, trace_id: bytes) -> list[SpanKey]:
    """Delete all spans of the trace; return the keys of those that were visible until now, sorted. Safe to repeat.

    One statement: it deletes what it reads, and a span that arrives while it runs is a new record. The rows of
    ``spans`` stay, and no route returns them, until retention removes them."""
    visible = await latest_of_ids(spans, trace_ids=[trace_id])
    await spans.execute(SQL["delete_trace"], {"trace_id": trace_id.hex()})
    return sorted(version.key for version in visible)


async def _entries(
    spans: ProjectSpans,
    which: str,
    parameters: Mapping[str, Any],
    *,
    with_metrics: bool,
    on_sent: OnSent | None = None,
) -> _Entries:
    others = (f", {_METRICS}" if with_metrics else "") + (", members" if on_sent is not None else "")
    sql = SQL["sent_versions"].replace("{which}", which).replace("{others}", others)
    rows = await spans.select(sql, parameters, step="heads")
    if rows.num_rows >= MANY_ENTRIES:
        return await in_thread(_Entries.of, rows)
    if on_sent is not None:
        await on_sent(rows)
    return _Entries.of(rows)


def _sent(rows: pa.Table) -> list[Version]:
    """The version that each row of ``span_versions`` is about."""
    starts, span_ids, trace_ids, partition_ids, versions = (
        values_of(rows, name) for name in ("start_us", "span_id", "trace_id", "partition_id", "version")
    )
    return rows_as(Version, starts, span_ids, trace_ids, partition_ids, (version // 2 for version in versions))


def _reports(rows: pa.Table) -> dict[int, Metrics]:
    if Metrics._fields[0] not in rows.column_names or not rows.num_rows:
        return {}
    columns = [rows.column(name).to_numpy() for name in Metrics._fields]
    if not any(column.any() for column in columns):
        return {}
    amounts = np.column_stack(columns)
    indexes = np.flatnonzero((amounts != 0).any(axis=1))
    return dict(zip(indexes.tolist(), map(Metrics._make, amounts[indexes].tolist()), strict=True))


async def _judged(entries: _Entries, absent: Collection[Version]) -> _Latest:
    if len(entries.keys) < MANY_ENTRIES:
        return _latest_among(entries, absent)
    return await in_thread(_latest_among, entries, absent)


def _latest_among(entries: _Entries, absent: Collection[Version]) -> _Latest:
    """The rule, over all that is known of some spans."""
    once = dict(zip(entries.keys, range(len(entries.keys)), strict=True))
    if len(once) == len(entries.keys) and not absent:  # as nearly always: each span came once
        versions = entries.versions
        return {key: index for key, index in once.items() if versions[index] % 2 == 0}
    latest: _Latest = {}
    for index in _latest_in_partitions(entries, absent):
        key = entries.keys[index]
        known = latest.setdefault(key, index)
        if entries.rank(known) < entries.rank(index):
            latest[key] = index
    return latest


def _latest_in_partitions(entries: _Entries, absent: Collection[Version]) -> Iterable[int]:
    """The latest entry of each span in each log, unless the span is deleted there."""
    latest: dict[tuple[bytes, bytes, bytes], int] = {}
    for index, ((trace_id, span_id), sent) in enumerate(zip(entries.keys, entries.sent, strict=True)):
        if sent in absent and not entries.is_deletion(index):
            continue
        known = latest.setdefault((trace_id, span_id, sent.partition_id), index)
        if entries.versions[known] < entries.versions[index]:
            latest[trace_id, span_id, sent.partition_id] = index
    return (index for index in latest.values() if not entries.is_deletion(index))


async def _with_rows(
    spans: ProjectSpans, entries: _Entries, seen: Collection[Version], matching: Compiled
) -> tuple[_Latest, Mapping[Version, CurrentRow]]:
    """The heads when versions of these spans without a row are left out, and the rows of those that were not seen."""
    latest = await _judged(entries, ())
    rows: dict[Version, CurrentRow] = {}
    absent: set[Version] = set()
    while unseen := _of_spans_of(seen, {entries.sent[index] for index in latest.values()}.difference(seen, rows)):
        rows |= await current_rows(spans, unseen, matching, step="rows of heads")
        if unseen <= rows.keys():
            break
        absent |= unseen - rows.keys()
        latest = await _judged(entries, absent)
    return latest, rows


def _replacements(seen: Collection[Version], rows: Collection[CurrentRow]) -> Mapping[Position, CurrentRow]:
    """The rows that match and stand where a seen version stands."""
    if not rows:
        return {}
    places = {version.position for version in seen}
    return {row.version.position: row for row in rows if row.matches and row.version.position in places}


def _of_spans_of(seen: Collection[Version], others: set[Version]) -> set[Version]:
    """Those of ``others`` that are versions of spans of ``seen``."""
    if not others:
        return others
    wanted = set(map(_KEY, seen))
    return {version for version in others if _KEY(version) in wanted}


def _summed(entries: _Entries, latest: _Latest, trace_ids: Collection[bytes]) -> TraceSums:
    """What counts of the heads of each trace that used something."""
    if not entries.reports:
        return {}
    by_trace: dict[bytes, list[int]] = defaultdict(list)
    for (trace_id, _), index in latest.items():
        if trace_id in trace_ids:
            by_trace[trace_id].append(index)
    return {
        trace_id: counted(_used(entries, indexes))
        for trace_id, indexes in by_trace.items()
        if not entries.reports.keys().isdisjoint(indexes)
    }


def _used(entries: _Entries, indexes: Iterable[int]) -> Iterable[Report]:
    """What the entries with these indexes say that they used."""
    for index in indexes:
        yield Report(
            entries.keys[index][1],
            entries.parent_ids[index],
            entries.reports.get(index, NO_METRICS),
            entries.are_own[index] == 1,
        )
