"""Add events of log records to the spans that they name, whichever of the two came first (contract §3.6, ADR 0046).

A worker joins after its batch is stored and before it is committed: it counts the events of the spans of its batch, and
of the spans that its events name. If a span has more events than its latest version has, the next version of it is
stored. Two workers, one with the span and one with the event, each store first and look then, so the later of the two
sees both. Whatever ends the worker, the records are delivered again, and what is missing then is joined.

Events and verdicts of annotations are the additions of a span. Their number is part of the number of a version
(``common/span_version.py``). They are only added, so two workers that have seen equally many have seen the same, and
store the same version.

A version arrives in the feed at the place of a record of the batch, and readers pass a place once. So only records
count whose place nobody can have passed: those beyond what is recorded as stored. What was recorded before, and is
delivered again, had been joined then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.clickhouse.engines import SQL
from common.clickhouse.event_columns import EVENTS_TABLE, NO_ID
from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_through import read_positions_of
from common.errors import ServiceError
from common.ids import SHOWN_SPAN_ID_SQL
from common.limits import MIB
from common.log_record import response_name
from common.parts import parts_of, parts_of_size
from common.score import SCORES_MAX
from common.span_version import LATEST_FIRST_SQL, additions_count_of, offset_of
from common.stored_position import ALL_PROJECTS
from common.telemetry import EVENTS_STORED, SPANS_JOINED, SPANS_NOT_JOINED, get_logger
from common.times import Clock
from ingest.batch import NAMING, named_in
from ingest.decoding.decoder import Decoder
from ingest.joining.chunk import ARRIVAL_COLUMNS, Arrival, Counts, JoiningChunk, JoiningSpan
from ingest.joining.derive import EVENTS_MAX, AnnotationScores
from ingest.joining.span_name import SpanName, named, names_in
from ingest.joining.stored_spans import COLUMNS, StoredSpan, stored_spans
from ingest.joining.verdicts import response_ids_of
from ingest.late_scores import VERDICT_RANK_SQL, LateScores
from ingest.masking.dead_letters import Masking

_log = get_logger(__name__)

EVENTS_BYTES_MAX: Final = 4 * MIB
"""Of the events of log records in one span, as much as a span may have when it is sent."""

EVENT_ROWS_MAX: Final = 2 * EVENTS_MAX
"""Rows of ``span_events`` that are read of one span, so that one with millions costs little. Events beyond are kept,
and neither shown nor counted."""

VERDICT_ROWS_MAX: Final = 60_000
"""Likewise of verdicts, of which each edit of an annotation adds one: as many as the number of a version can count."""

_ROWS: Final = {"rows_max": EVENT_ROWS_MAX, "verdicts_max": VERDICT_ROWS_MAX}

CHUNK_SPANS: Final = 500
CHUNK_BYTES: Final = 16 * MIB
"""Spans that are joined at once, by their number, and by the size of their rows and events."""

_LATEST: Final = ("partition_id", "version", "start_us", "response_bytes")


class Behind(NamedTuple):
    """The latest version of a span that has fewer additions than there are."""

    name: SpanName
    partition_id: bytes
    version: int
    start_us: int
    response_bytes: int
    arrival: Arrival


class _SizedEvent(NamedTuple):
    time_us: int
    event_id: bytes
    bytes_count: int


class _SizedVerdict(NamedTuple):
    time_us: int
    source_trace_id: bytes
    source_span_id: bytes
    event_id: bytes
    bytes_count: int
    verdicts_count: int


_Tuple = TypeVar("_Tuple", _SizedEvent, _SizedVerdict)


class Joiner:
    """Joins what batches contain; ``store`` and ``decoder`` are closed by the caller."""

    def __init__(self, store: ColumnStore, decoder: Decoder, *, clock: Clock, timeout_s: float) -> None:
        self._store = store
        self._decoder = decoder
        self._clock = clock
        self._timeout_s = timeout_s
        self._late_scores = LateScores(store, clock=clock, timeout_s=timeout_s)

    async def store(self, events: pa.Table, *, dedup_token: str) -> None:
        """Store the events of a batch. Raises transient errors; calling it again with the same token is harmless."""
        about_spans = events.filter(pc.not_equal(events.column("trace_id"), NO_ID))  # others only name what is deleted
        stored = await asyncio.to_thread(stamped, about_spans, stored_us=self._clock.now_ns() // 1_000)
        await self._store.insert(EVENTS_TABLE, stored, dedup_token=f"{dedup_token}/events", deadline_s=self._timeout_s)
        EVENTS_STORED.inc(events.num_rows)

    async def join(self, spans: pa.Table, events: pa.Table, masking: Masking) -> None:
        """Return when each span that is stored has all that is stored about it, of those that the rows are about.

        ``spans`` and ``events`` are the rows of a batch. Raises transient errors; calling it again is harmless.
        """
        judged = await self._late_scores.add(spans, events)
        rows = named_in(spans, events, judged)
        response_ids = response_ids_of(spans)
        waiting_ids = {response_name(id_)[0]: id_ for id_ in response_ids.values()}
        counts = await self._counts(rows, waiting_ids)
        waited_for = {waiting_ids[name.trace_id] for name in counts if name.trace_id in waiting_ids}
        if waited_for:
            await self._late_scores.add_waiting({name: id_ for name, id_ in response_ids.items() if id_ in waited_for})
            counts = await self._counts(rows, ())
        if not counts:
            return
        traces = pa.array({name.trace_id for name in counts}, rows.schema.field("trace_id").type)
        of_traces = rows.filter(pc.is_in(rows.column("trace_id"), traces))
        arrivals = _arrivals(of_traces, await self._stored_through())
        named_counts = {name: count for name, count in counts.items() if name in arrivals}
        behind = await self._behind(named_counts, arrivals) if named_counts else []
        for some in parts_of(behind, CHUNK_SPANS):
            await self._join_some(some, masking)

    async def _counts(self, rows: pa.Table, further_traces: Collection[bytes]) -> Mapping[SpanName, Counts]:
        of_rows = {
            "project_ids": [str(UUID(bytes=id_)) for id_ in pc.unique(rows.column("project_id")).to_pylist()],
            "trace_ids": b"".join([*pc.unique(rows.column("trace_id")).to_pylist(), *further_traces]),
            **_ROWS,
        }
        counts = await self._store.select(Statement(SQL["events_counts"], of_rows), deadline_s=self._timeout_s)
        numbers = (counts.column(name).to_pylist() for name in ("events_count", "verdicts_count"))
        return dict(zip(names_in(counts), map(Counts, *numbers), strict=True))

    async def _behind(self, counts: Mapping[SpanName, Counts], arrivals: Mapping[SpanName, Arrival]) -> list[Behind]:
        rows = await self._select("latest_versions_of_spans", counts, {})
        columns = (rows.column(name).to_pylist() for name in _LATEST)
        latest = (
            Behind._make((name, *members, arrivals[name.shown]))
            for name, *members in zip(names_in(rows), *columns, strict=True)
            if name.shown in counts  # a statement about several spans returns more
        )
        return [each for each in latest if is_behind(each.version, counts[each.name.shown])]

    async def _join_some(self, behind: Sequence[Behind], masking: Masking) -> None:
        shown = await self._shown(behind)
        stored = [each for each in behind if each.name.shown in shown]  # what others lack was deleted meanwhile
        for part in parts_of_size(
            stored, CHUNK_BYTES, lambda each: each.response_bytes + shown[each.name.shown].bytes_count
        ):
            await self._join_chunk({each: shown[each.name.shown] for each in part}, masking)

    async def _join_chunk(self, chunk: Mapping[Behind, Shown], masking: Masking) -> None:
        spans, texts = await asyncio.gather(self._spans(chunk), self._texts(chunk))
        through = await self._stored_through()  # after the events: another worker may have joined them since
        joining = [
            JoiningSpan(
                spans[each.name],
                [
                    text for id_ in shown.event_ids if (text := texts.get((each.name.shown, id_)))
                ],  # or deleted meanwhile
                [
                    AnnotationScores(trace_id, span_id, texts.get((each.name.shown, id_), b""))
                    for trace_id, span_id, id_ in shown.verdict_ids
                ],
                shown.left_out_count,
                shown.counts,
                each.arrival,
            )
            for each, shown in chunk.items()
            if each.name in spans  # else its row is being stored, by a worker that joins it afterwards
            and is_ahead(each.arrival, through)
        ]
        if joining:
            await self._store_joined(joining, masking)

    async def _store_joined(self, joining: Sequence[JoiningSpan], masking: Masking) -> None:
        """Store the next versions. A span for which that fails keeps its version, is counted and logged."""
        try:
            rows = await self._decoder.join(JoiningChunk(joining, masking))
            stored = await asyncio.to_thread(stamped, rows, stored_us=self._clock.now_ns() // 1_000)
            await self._store.insert(SPANS_TABLE, stored, dedup_token=_token(rows), deadline_s=self._timeout_s)
        except MemoryError:
            raise
        except Exception as exc:
            if isinstance(exc, ServiceError) and exc.transient:
                raise
            if len(joining) == 1:
                span = joining[0].span
                SPANS_NOT_JOINED.inc()
                _log.error("A span cannot be joined with its events.", project_id=str(span.project_id), error=str(exc))
                return
        else:
            SPANS_JOINED.inc(rows.num_rows)
            return
        half = len(joining) // 2
        for some in (joining[:half], joining[half:]):
            await self._store_joined(some, masking)

    async def _stored_through(self) -> Mapping[str, int]:
        """Return the last offset of each partition that is recorded as stored."""
        positions = await read_positions_of(self._store, ALL_PROJECTS, deadline_s=self._timeout_s)
        return {position.partition_id: position.through_offset for position in positions}

    async def _spans(self, behind: Collection[Behind]) -> Mapping[SpanName, StoredSpan]:
        """Return the rows of these versions."""
        starts = np.array([each.start_us for each in behind], "<i8").tobytes()
        versions = sorted({each.version for each in behind})
        names = [each.name for each in behind]
        rows = await self._select("rows_of_spans", names, {"starts": starts, "versions": versions})
        wanted = {(each.name, each.partition_id, each.version) for each in behind}
        identities = zip(names_in(rows), *(rows.column(name).to_pylist() for name in _LATEST[:2]), strict=True)
        kept = {identity[0]: index for index, identity in enumerate(identities) if identity in wanted}
        spans = await asyncio.to_thread(list, stored_spans(rows.take(pa.array(kept.values(), pa.int64()))))
        return dict(zip(kept, spans, strict=True))

    async def _shown(self, behind: Sequence[Behind]) -> Mapping[SpanName, Shown]:
        """Return which events each span shows, and what annotations say about it."""
        names = [each.name.shown for each in behind]
        events, verdicts = await asyncio.gather(
            self._select("events_of_spans", names, _ROWS), self._select("verdicts_of_spans", names, _ROWS)
        )
        events_of: dict[SpanName, list[_SizedEvent]] = defaultdict(list)
        for name, event in zip(names_in(events), _tuples(events, _SizedEvent), strict=True):
            events_of[name].append(event)
        verdicts_of: dict[SpanName, list[_SizedVerdict]] = defaultdict(list)
        for name, verdict in zip(names_in(verdicts), _tuples(verdicts, _SizedVerdict), strict=True):
            verdicts_of[name].append(verdict)
        return {name: shown_of(events_of[name], verdicts_of[name]) for name in {**events_of, **verdicts_of}}

    async def _texts(self, chunk: Mapping[Behind, Shown]) -> Mapping[tuple[SpanName, bytes], bytes]:
        ids = {event_id for shown in chunk.values() for event_id in shown.event_ids}
        ids |= {event_id for shown in chunk.values() for _, _, event_id in shown.verdict_ids}
        rows = await self._select("texts_of_events", [each.name.shown for each in chunk], {"event_ids": b"".join(ids)})
        identities = zip(names_in(rows), rows.column("event_id").to_pylist(), strict=True)
        return dict(zip(identities, rows.column("event").to_pylist(), strict=True))

    async def _select(self, statement: str, names: Collection[SpanName], values: Mapping[str, Any]) -> pa.Table:
        """Run a statement about these spans."""
        sql = SQL[statement].replace("{columns}", ", ".join(COLUMNS)).replace("{rank}", VERDICT_RANK_SQL)
        sql = sql.replace("{latest_first}", ", ".join(LATEST_FIRST_SQL)).replace("{shown_span_id}", SHOWN_SPAN_ID_SQL)
        return await self._store.select(Statement(sql, {**named(names), **values}), deadline_s=self._timeout_s)


def _tuples(rows: pa.Table, kind: type[_Tuple]) -> list[_Tuple]:
    """Return rows as tuples of a kind, whose fields are columns."""
    return [kind(*values) for values in zip(*(rows.column(name).to_pylist() for name in kind._fields), strict=True)]


def is_behind(version: int, counts: Counts) -> bool:
    """Return whether a version lacks something, so that the next one is stored."""
    return counts.additions_count > additions_count_of(version)


class Shown(NamedTuple):
    """What is added to a span: the events that are shown, and the last verdict of each annotation; how much there is.

    ``verdict_ids`` are the ids of the annotation, and of the row with its verdict. ``left_out_count`` annotations give
    scores besides.
    """

    event_ids: Sequence[bytes]
    verdict_ids: Sequence[tuple[bytes, bytes, bytes]]
    left_out_count: int
    bytes_count: int
    counts: Counts


def shown_of(events: Collection[_SizedEvent], verdicts: Collection[_SizedVerdict]) -> Shown:
    """Return the first events, as many as a span may have, and what annotations say, as far as it is small enough."""
    event_ids: list[bytes] = []
    total = 0
    for event in sorted(events)[:EVENTS_MAX]:
        if total + event.bytes_count > EVENTS_BYTES_MAX:
            break
        total += event.bytes_count
        event_ids.append(event.event_id)
    counts = Counts(len(events), sum(each.verdicts_count for each in verdicts))
    newest = sorted(verdicts, reverse=True)
    total += sum(verdict.bytes_count for verdict in newest[:SCORES_MAX])
    left_out_count = sum(verdict.bytes_count > 0 for verdict in newest[SCORES_MAX:])
    return Shown(event_ids, [verdict[1:4] for verdict in newest[:SCORES_MAX]], left_out_count, total, counts)


def is_ahead(arrival: Arrival, through: Mapping[str, int]) -> bool:
    """Return whether no reader can have passed the place."""
    return arrival.record_offset > through.get(arrival.partition_id, -1)


def _arrivals(rows: pa.Table, through: Mapping[str, int]) -> Mapping[SpanName, Arrival]:
    """Return where the last of the rows about each span came, of those that no reader can have passed."""
    columns = (rows.column(name).to_pylist() for name in NAMING[:6])
    places = (
        (SpanName(UUID(bytes=id_), *ids).shown, Arrival(partition_id.decode(), offset_of(version), span_index))
        for id_, *ids, partition_id, version, span_index in zip(*columns, strict=True)
    )
    return {name: arrival for name, arrival in places if is_ahead(arrival, through)}


def _token(rows: pa.Table) -> str:
    """Name what is inserted: the same versions at the same places give the same token."""
    identity = [*NAMING[:5], *ARRIVAL_COLUMNS, "span_index"]
    return hashlib.sha1(repr(rows.select(identity).to_pylist()).encode(), usedforsecurity=False).hexdigest()
