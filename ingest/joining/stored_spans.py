"""Rows of ``spans`` as spans again, to be derived anew with the events that came later (ADR 0046).

A row has what its span was sent with, as responses show it, and what was derived from it. The codec of ``span_json``
reads what responses show, so a row is put together as one and read by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT, OPTIONAL_MEMBERS
from common.clickhouse.stored_attributes import ATTRIBUTES, attributes_of
from common.codec import span_json
from common.ids import trace_id_hex
from common.limits import SpanLimits
from common.score import Score
from common.span import Event, Metrics, Span, SpanKind, StatusCode
from common.span_version import is_running

_NO_LIMITS: Final = SpanLimits(
    record_bytes_max=2**40, span_bytes_max=2**40, nesting_depth_max=64, past_ns_min=-(2**63), ahead_ns_max=2**63
)
"""What is stored was within the limits when it came."""

_IDENTITY: Final = ("trace_id", "span_id", "partition_id", "version")
_JSON_MEMBERS: Final = ("events", "links", "references", "hashes", "resource", "scope", "repaired", "scores")
_OTHER_MEMBERS: Final = tuple(name for name in OPTIONAL_MEMBERS if name not in _JSON_MEMBERS)
_NUMBERS: Final = ("start_us", "start_ns_rest", "end_us", "end_ns_rest", "kind", "status_code", "record_ms")

PROJECT: Final = "project"
"""The id of the project as text: the engine returns ids of projects in other ways than it takes them."""

COLUMNS: Final = (
    *_IDENTITY,
    *("parent_id", "name", "trace_type", "cost_is_computed"),
    *_NUMBERS,
    *OPTIONAL_MEMBERS,
    *Metrics._fields,
    *ATTRIBUTES,
)
"""What ``stored_spans`` needs of a row, besides ``PROJECT``."""


class StoredSpan(NamedTuple):
    """A version of a span as it is stored. The attributes of ``span`` are nested and hold the derived ``ag``."""

    project_id: UUID
    partition_id: str
    version: int
    record_ms: int
    span: Span
    trace_type: str
    metrics: Metrics
    cost_is_computed: bool


def stored_spans(rows: pa.Table) -> Iterator[StoredSpan]:
    """Return the spans of rows with ``COLUMNS``."""
    attributes = attributes_of(rows)
    members = rows.select([PROJECT, *COLUMNS[: -len(ATTRIBUTES)]]).to_pylist()
    for row, json in zip(members, attributes, strict=True):
        yield StoredSpan(
            project_id=UUID(_text(row[PROJECT])),
            partition_id=_text(row["partition_id"]),
            version=row["version"],
            record_ms=row["record_ms"],
            span=_read({**_members(row), "attributes": orjson.Fragment(json)}),
            trace_type=_text(row["trace_type"]),
            metrics=Metrics._make(row[name] for name in Metrics._fields),
            cost_is_computed=bool(row["cost_is_computed"]),
        )


_ANY_SPAN: Final = {"trace_id": "1".zfill(32), "span_id": "1".zfill(16), "start_time_unix_nano": "0"}


def events_of(texts: Sequence[bytes]) -> tuple[Event, ...]:
    """Read events, each given as responses show it."""
    return _read({**_ANY_SPAN, "events": list(map(orjson.Fragment, texts))}).events


def scores_of(text: bytes) -> tuple[Score, ...]:
    """Read scores, given as responses show them."""
    return _read({**_ANY_SPAN, "scores": orjson.Fragment(text)}).scores


def _members(row: Mapping[str, Any]) -> dict[str, Any]:
    parent_id = row["parent_id"]
    members: dict[str, Any] = {
        "trace_id": trace_id_hex(row["trace_id"]),
        "span_id": row["span_id"].hex(),
        "parent_id": None if parent_id == NO_PARENT else parent_id.hex(),
        "span_name": _text(row["name"]),
        "span_kind": SpanKind(row["kind"]).name,
        "status_code": StatusCode(row["status_code"]).name,
        "start_time_unix_nano": str(row["start_us"] * 1_000 + row["start_ns_rest"]),
    }
    if is_running(row["version"]):
        members["running"] = True
    else:
        members["end_time_unix_nano"] = str(row["end_us"] * 1_000 + row["end_ns_rest"])
    members |= {name: orjson.Fragment(row[name]) for name in _JSON_MEMBERS if row[name]}
    return members | {name: _text(row[name]) for name in _OTHER_MEMBERS}


def _read(document: Mapping[str, Any]) -> Span:
    (span,) = span_json.decode(orjson.dumps(document), limits=_NO_LIMITS, now_ns=0, sent_ns=0).spans
    return span


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
