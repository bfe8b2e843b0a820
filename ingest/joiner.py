"""Add events of log records to the spans that they name, whichever of the two came first (contract §3.6, ADR 0046).

A worker joins after its batch is stored and before it is committed: it counts the events of the spans of its batch, and
of the spans that its events name. If a span has more events than its latest version has, the next version of it is
stored. Two workers, one with the span and one with the event, each store first and look then, so the later of the two
sees both. Whatever ends the worker, the records are delivered again, and what is missing then is joined.

The number of its events is part of the number of a version (``common/span_version.py``). Events are only added, so two
workers that have seen equally many have seen the same, and store the same version.

A version arrives in the feed at the place of a record of the batch, and readers pass a place once. So only records
count whose place nobody can have passed: those beyond what is recorded as stored. What was recorded before, and is
delivered again, had been joined then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.clickhouse.engines import SQL
from common.clickhouse.event_columns import EVENTS_TABLE, stamped_events
from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_through import read_positions_of
from common.limits import MIB
from common.span_version import JOINED_EVENTS_MAX, OFFSET_STEP, offset_of
from common.stored_position import ALL_PROJECTS
from common.telemetry import EVENTS_STORED, SPANS_JOINED
from common.times import Clock
from ingest.batch import NAMING
from ingest.decoding.decoder import Decoder
from ingest.joining.chunk import ARRIVAL_COLUMNS, Addition, Arrival, JoiningChunk
from ingest.joining.derive import EVENTS_MAX
from ingest.joining.stored_spans import COLUMNS, PROJECT, StoredSpan, stored_spans
from ingest.masking.dead_letters import Masking

EVENTS_BYTES_MAX: Final = 4 * MIB
"""Of the events of log records in one span, as much as a span may have when it is sent."""

CHUNK_SPANS: Final = 500
CHUNK_BYTES: Final = 16 * MIB
"""Spans that are joined at once, by their number and by the size of their rows."""

_LATEST: Final = ("partition_id", "version", "start_us", "response_bytes")


class SpanName(NamedTuple):
    """What names a span: its project, its trace and its id."""

    project_id: UUID
    trace_id: bytes
    span_id: bytes


class _Behind(NamedTuple):
    """The latest version of a span that has fewer events than there are."""

    name: SpanName
    partition_id: bytes
    version: int
    start_us: int
    response_bytes: int
    arrival: Arrival


class Joiner:
    """Joins what batches contain; ``store`` and ``decoder`` are closed by the caller."""

    def __init__(self, store: ColumnStore, decoder: Decoder, *, clock: Clock, timeout_s: float) -> None:
        self._store = store
        self._decoder = decoder
        self._clock = clock
        self._timeout_s = timeout_s

    async def store(self, events: pa.Table, *, dedup_token: str) -> None:
        """Store the events of a batch. Raises transient errors; calling it again with the same token is harmless."""
        stored = stamped_events(events, stored_us=self._clock.now_ns() // 1_000)
        await self._store.insert(EVENTS_TABLE, stored, dedup_token=f"{dedup_token}/events", deadline_s=self._timeout_s)
        EVENTS_STORED.inc(events.num_rows)

    async def join(self, rows: pa.Table, masking: Masking) -> None:
        """Return when each of these spans that is stored has all events that are stored.

        ``rows`` are those of ``SpanBatch.named``. Raises transient errors; calling it again is harmless.
        """
        counts = await self._events_counts(rows)
        if not counts:
            return
        traces = pa.array({name.trace_id for name in counts}, rows.schema.field("trace_id").type)
        of_traces = rows.filter(pc.is_in(rows.column("trace_id"), traces))
        arrivals = _arrivals(of_traces, await self._stored_through())
        named = {name: count for name, count in counts.items() if name in arrivals}
        if named:
            for chunk in _chunks(await self._behind(named, arrivals)):
                await self._join_chunk(chunk, masking)

    async def _events_counts(self, rows: pa.Table) -> Mapping[SpanName, int]:
        of_rows = {
            "project_ids": [str(UUID(bytes=id_)) for id_ in pc.unique(rows.column("project_id")).to_pylist()],
            "trace_ids": b"".join(pc.unique(rows.column("trace_id")).to_pylist()),
        }
        counts = await self._store.select(Statement(SQL["events_counts"], of_rows), deadline_s=self._timeout_s)
        return dict(zip(_names(counts), counts.column("events_count").to_pylist(), strict=True))

    async def _behind(self, counts: Mapping[SpanName, int], arrivals: Mapping[SpanName, Arrival]) -> list[_Behind]:
        rows = await self._select("latest_versions_of_spans", counts)
        columns = (rows.column(name).to_pylist() for name in _LATEST)
        latest = (
            _Behind._make((name, *members, arrivals[name]))
            for name, *members in zip(_names(rows), *columns, strict=True)
            if name in counts  # a statement about several spans returns more
        )
        return [each for each in latest if is_behind(each.version, counts[each.name])]

    async def _join_chunk(self, behind: Sequence[_Behind], masking: Masking) -> None:
        spans, events = await asyncio.gather(self._spans(behind), self._events([each.name for each in behind]))
        through = await self._stored_through()  # after the events: another worker may have joined them since
        additions = [
            Addition._make((spans[each.name], *events[each.name], each.arrival))
            for each in behind
            if each.name in spans  # else its row is being stored, by a worker that joins it afterwards
            and each.name in events  # else they were deleted meanwhile
            and is_ahead(each.arrival, through)
        ]
        if not additions:
            return
        rows = await self._decoder.join(JoiningChunk(additions, masking))
        stored = await asyncio.to_thread(stamped, rows, stored_us=self._clock.now_ns() // 1_000)
        await self._store.insert(SPANS_TABLE, stored, dedup_token=_token(rows), deadline_s=self._timeout_s)
        SPANS_JOINED.inc(rows.num_rows)

    async def _stored_through(self) -> Mapping[str, int]:
        """Return the last offset of each partition that is recorded as stored."""
        positions = await read_positions_of(self._store, ALL_PROJECTS, deadline_s=self._timeout_s)
        return {position.partition_id: position.through_offset for position in positions}

    async def _spans(self, behind: Sequence[_Behind]) -> Mapping[SpanName, StoredSpan]:
        """Return the rows of these versions."""
        starts = np.array([each.start_us for each in behind], "<i8").tobytes()
        rows = await self._select("rows_of_spans", [each.name for each in behind], starts=starts)
        wanted = {(each.name, each.partition_id, each.version) for each in behind}
        identities = zip(_names(rows), *(rows.column(name).to_pylist() for name in _LATEST[:2]), strict=True)
        kept = {identity[0]: index for index, identity in enumerate(identities) if identity in wanted}
        spans = await asyncio.to_thread(list, stored_spans(rows.take(pa.array(kept.values(), pa.int64()))))
        return dict(zip(kept, spans, strict=True))

    async def _events(self, names: Sequence[SpanName]) -> Mapping[SpanName, tuple[list[bytes], int]]:
        """Return the events of each span that are shown, and how many there are."""
        sizes = await self._select("events_of_spans", names)
        columns = (sizes.column(name).to_pylist() for name in ("time_us", "event_id", "bytes_count"))
        by_span: dict[SpanName, list[_SizedEvent]] = defaultdict(list)
        for name, *members in zip(_names(sizes), *columns, strict=True):
            by_span[name].append(_SizedEvent(*members))
        shown = {name: [event.event_id for event in _shown(events)] for name, events in by_span.items()}
        ids = b"".join({event_id for event_ids in shown.values() for event_id in event_ids})
        rows = await self._select("texts_of_events", names, event_ids=ids)
        identities = zip(_names(rows), rows.column("event_id").to_pylist(), strict=True)
        texts = dict(zip(identities, rows.column("event").to_pylist(), strict=True))
        return {
            name: ([texts[name, event_id] for event_id in event_ids], len(by_span[name]))
            for name, event_ids in shown.items()
        }

    async def _select(self, statement: str, names: Collection[SpanName], **values: bytes) -> pa.Table:
        """Run a statement about these spans; it may return more."""
        project_ids, trace_ids, span_ids = map(set, zip(*names, strict=True))
        parameters = {
            "project_ids": list(map(str, project_ids)),
            "trace_ids": b"".join(trace_ids),
            "span_ids": b"".join(span_ids),
            **values,
        }
        sql = SQL[statement].replace("{columns}", ", ".join(COLUMNS))
        return await self._store.select(Statement(sql, parameters), deadline_s=self._timeout_s)


class _SizedEvent(NamedTuple):
    time_us: int
    event_id: bytes
    bytes_count: int


def is_behind(version: int, events_count: int) -> bool:
    """Return whether a version lacks events, so that the next one is stored.

    Past ``EVENTS_MAX`` events only their number changes, so the next one is stored when it has doubled.
    """
    joined_count = version % OFFSET_STEP // 2
    if joined_count < EVENTS_MAX:
        return events_count > joined_count
    return min(events_count, JOINED_EVENTS_MAX) >= 2 * joined_count


def _shown(events: Iterable[_SizedEvent]) -> Iterator[_SizedEvent]:
    """Yield the first events, as many as a span may have."""
    bytes_count = 0
    for event in sorted(events)[:EVENTS_MAX]:
        bytes_count += event.bytes_count
        if bytes_count > EVENTS_BYTES_MAX:
            return
        yield event


def _chunks(behind: Iterable[_Behind]) -> Iterator[list[_Behind]]:
    chunk: list[_Behind] = []
    bytes_count = 0
    for each in behind:
        if chunk and (len(chunk) == CHUNK_SPANS or bytes_count + each.response_bytes > CHUNK_BYTES):
            yield chunk
            chunk, bytes_count = [], 0
        chunk.append(each)
        bytes_count += each.response_bytes
    if chunk:
        yield chunk


def _names(rows: pa.Table) -> list[SpanName]:
    """Return the span that each row of the engine is about."""
    projects = (UUID(project.decode()) for project in rows.column(PROJECT).to_pylist())
    return list(map(SpanName, projects, *(rows.column(name).to_pylist() for name in SpanName._fields[1:])))


def is_ahead(arrival: Arrival, through: Mapping[str, int]) -> bool:
    """Return whether no reader can have passed the place."""
    return arrival.record_offset > through.get(arrival.partition_id, -1)


def _arrivals(rows: pa.Table, through: Mapping[str, int]) -> Mapping[SpanName, Arrival]:
    """Return where the last of the rows about each span came, of those that no reader can have passed."""
    columns = (rows.column(name).to_pylist() for name in NAMING[:6])
    places = (
        (SpanName(UUID(bytes=id_), *ids), Arrival(partition_id.decode(), offset_of(version), span_index))
        for id_, *ids, partition_id, version, span_index in zip(*columns, strict=True)
    )
    return {name: arrival for name, arrival in places if is_ahead(arrival, through)}


def _token(rows: pa.Table) -> str:
    """Name what is inserted: the same versions at the same places give the same token."""
    identity = [*NAMING[:5], *ARRIVAL_COLUMNS, "span_index"]
    return hashlib.sha1(repr(rows.select(identity).to_pylist()).encode(), usedforsecurity=False).hexdigest()
