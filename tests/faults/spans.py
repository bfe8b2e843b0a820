"""Numbered spans and the records that hold them, in all three encodings.

Every span says which one it is and which attempt of its producer it comes from, so that a checker can count without
knowing what the product does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SHARDS: Final = 10
"""Groups that the checker counts."""

SPANS_PER_TRACE: Final = 10
DURATION_NS: Final = 1_500_000
ABSURD_NS: Final = {"of_1970": 1_000_000_000, "of_2200": 7_258_118_400_000_000_000}
PROTO_TOPIC: Final = "otlp_spans"
JSON_TOPIC: Final = "otlp_spans_json"
SPAN_JSON_TOPIC: Final = "spans"
LOGS_TOPIC: Final = "otlp_logs_json"
TOPICS: Final = (PROTO_TOPIC, JSON_TOPIC, SPAN_JSON_TOPIC)


@dataclass(frozen=True, slots=True)
class NumberedSpan:
    """One span of a round: which it is, from which attempt, and when it starts (ns since 1970).

    With ``fault`` it is refused: ``of_1970`` and ``of_2200`` have absurd times, ``zero_id`` has no id, ``poison`` has a
    name that the test's own constraint keeps out of the table.
    """

    round_name: str
    number: int
    attempt: int
    start_ns: int
    duration_ns: int = DURATION_NS
    fault: str = ""
    padding: str = ""

    @property
    def trace_id(self) -> bytes:
        return trace_id_of(self.round_name, self.number)

    @property
    def span_id(self) -> bytes:
        return bytes(8) if self.fault == "zero_id" else (self.number + 1).to_bytes(8, "big")

    @property
    def begins_ns(self) -> int:
        return ABSURD_NS.get(self.fault, self.start_ns)

    @property
    def name(self) -> str:
        return "poison" if self.fault == "poison" else f"span {self.number}"

    @property
    def attributes(self) -> dict[str, Any]:
        marks = {
            "fault.number": self.number,
            "fault.attempt": self.attempt,
            "fault.shard": f"shard {self.number % SHARDS}",
        }
        return {**marks, "fault.padding": self.padding} if self.padding else marks


def trace_id_of(round_name: str, number: int) -> bytes:
    """Return the id of the trace that holds this span."""
    text = f"{round_name}/{number // SPANS_PER_TRACE}"
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


def encode(spans: Sequence[NumberedSpan], topic: str) -> bytes:
    """Return one record with the spans, in the encoding of the topic."""
    if topic == PROTO_TOPIC:
        return _otlp_proto(spans)
    if topic == JSON_TOPIC:
        return _otlp_json(spans)
    return json.dumps({"spans": [_span_object(span) for span in spans]}).encode()


def _otlp_proto(spans: Sequence[NumberedSpan]) -> bytes:
    message = ExportTraceServiceRequest()
    target = message.resource_spans.add().scope_spans.add().spans
    for numbered in spans:
        span = target.add()
        span.name, span.trace_id, span.span_id = numbered.name, numbered.trace_id, numbered.span_id
        span.start_time_unix_nano = numbered.begins_ns
        span.end_time_unix_nano = numbered.begins_ns + numbered.duration_ns
        for key, value in numbered.attributes.items():
            attribute = span.attributes.add(key=key)
            if isinstance(value, int):
                attribute.value.int_value = value
            else:
                attribute.value.string_value = value
    return bytes(message.SerializeToString())


def _otlp_json(spans: Sequence[NumberedSpan]) -> bytes:
    objects = [
        {
            "name": span.name,
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "startTimeUnixNano": str(span.begins_ns),
            "endTimeUnixNano": str(span.begins_ns + span.duration_ns),
            "attributes": [
                {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
                for key, value in span.attributes.items()
            ],
        }
        for span in spans
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": objects}]}]}).encode()


def _span_object(span: NumberedSpan) -> dict[str, Any]:
    return {
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "span_name": span.name,
        "start_time": _text(span.begins_ns),
        "end_time": _text(span.begins_ns + span.duration_ns),
        "attributes": span.attributes,
    }


def _text(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000 / 1_000_000, UTC).isoformat()
