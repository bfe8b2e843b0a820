"""Events of log records as columns of the table ``span_events`` (contract §3.6): one row for each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
import pyarrow as pa

from common.clickhouse.member_json import event_members
from common.span import Event
from common.span_version import OFFSET_STEP

EVENTS_TABLE: Final = "span_events"

_ID: Final = pa.binary(16)
_KINDS: Final[dict[str, pa.DataType]] = {
    "project_id": _ID,
    "trace_id": _ID,
    "span_id": _ID,
    "event_id": _ID,
    "partition_id": pa.dictionary(pa.int32(), pa.binary()),
    "version": pa.uint64(),
    "span_index": pa.uint32(),
    "record_ms": pa.int64(),
    "time_us": pa.int64(),
    "event": pa.binary(),
}


class LateEvent(NamedTuple):
    """An event, the span that it names, and its index in its record."""

    project_id: UUID
    trace_id: bytes
    span_id: bytes
    event: Event
    span_index: int


class EventColumns:
    """The rows of the events of a chunk of records, in the order in which they were appended."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _KINDS}

    def append_record(
        self, events: Sequence[LateEvent], *, partition_id: str, record_offset: int, record_ms: int
    ) -> None:
        """Append the events of one record."""
        columns, place = self._columns, (partition_id.encode(), record_offset * OFFSET_STEP)
        for project_id, trace_id, span_id, event, span_index in events:
            row = (project_id.bytes, trace_id, span_id, event_id_of(event), *place, span_index, record_ms)
            for column, value in zip(
                columns.values(), (*row, event.time_ns // 1_000, orjson.dumps(event_members(event))), strict=True
            ):
                column.append(value)

    def rows(self) -> pa.Table:
        """Return all rows without ``stored_us``."""
        return pa.table({name: pa.array(values, _KINDS[name]) for name, values in self._columns.items()})


NO_EVENTS: Final = EventColumns().rows()


def identity_of(event: Event) -> bytes:
    """Return what makes two events of a span one, as bytes: time, name, attributes and body."""
    body = None if event.log is None else event.log.body
    return orjson.dumps([event.time_ns, event.name, event.attributes, body], option=orjson.OPT_SORT_KEYS)


def event_id_of(event: Event) -> bytes:
    """Return the hash of its identity: 16 bytes."""
    return hashlib.blake2b(identity_of(event), digest_size=16).digest()
