"""Requests with texts and values that cannot be stored as they are sent: U+0000, bytes that are not UTF-8, halves of
surrogate pairs, and more levels than are allowed.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.strategies import otlp_requests

BYTES: Final = "<a fault>"
"""Stands for bytes that no message can hold: ``with_bytes`` replaces it in what was written, each character by one."""

_SHARE: Final = 0.1
_NAMES: Final = ("trace_state", "name", "message", "version", "schema_url", "key", "string_value")


def with_bytes(written: bytes, fault: bytes) -> bytes:
    """Return a record with ``fault`` for each character of ``BYTES``."""
    return written.replace(BYTES.encode(), fault * len(BYTES))


def faulty_requests() -> st.SearchStrategy[ExportTraceServiceRequest]:
    """Requests with spans, all of which are stored, although some of their texts and values cannot be stored as they
    are sent.
    """
    return st.builds(_with_faults, otlp_requests().filter(_has_spans), st.integers(0, 2**16))


def _has_spans(request: ExportTraceServiceRequest) -> bool:
    return any(scope.spans for resource in request.resource_spans for scope in resource.scope_spans)


def _with_faults(request: ExportTraceServiceRequest, seed: int) -> ExportTraceServiceRequest:
    _spoil(request, Random(seed))
    return request


def _spoil(message: Any, chance: Random) -> None:
    for field in message.DESCRIPTOR.fields:
        content = getattr(message, field.name)
        if field.message_type is not None and field.is_repeated:
            for each in content:
                _spoil(each, chance)
        elif field.message_type is not None and message.HasField(field.name):
            _spoil(content, chance)
        elif field.name in _NAMES and _is_sent(message, field) and chance.random() < _SHARE:
            at = chance.randint(0, len(content))
            setattr(message, field.name, content[:at] + chance.choice(("\0", BYTES, BYTES + "\0")) + content[at:])
    if isinstance(message, AnyValue) and chance.random() < _SHARE:
        _deepen(message, chance)


def _is_sent(message: Any, field: Any) -> bool:
    return not field.has_presence or message.HasField(field.name)


def _deepen(value: AnyValue, chance: Random) -> None:
    for _ in range(chance.choice((2, 22, 24, 26))):
        outer = AnyValue()
        if chance.random() < 0.5:
            outer.array_value.values.add().CopyFrom(value)
        else:
            outer.kvlist_value.values.add(key=chance.choice(("k", "l\0", BYTES))).value.CopyFrom(value)
        value.CopyFrom(outer)
