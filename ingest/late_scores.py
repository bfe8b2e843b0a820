"""Store what annotations and evaluations say about spans, as rows about these spans (contract §3.6, ADR 0050).

An event of a log record names its span. For verdicts of annotations and evaluations of responses it has to be found:

- The verdict of an annotation is stored for each span that it links to. The latest version of the annotation counts: a
  span that it does not judge any more gets a verdict without scores, also if the annotation was deleted. Which version
  is the latest is read after the annotation is stored, so it does not matter in which order workers see its versions.
- An evaluation that names a response waits under ``response_name``. When a batch has the span, or the evaluation, the
  evaluation is stored once more, as an event of the span. Both are stored before the other one is looked for.

A row arrives where its annotation or evaluation is in Kafka. Several spans can be judged there, so each has an index of
its own (``ArrivalIndexes``).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from common.clickhouse.engines import SQL
from common.clickhouse.event_columns import EVENTS_TABLE, NO_ID, EventRow, event_rows
from common.clickhouse.select import COMPUTED_COLUMNS
from common.clickhouse.span_columns import stamped
from common.clickhouse.store import ColumnStore, Statement
from common.log_record import RESPONSE_ID, response_name
from common.span_version import OFFSET_STEP, is_deletion, standing_of
from common.times import Clock
from ingest.batch import NAMING
from ingest.joining.span_name import SpanName, named, names_in
from ingest.joining.verdicts import RowPlace, Verdict, verdicts_of

RESPONSES_MAX: Final = 1_000
"""Responses that are looked for in one statement."""

OF_RESPONSE_MAX: Final = 100
"""Spans of one response that get its evaluations, and evaluations of one response that its spans get."""

FIRST_INDEX_BIT: Final = 22
"""Where the part of an index begins that tells apart what arrives at one place: no record holds 2^22 spans."""

_WORD: Final = re.compile(r"[0-9a-z]+")


_Known: TypeAlias = dict[SpanName, dict[SpanName, dict[bytes, int]]]
"""Annotation → span that it judges → partition → last version of the annotation there that says so."""

_SOURCE: Final = ("source_trace_id", "source_span_id")
_WAITING: Final = ("event_id", "partition_id", "last", "index", "at_ms", "event_us", "text")
"""The columns of statements, besides the name of a span."""


class _Judged(NamedTuple):
    """A row about a span, and where it arrives."""

    row: EventRow
    arrival: RowPlace


class _Rank(NamedTuple):
    """What decides which version of an annotation is the latest; its fields are compared in this order."""

    standing: int
    record_ms: int
    version: int
    partition_id: bytes


class ArrivalIndexes:
    """Gives the spans that are judged at a place different indexes: the same ones whenever its record is read."""

    def __init__(self) -> None:
        self._taken: dict[RowPlace, set[int]] = defaultdict(set)

    def arrival(self, place: RowPlace, name: SpanName) -> RowPlace:
        """Return where what is said about a span arrives."""
        taken, (first, second) = (
            self._taken[place],
            hashlib.blake2b(name.trace_id + name.span_id, digest_size=2).digest(),
        )
        number = (first << 8 | second) % 1_023 + 1
        while number in taken:
            number = number % 1_023 + 1
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
        verdicts = await asyncio.to_thread(lambda: list(verdicts_of(spans)))
        deleted, evaluations = _deleted_annotations(events), _evaluations(events)
        indexes = ArrivalIndexes()
        judged = await self._verdicts(verdicts, deleted, indexes) if verdicts or deleted else []
        for some in _parts(evaluations, RESPONSES_MAX):
            judged += await self._evaluated(some, indexes)
        await self._insert([each.row for each in judged])
        return event_rows([_naming(each) for each in judged]).select(NAMING)

    async def add_waiting(self, response_ids: Mapping[SpanName, str]) -> None:
        """Store the evaluations of these responses as events of the spans. Raises and repeats as ``add`` does."""
        spans_of: dict[SpanName, list[SpanName]] = defaultdict(list)
        for name, response_id in response_ids.items():
            spans_of[SpanName(name.project_id, *response_name(response_id))].append(name)
        rows = await self._select("waiting_evaluations", spans_of, {"rows_max": OF_RESPONSE_MAX})
        columns = (rows.column(name).to_pylist() for name in _WAITING)
        await self._insert(
            [
                EventRow(name.project_id.bytes, *name[1:], *members)
                for waiting, *members in zip(names_in(rows), *columns, strict=True)
                for name in spans_of.get(waiting, ())
            ]
        )

    async def _verdicts(
        self, verdicts: Sequence[Verdict], deleted: Mapping[SpanName, RowPlace], indexes: ArrivalIndexes
    ) -> list[_Judged]:
        """Return the verdicts, and those without scores about spans that are judged no more."""
        places = {**deleted, **{verdict.annotation: verdict.place for verdict in verdicts}}
        known, ranks = await asyncio.gather(self._known(places), self._ranks(places))
        judged = []
        for verdict in verdicts:
            for name in verdict.judged:
                judged.append(_Judged(_row_of(verdict, name), indexes.arrival(verdict.place, name)))
                versions = known[verdict.annotation][name]
                partition_id, version, *_ = verdict.place
                versions[partition_id] = max(version, versions.get(partition_id, 0))
        now_us = self._clock.now_ns() // 1_000
        for annotation, rank in ranks.items():  # without those whose rows are being stored: their workers look then
            for name, versions in known[annotation].items():
                if versions.get(rank.partition_id, -1) < rank.version:
                    place = RowPlace(rank.partition_id, rank.version, 0, rank.record_ms)
                    row = _row_of(Verdict(annotation, place, (), now_us, b""), name)
                    judged.append(_Judged(row, indexes.arrival(places[annotation], name)))
        return judged

    async def _known(self, annotations: Collection[SpanName]) -> _Known:
        """Return which spans annotations judge or judged, with the last version of the annotation in each partition."""
        rows = await self._select("spans_of_annotations", annotations, {})
        columns = (rows.column(name).to_pylist() for name in ("partition_id", "last"))
        known: _Known = defaultdict(lambda: defaultdict(dict))
        for annotation, judged, partition_id, version in zip(
            names_in(rows, _SOURCE), names_in(rows), *columns, strict=True
        ):
            if not is_deletion(version):  # else the judged span was deleted
                known[annotation][judged][partition_id] = version
        return known

    async def _ranks(self, annotations: Collection[SpanName]) -> Mapping[SpanName, _Rank]:
        """Return the latest version of each annotation that is stored, or its deletion."""
        rows = await self._select("last_versions_of_spans", annotations, {})
        columns = (rows.column(name).to_pylist() for name in ("partition_id", "last", "last_ms"))
        latest: dict[SpanName, _Rank] = {}
        for name, partition_id, version, record_ms in zip(names_in(rows), *columns, strict=True):
            first = version - 1 if is_deletion(version) else version - version % OFFSET_STEP
            rank = _Rank(standing_of(version), record_ms, first, partition_id)
            latest[name] = max(rank, latest.get(name, rank))
        return {name: latest[name] for name in annotations if name in latest}

    async def _evaluated(self, evaluations: Sequence[EventRow], indexes: ArrivalIndexes) -> list[_Judged]:
        """Return evaluations of responses as events of the spans of the responses."""
        ids = {id_ for row in evaluations if isinstance(id_ := _response_id(row), str)}
        rows = await self._store.select(
            Statement(
                SQL["spans_of_responses"].replace("{content}", COMPUTED_COLUMNS["content"]),
                {
                    "project_ids": list({str(name.project_id) for name in map(_name, evaluations)}),
                    "words": [max(_WORD.findall(id_.lower()), key=len) for id_ in ids],
                    "response_ids": ["s" + id_ for id_ in ids],
                    "rows_max": OF_RESPONSE_MAX,
                },
            ),
            deadline_s=self._timeout_s,
        )
        spans_of: dict[SpanName, list[SpanName]] = defaultdict(list)
        for name, response_id in zip(names_in(rows), rows.column("response_id").to_pylist(), strict=True):
            spans_of[SpanName(name.project_id, *response_name(response_id.decode()))].append(name)
        return [
            _Judged(row._replace(trace_id=name.trace_id, span_id=name.span_id), indexes.arrival(_place(row), name))
            for row in evaluations
            for name in spans_of.get(_name(row), ())
        ]

    async def _insert(self, rows: Sequence[EventRow]) -> None:
        if not rows:
            return
        table = event_rows(rows)
        stored = await asyncio.to_thread(stamped, table, stored_us=self._clock.now_ns() // 1_000)
        token = hashlib.sha1(repr(rows).encode(), usedforsecurity=False).hexdigest()
        await self._store.insert(EVENTS_TABLE, stored, dedup_token=token, deadline_s=self._timeout_s)

    async def _select(self, statement: str, names: Collection[SpanName], values: Mapping[str, Any]) -> pa.Table:
        return await self._store.select(
            Statement(SQL[statement], {**named(names), **values}), deadline_s=self._timeout_s
        )


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


def _deleted_annotations(events: pa.Table) -> Mapping[SpanName, RowPlace]:
    """Return the annotations that rows say are deleted, and where they say it."""
    rows = events.filter(pc.not_equal(events.column("source_trace_id"), NO_ID)) if events.num_rows else events
    return {
        SpanName(UUID(bytes=row.project_id), row.source_trace_id, row.source_span_id): _place(row)
        for row in _event_rows(rows)
    }


def _evaluations(events: pa.Table) -> list[EventRow]:
    """Return the rows that are about responses."""
    if not events.num_rows:
        return []
    is_about_response = pc.and_(
        pc.equal(events.column("span_id"), NO_ID), pc.not_equal(events.column("trace_id"), NO_ID)
    )
    return _event_rows(events.filter(is_about_response))


def _event_rows(rows: pa.Table) -> list[EventRow]:
    return [EventRow(**row) for row in rows.select(EventRow._fields).to_pylist()]


def _response_id(row: EventRow) -> Any:
    return orjson.loads(row.event)["attributes"].get(RESPONSE_ID)


def _place(row: EventRow) -> RowPlace:
    return RowPlace(row.partition_id, row.version, row.span_index, row.record_ms)


def _name(row: EventRow) -> SpanName:
    return SpanName(UUID(bytes=row.project_id), row.trace_id, row.span_id)


def _naming(judged: _Judged) -> EventRow:
    """Return a row that says which span is judged, and where."""
    return judged.row._replace(**judged.arrival._asdict())


def _parts(rows: Sequence[EventRow], size: int) -> Iterator[Sequence[EventRow]]:
    return (rows[begin : begin + size] for begin in range(0, len(rows), size))
