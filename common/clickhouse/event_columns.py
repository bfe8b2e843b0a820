"""What comes after its span, as columns of the table ``span_events`` (contract §3.6, ADR 0046, ADR 0050).

A row about a span is an event that came as a log record, or what one version of an annotation says about the span.
Evaluations that name a response instead of a span are about what ``response_name`` (``common/log_record.py``) says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import orjson
import pyarrow as pa

from common.clickhouse.member_json import event_members
from common.span import Event
from common.span_version import version_of

EVENTS_TABLE: Final = "span_events"

_ID: Final = pa.binary(16)
NO_ID: Final = bytes(16)
"""Instead of an id: of the source of an event, and of the span that a row is not about."""

ANNOTATION_DELETED: Final = "clearspan.annotation.deleted"
"""The name of the log record that follows the deletion of a trace with annotations. It names such an annotation."""


class LateEvent(NamedTuple):
    """An event, the span that it names, and its index in its record."""

    project_id: UUID
    trace_id: bytes
    span_id: bytes
    event: Event
    span_index: int


class EventRow(NamedTuple):
    """A row of ``span_events`` without ``stored_us``; ids are 16 bytes."""

    project_id: bytes
    trace_id: bytes
    span_id: bytes
    event_id: bytes
    partition_id: bytes
    version: int
    span_index: int
    record_ms: int
    time_us: int
    event: bytes
    source_trace_id: bytes = NO_ID
    source_span_id: bytes = NO_ID


_KINDS: Final[dict[str, pa.DataType]] = {
    **dict.fromkeys(EventRow._fields[:4], _ID),
    "partition_id": pa.dictionary(pa.int32(), pa.binary()),
    "version": pa.uint64(),
    "span_index": pa.uint32(),
    "record_ms": pa.int64(),
    "time_us": pa.int64(),
    "event": pa.binary(),
    "source_trace_id": _ID,
    "source_span_id": _ID,
}


def event_rows(rows: Sequence[EventRow]) -> pa.Table:
    """Return rows as a table."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(_KINDS)
    return pa.table({name: pa.array(values, _KINDS[name]) for name, values in zip(_KINDS, columns, strict=True)})


NO_EVENTS: Final = event_rows(())


def rows_of_events(
    events: Iterable[LateEvent], *, partition_id: str, record_offset: int, record_ms: int
) -> Iterator[EventRow]:
    """Return the rows of the events of one record.

    The deletion of an annotation is about no span: it is its source.
    """
    partition, version = partition_id.encode(), version_of(record_offset)
    for project_id, trace_id, span_id, event, span_index in events:
        is_deletion = event.name == ANNOTATION_DELETED
        names, source = (trace_id, span_id), (NO_ID, NO_ID)
        yield EventRow(
            project_id.bytes,
            *(source if is_deletion else names),
            event_id_of(event),
            partition,
            version,
            span_index,
            record_ms,
            event.time_ns // 1_000,
            orjson.dumps(event_members(event)),
            *(names if is_deletion else source),
        )


def identity_of(event: Event) -> bytes:
    """Return what makes two events of a span one, as bytes: time, name, attributes and body."""
    body = None if event.log is None else event.log.body
    return orjson.dumps([event.time_ns, event.name, event.attributes, body], option=orjson.OPT_SORT_KEYS)


def event_id_of(event: Event) -> bytes:
    """Return the hash of its identity: 16 bytes."""
    return hashlib.blake2b(identity_of(event), digest_size=16).digest()
