"""Store what annotations and evaluations say about spans, as rows about these spans (contract §3.6, ADR 0050).

An event of a log record names its span. For verdicts of annotations and evaluations of responses it has to be found:

- The verdict of an annotation is stored for each span that it links to. The latest version of the annotation counts: a
  span that it does not judge any more gets a verdict without scores, also if the annotation was deleted. Which version
  is the latest is read after the verdicts are stored, so it does not matter in which order workers see the versions.
- An evaluation that names a response waits under ``response_name``. When a batch has the span, or the evaluation, the
  evaluation is stored once more, as an event of the span. Both are stored before the other one is looked for.

A row arrives where its annotation or evaluation is in Kafka. Several spans can be judged there, so each has an index of
its own (``ArrivalIndexes``).

What cannot be read costs only itself: it is counted and logged. Everything that is read or stored at once is bounded.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from common.clickhouse.engines import SQL
from common.clickhouse.event_columns import EVENTS_TABLE, NO_ID, EventRow, event_rows
from common.clickhouse.leaves import has_pair
from common.clickhouse.select import COMPUTED_COLUMNS
from common.clickhouse.span_columns import stamped
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded
from common.ids import SHOWN_SPAN_ID_SQL, shown_span_id
from common.limits import MIB
from common.log_record import RESPONSE_ID, response_name
from common.parts import parts_of, parts_of_size
from common.span_version import OFFSET_STEP, RANK_SQL, is_deletion, standing_of
from common.telemetry import SCORES_NOT_JOINED, get_logger
from common.times import Clock
from ingest.batch import NAMING
from ingest.joining.span_name import SpanName, named, names_in
from ingest.joining.verdicts import RESPONSE_PATH, RowPlace, Verdict, annotations_in, verdicts_of

_log = get_logger(__name__)

NAMES_MAX: Final = 1_000
"""Annotations, or responses, that one statement is about."""

LINKED_MAX: Final = 20_000
"""Spans with links of which one statement finds those that have judged spans."""

SPANS_OF_RESPONSE_MAX: Final = 10
EVALUATIONS_MAX: Final = 100
"""Spans of one response that get its evaluations, and evaluations of one response that these get."""

INSERT_BYTES: Final = 16 * MIB
"""Of the rows that are read or stored at once."""

FIRST_INDEX_BIT: Final = 22
"""Where the part of an index begins that tells apart what arrives at one place: no record holds 2^22 spans."""

INDEXES_MAX: Final = 2 ** (32 - FIRST_INDEX_BIT) - 1
"""How many spans can be judged at one place. What is beyond is stored, and shown with the next change of its span."""

VERDICT_RANK_SQL: Final = f"({', '.join(RANK_SQL)}, has_scores)"
"""What decides between the last verdicts of the partitions of an annotation about a span."""

_WORD: Final = re.compile(r"[0-9a-z]+")
_SOURCE: Final = ("source_trace_id", "source_span_id")
_WAITING: Final = ("event_id", "partition_id", "last", "index", "at_ms", "event_us", "text")
"""The columns of ``waiting_evaluations``, besides the name of the response."""

_WAITING_ROWS: Final = {"rows_max": EVALUATIONS_MAX}


class _Judged(NamedTuple):
    """A row about a span, and where it arrives; ``None`` if there is no index left."""

    row: EventRow
    arrival: RowPlace | None


class _Rank(NamedTuple):
    """What decides between versions of an annotation in two partitions; its fields are compared in this order."""

    standing: int
    record_ms: int
    version: int
    partition_id: bytes

    def is_before(self, other: _Rank) -> bool:
        """Return whether the other version is the later one: in one partition the number of the version decides."""
        return self.version < other.version if self.partition_id == other.partition_id else self < other


_Known: TypeAlias = Mapping[SpanName, Mapping[SpanName, _Rank]]
"""Annotation → span to which it gives scores → the version of the annotation that says so."""


class ArrivalIndexes:
    """Gives the spans that are judged at a place different indexes."""

    def __init__(self) -> None:
        self._taken: dict[RowPlace, set[int]] = defaultdict(set)

    def arrival(self, place: RowPlace, name: SpanName) -> RowPlace | None:
        """Return where what is said about a span arrives. Spans that are named in one order get the same indexes."""
        taken = self._taken[place]
        if len(taken) >= INDEXES_MAX:
            return None
        digest = hashlib.blake2b(name.trace_id + name.span_id, digest_size=2).digest()
        number = int.from_bytes(digest) % INDEXES_MAX + 1
        while number in taken:
            number = number % INDEXES_MAX + 1
        taken.add(number)
        return place._replace(span_index=number << FIRST_INDEX_BIT | place.span_index % (1 << FIRST_INDEX_BIT))


class LateScores:
    """Finds the spans that are judged; ``store`` is closed by the caller."""

    def __init__(self, store: ColumnStore, *, clock: Clock, timeout_s: float) -> None:
        self._store = store
        self._clock = clock
        self._timeout_s = timeout_s

    async def add(self, spans: pa.Table, events: pa.Table) -> pa.Table:
        """Store what the rows of a batch say about other spans; return which spans these are, with ``NAMING``.

        ``spans`` and ``events`` are rows of these tables, and stored already. Raises transient errors; calling it again
        is harmless.
        """
        indexes = ArrivalIndexes()
        judged: list[EventRow] = []
        annotations = annotations_in(spans)
        verdicts = await asyncio.to_thread(lambda: list(verdicts_of(annotations)))
        for some in parts_of(verdicts, NAMES_MAX):
            judged += await self._add_verdicts(some, indexes)
        places = {**_deleted_annotations(events), **await self._judging(annotations)}
        for names in parts_of(list(places), NAMES_MAX):
            judged += await self._end_verdicts({name: places[name] for name in names}, indexes)
        for evaluations in parts_of(_evaluations(events), NAMES_MAX):
            judged += await self._add_evaluations(evaluations, indexes)
        return event_rows(judged).select(NAMING)

    async def add_waiting(self, response_ids: Mapping[SpanName, str]) -> None:
        """Store the evaluations of these responses as events of the spans. Raises and repeats as ``add`` does."""
        spans_of: dict[SpanName, list[SpanName]] = defaultdict(list)
        for name in sorted(response_ids):
            spans = spans_of[SpanName(name.project_id, *response_name(response_ids[name]))]
            if len(spans) < SPANS_OF_RESPONSE_MAX:
                spans.append(name)
        sizes: dict[SpanName, int] = {}
        for names in parts_of(list(spans_of), NAMES_MAX):
            found = await self._select("sizes_of_evaluations", names, _WAITING_ROWS)
            counts = zip(names_in(found), found.column("bytes_count").to_pylist(), strict=True)
            sizes |= {name: bytes_count * len(spans_of[name]) for name, bytes_count in counts if name in spans_of}
        for some in parts_of_size(sizes, INSERT_BYTES, sizes.__getitem__):
            rows = await self._select("waiting_evaluations", some, _WAITING_ROWS)
            columns = (rows.column(name).to_pylist() for name in _WAITING)
            await self._insert(
                EventRow(name.project_id.bytes, *name[1:], *members)
                for response, *members in zip(names_in(rows), *columns, strict=True)
                for name in spans_of.get(response, ())
            )

    async def _add_verdicts(self, verdicts: Sequence[Verdict], indexes: ArrivalIndexes) -> list[EventRow]:
        judged = [
            _Judged(_row_of(verdict, name), indexes.arrival(verdict.place, name))
            for verdict in verdicts
            for name in verdict.judged
        ]
        await self._insert(each.row for each in judged)
        return _naming(judged)

    async def _end_verdicts(self, places: Mapping[SpanName, RowPlace], indexes: ArrivalIndexes) -> list[EventRow]:
        """Store verdicts without scores about the spans that annotations judge no more; return which spans these are.

        An annotation whose row is being stored is left out: its worker looks then.
        """
        known = await self._known(places)
        ranks = await self._ranks(known)
        now_us = self._clock.now_ns() // 1_000
        judged: list[_Judged] = []
        for annotation, rank in ranks.items():
            ended = Verdict(annotation, RowPlace(rank.partition_id, rank.version, 0, rank.record_ms), (), now_us, b"")
            judged += [
                _Judged(_row_of(ended, name), indexes.arrival(places[annotation], name))
                for name, said in sorted(known[annotation].items())
                if said.is_before(rank)
            ]
        await self._insert(each.row for each in judged)
        return _naming(judged)

    async def _judging(self, annotations: pa.Table) -> Mapping[SpanName, RowPlace]:
        """Return where those of these annotations come that have judged spans: few of the spans that have links."""
        places: dict[SpanName, RowPlace] = {}
        for begin in range(0, annotations.num_rows, LINKED_MAX):
            rows = annotations.slice(begin, LINKED_MAX)
            projects, trace_ids, span_ids = (rows.column(name).to_pylist() for name in NAMING[:3])
            ids = (trace_ids, list(map(shown_span_id, span_ids)))
            parameters = {
                "project_ids": [str(UUID(bytes=project)) for project in set(projects)],
                "trace_ids": b"".join(set(trace_ids)),
                "names": b"".join({trace_id + span_id for trace_id, span_id in zip(*ids, strict=True)}),
            }
            judging = Statement(SQL["judging_annotations"], parameters)
            known = set(names_in(await self._store.select(judging, deadline_s=self._timeout_s), _SOURCE))
            if known:
                names = (SpanName(UUID(bytes=project), *rest) for project, *rest in zip(projects, *ids, strict=True))
                columns = (rows.column(name).to_pylist() for name in RowPlace._fields)
                places |= {
                    name: RowPlace(*place) for name, *place in zip(names, *columns, strict=True) if name in known
                }
        return places

    async def _known(self, annotations: Collection[SpanName]) -> _Known:
        rows = await self._select("spans_of_annotations", annotations, {})
        columns = (rows.column(name).to_pylist() for name in ("record_ms", "version", "partition_id"))
        known: dict[SpanName, dict[SpanName, _Rank]] = defaultdict(dict)
        for annotation, name, *members in zip(names_in(rows, _SOURCE), names_in(rows), *columns, strict=True):
            record_ms, version, partition_id = members
            known[annotation][name] = _Rank(standing_of(version), record_ms, version, partition_id)
        return {annotation: known[annotation] for annotation in annotations if annotation in known}

    async def _ranks(self, annotations: Collection[SpanName]) -> Mapping[SpanName, _Rank]:
        """Return the latest version of each annotation that is stored, or its deletion, as verdicts are numbered."""
        if not annotations:
            return {}
        rows = await self._select("last_versions_of_spans", annotations, {})
        columns = (rows.column(name).to_pylist() for name in ("partition_id", "last", "last_ms"))
        latest: dict[SpanName, tuple[_Rank, _Rank]] = {}
        for name, partition_id, version, record_ms in zip(names_in(rows), *columns, strict=True):
            number = version - 1 if is_deletion(version) else version - version % OFFSET_STEP
            rank = _Rank(standing_of(version), record_ms, version, partition_id)
            found = (rank, _Rank(standing_of(number), record_ms, number, partition_id))
            latest[name.shown] = max(found, latest.get(name.shown, found))
        return {name: latest[name][1] for name in annotations if name in latest}

    async def _add_evaluations(self, evaluations: Sequence[EventRow], indexes: ArrivalIndexes) -> list[EventRow]:
        """Store evaluations of responses as events of the spans of the responses; return which spans these are."""
        spans_of = await self._spans_of({_name(row): id_ for row in evaluations if (id_ := _response_id(row))})
        judged = [
            _Judged(row._replace(trace_id=name.trace_id, span_id=name.span_id), indexes.arrival(_place(row), name))
            for row in evaluations
            for name in spans_of.get(_name(row), ())
        ]
        await self._insert(each.row for each in judged)
        return _naming(judged)

    async def _spans_of(self, response_ids: Mapping[SpanName, str]) -> Mapping[SpanName, Sequence[SpanName]]:
        """Return the spans of responses; none if the index does not find them in time: they stay waiting."""
        if not response_ids:
            return {}
        typed = {f"s{id_}" for id_ in response_ids.values()}
        statement = SQL["spans_of_responses"]
        for column in ("content", "leaf_pairs"):
            statement = statement.replace(f"{{{column}}}", COMPUTED_COLUMNS[column])
        parameters = {
            "project_ids": list({str(name.project_id) for name in response_ids}),
            "pairs": [f"{RESPONSE_PATH}={text}" for text in typed if has_pair(text)],
            "words": sorted({_rarest_word(text[1:]) for text in typed if not has_pair(text)}),
            "response_ids": sorted(typed),
            "spans_max": SPANS_OF_RESPONSE_MAX,
        }
        try:
            rows = await self._store.select(Statement(statement, parameters), deadline_s=self._timeout_s)
        except DeadlineExceeded as exc:
            SCORES_NOT_JOINED.inc(len(response_ids))
            _log.error("The spans of evaluated responses are not found in time.", error=exc.detail)
            return {}
        spans_of: dict[SpanName, dict[SpanName, None]] = defaultdict(dict)
        for name, response_id in zip(names_in(rows), rows.column("response_id").to_pylist(), strict=True):
            spans_of[SpanName(name.project_id, *response_name(response_id.decode()))][name.shown] = None
        return {response: list(spans) for response, spans in spans_of.items()}

    async def _insert(self, rows: Iterable[EventRow]) -> None:
        """Store rows, as many at once as ``INSERT_BYTES`` holds."""
        for some in parts_of_size(rows, INSERT_BYTES, lambda row: len(row.event) + ROW_BYTES):
            stored = await asyncio.to_thread(_stamped, some, self._clock.now_ns() // 1_000)
            await self._store.insert(EVENTS_TABLE, stored, dedup_token=_token(some), deadline_s=self._timeout_s)

    async def _select(self, statement: str, names: Collection[SpanName], values: Mapping[str, Any]) -> pa.Table:
        sql = SQL[statement].replace("{rank}", VERDICT_RANK_SQL).replace("{shown_span_id}", SHOWN_SPAN_ID_SQL)
        return await self._store.select(Statement(sql, {**named(names), **values}), deadline_s=self._timeout_s)


ROW_BYTES: Final = 200
"""Approximate size of a row besides its event."""


def _row_of(verdict: Verdict, name: SpanName) -> EventRow:
    (_, *source), place = verdict.annotation, verdict.place
    identity = b"".join((*source, place.partition_id, place.version.to_bytes(8), b"+" if verdict.scores else b"-"))
    return EventRow(
        name.project_id.bytes,
        *name[1:],
        hashlib.blake2b(identity, digest_size=16).digest(),
        place.partition_id,
        place.version,
        place.span_index,
        place.record_ms,
        verdict.at_us,
        verdict.scores,
        *source,
    )


def _stamped(rows: Sequence[EventRow], stored_us: int) -> pa.Table:
    return stamped(event_rows(rows), stored_us=stored_us)


def _token(rows: Sequence[EventRow]) -> str:
    """Name what is inserted: the same rows give the same token."""
    identity = hashlib.sha1(usedforsecurity=False)
    for row in rows:
        identity.update(row.project_id + row.trace_id + row.span_id + row.event_id + row.partition_id)
        identity.update(row.version.to_bytes(8))
    return identity.hexdigest()


def _deleted_annotations(events: pa.Table) -> Mapping[SpanName, RowPlace]:
    """Return the annotations that rows say are deleted, and where they say it."""
    rows = events.filter(pc.not_equal(events.column("source_trace_id"), NO_ID)) if events.num_rows else events
    return {
        SpanName(UUID(bytes=row.project_id), row.source_trace_id, row.source_span_id): _place(row)
        for row in _event_rows(rows)
    }


def _evaluations(events: pa.Table) -> list[EventRow]:
    """Return the rows that are about responses, of each response the first ones."""
    if not events.num_rows:
        return []
    is_about_response = pc.and_(
        pc.equal(events.column("span_id"), NO_ID), pc.not_equal(events.column("trace_id"), NO_ID)
    )
    of_response: dict[SpanName, list[EventRow]] = defaultdict(list)
    for row in sorted(_event_rows(events.filter(is_about_response)), key=lambda row: row.event_id):
        if len(of_response[_name(row)]) < EVALUATIONS_MAX:
            of_response[_name(row)].append(row)
    return [row for rows in of_response.values() for row in rows]


def _event_rows(rows: pa.Table) -> list[EventRow]:
    return [EventRow(**row) for row in rows.select(EventRow._fields).to_pylist()]


def _response_id(row: EventRow) -> str | None:
    """Return the id of the response that an evaluation names; ``None`` if a rule for masking has hidden it."""
    response_id = orjson.loads(row.event).get("attributes", {}).get(RESPONSE_ID)
    if not isinstance(response_id, str) or response_name(response_id)[0] != row.trace_id:
        return None
    return str(response_id)


def _rarest_word(response_id: str) -> str:
    """Return the word that tells ids apart: with a digit if there is one, and the longest."""
    words: list[str] = _WORD.findall(response_id.lower())
    return max(words, key=lambda word: (not word.isalpha(), len(word)))


def _place(row: EventRow) -> RowPlace:
    return RowPlace(row.partition_id, row.version, row.span_index, row.record_ms)


def _name(row: EventRow) -> SpanName:
    return SpanName(UUID(bytes=row.project_id), row.trace_id, row.span_id)


def _naming(judged: Iterable[_Judged]) -> list[EventRow]:
    """Return rows that say which spans are judged, and where that arrives; nothing else."""
    return [
        EventRow(*row[:3], NO_ID, arrival.partition_id, arrival.version, arrival.span_index, arrival.record_ms, 0, b"")
        for row, arrival in judged
        if arrival is not None
    ]
