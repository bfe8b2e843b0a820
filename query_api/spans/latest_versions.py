"""The latest versions of the spans of a page, and what their traces used; the rule is in ``versions.py``.

An insert reaches ``span_versions`` and ``spans`` at slightly different times, and a worker may die in between. So a
version without a row (``absent``) counts as not sent, and the one before it is the latest. A page takes several
statements, and producers store new versions in between: a version that was replaced at its place by one that matches
too is returned as that later one (``current_rows``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from common.clickhouse.select import Select, Table
from common.fair_share import in_thread
from common.span import NO_METRICS
from common.usage import Report, counted
from query_api.filter.sql.compile import Compiled
from query_api.spans.late_events import DELETION_COLUMNS as EVENT_DELETION_COLUMNS
from query_api.spans.late_events import event_deletions
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.usage import TraceSums
from query_api.spans.versions import (
    DELETION_COLUMNS,
    Latest,
    Position,
    Reported,
    SentVersions,
    SpanKey,
    Version,
    among_ids,
    among_starts,
    deletions,
    latest_among,
    packed_ids,
    packed_versions,
    sent_versions,
    standing_in,
    values_of,
    versions_of,
)

_USAGE: Final = ("parent_id", "usage")
"""What sums need."""

_NOTHING: Final = Reported(NO_METRICS, is_own=False, cost_is_computed=False)
_IN_TRACES: Final = f"trace_id IN {among_ids('trace_ids')}"
_IN_SPANS: Final = f"span_id IN {among_ids('span_ids')}"
_IN_WHOLE_TRACES: Final = f"trace_id IN {among_ids('whole_trace_ids')}"
MANY_VERSIONS: Final = 5_000
"""From this number on they are judged in a thread: about 3 ms."""

_TRACE_ID: Final = attrgetter("trace_id")
_SPAN_ID: Final = attrgetter("span_id")
_KEY: Final = attrgetter("trace_id", "span_id")


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
    conditions, parameters = [_IN_TRACES], {"trace_ids": packed_ids(trace_ids)}
    if not trace_ids <= whole:
        conditions.append(f"{_IN_WHOLE_TRACES} OR {_IN_SPANS}" if whole else _IN_SPANS)
        parameters |= {"span_ids": packed_ids(set(map(_SPAN_ID, seen))), "whole_trace_ids": packed_ids(whole)}
    versions_sent = await _read_versions(spans, conditions, parameters, with_usage=bool(whole), on_sent=on_sent)
    latest, rows = await _with_rows(spans, versions_sent, seen, matching)
    visible = {versions_sent.sent[index] for index in latest.values()}
    if rows:
        visible = {rows[version].version if version in rows else version for version in visible}
    are_many = len(versions_sent.keys) >= MANY_VERSIONS
    sums = await in_thread(_summed, versions_sent, latest, whole) if are_many else _summed(versions_sent, latest, whole)
    deleted = _deleted(versions_sent, latest, [version for version in seen if version not in visible])
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
    versions_sent = await _read_versions(spans, conditions, parameters, with_usage=False)
    return [versions_sent.sent[index] for index in (await _judged(versions_sent, absent)).values()]


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
    versions_sent = await _read_versions(
        spans, [_IN_TRACES], {"trace_ids": packed_ids(trace_ids)}, with_usage=True, on_sent=on_sent
    )
    latest = await _judged(versions_sent, absent)
    return [versions_sent.sent[index] for index in latest.values()], _summed(versions_sent, latest, trace_ids)


async def sums_of_traces(spans: ProjectSpans, trace_ids: Iterable[bytes]) -> TraceSums:
    """Return what the visible spans of each trace used together."""
    return (await latest_of_traces(spans, set(trace_ids)))[1]


async def delete_trace(spans: ProjectSpans, trace_id: bytes) -> list[SpanKey]:
    """Delete all spans of the trace, and their events; return the keys of those that were visible until now, sorted.
    Safe to repeat.

    A statement deletes what it reads, and a span that arrives while it runs is a new record. Events go first: a span
    that is sent again meanwhile must not count them. A version with further events stays below the deletion. The rows
    of ``spans`` stay, and no route returns them, until retention removes them.
    """
    visible = await latest_of_ids(spans, trace_ids=[trace_id])
    of_trace = "trace_id = toFixedString(unhex({trace_id:String}), 16)"
    values = {"trace_id": trace_id.hex()}
    events = event_deletions(spans.project_id, [of_trace], values)
    await spans.insert(Table.EVENTS, EVENT_DELETION_COLUMNS, events)
    await spans.insert(Table.VERSIONS, DELETION_COLUMNS, deletions(spans.project_id, [of_trace], values))
    return sorted(version.key for version in visible)


async def _read_versions(
    spans: ProjectSpans,
    conditions: Sequence[str],
    parameters: Mapping[str, Any],
    *,
    with_usage: bool,
    on_sent: OnSent | None = None,
) -> SentVersions:
    columns = (*(_USAGE if with_usage else ()), *(("members",) if on_sent is not None else ()))
    query = sent_versions(spans.project_id, conditions, parameters, columns=columns)
    rows = await spans.select(query, step="latest versions")
    if rows.num_rows >= MANY_VERSIONS:
        return await in_thread(SentVersions.of, rows)
    if on_sent is not None:
        await on_sent(rows)
    return SentVersions.of(rows)


async def _judged(versions_sent: SentVersions, absent: Collection[Version]) -> Latest:
    if len(versions_sent.keys) < MANY_VERSIONS:
        return latest_among(versions_sent, absent)
    return await in_thread(latest_among, versions_sent, absent)


async def _with_rows(
    spans: ProjectSpans, versions_sent: SentVersions, seen: Collection[Version], matching: Compiled
) -> tuple[Latest, Mapping[Version, CurrentRow]]:
    """Return the latest versions of spans that have rows, and the rows of those that were not seen."""
    latest = await _judged(versions_sent, ())
    rows: dict[Version, CurrentRow] = {}
    absent: set[Version] = set()
    while unseen := _of_spans_of(seen, {versions_sent.sent[index] for index in latest.values()}.difference(seen, rows)):
        rows |= await current_rows(spans, unseen, matching, step="rows of latest versions")
        if unseen <= rows.keys():
            break
        absent |= unseen - rows.keys()
        latest = await _judged(versions_sent, absent)
    return latest, rows


def _replacements(seen: Collection[Version], rows: Collection[CurrentRow]) -> Mapping[Position, CurrentRow]:
    """Return the rows that match and are at the place of a seen version."""
    if not rows:
        return {}
    places = {version.position for version in seen}
    return {row.version.position: row for row in rows if row.matches and row.version.position in places}


def _deleted(versions_sent: SentVersions, latest: Latest, stale: Sequence[Version]) -> Collection[Version]:
    """Return those of ``stale`` that were the latest version of a span without a visible one."""
    gone = {_KEY(version): version for version in stale if _KEY(version) not in latest}
    if not gone:
        return ()
    last: dict[tuple[bytes, bytes], int] = {}
    for index, key in enumerate(versions_sent.keys):
        if key in gone and versions_sent.rank(last.setdefault(key, index)) < versions_sent.rank(index):
            last[key] = index
    ends = {(sent.partition_id, sent.record_offset) for sent in (versions_sent.sent[at] for at in last.values())}
    of_record = sorted(version for version in stale if (version.partition_id, version.record_offset) in ends)
    return {_KEY(version): version for version in of_record}.values()


def _of_spans_of(seen: Collection[Version], others: set[Version]) -> set[Version]:
    """Return those of ``others`` that are versions of spans of ``seen``."""
    if not others:
        return others
    wanted = set(map(_KEY, seen))
    return {version for version in others if _KEY(version) in wanted}


def _summed(versions_sent: SentVersions, latest: Latest, trace_ids: Collection[bytes]) -> TraceSums:
    """Add up what counts of the latest versions of each trace that used something."""
    if not versions_sent.reports:
        return {}
    by_trace: dict[bytes, list[int]] = defaultdict(list)
    for (trace_id, _), index in latest.items():
        if trace_id in trace_ids:
            by_trace[trace_id].append(index)
    return {
        trace_id: counted(
            Report(
                versions_sent.keys[index][1],
                versions_sent.parent_ids[index],
                *versions_sent.reports.get(index, _NOTHING),
            )
            for index in indexes
        )
        for trace_id, indexes in by_trace.items()
        if not versions_sent.reports.keys().isdisjoint(indexes)
    }


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
    query = Select(
        spans.project_id,
        Table.SPANS,
        [*Version._fields, "response_bytes", f"{matching.sql} AS matches"],
        prewhere=[f"start_us IN {among_starts('starts')}", f"span_id IN {among_ids('span_ids')}"],
        parameters={**matching.parameters, **packed_versions(versions)},
    )
    rows = await spans.select(query, step=step)
    columns = (values_of(rows, "response_bytes"), map(bool, values_of(rows, "matches")))
    found = {
        version: CurrentRow(version, *others) for version, *others in zip(versions_of(rows), *columns, strict=True)
    }
    return {version: found[row] for version, row in standing_in(versions, found.keys()).items()}
