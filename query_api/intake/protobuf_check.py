"""Check that every span of a request in protobuf can be kept, without building the spans.

The request is read in columns, as the worker reads its records (``otlp_columns``): a quarter of the time of
``otlp_protobuf.decode``. Anything that is not certain is left to the decoder, which knows the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.codec.checks import bounds_of
from common.codec.layout import Layout
from common.codec.otlp_columns import is_available, read_plain
from common.codec.otlp_selected import are_parts_readable
from common.limits import SpanLimits

SPANS_MIN: Final = 64
"""Fewer spans are decoded: columns take as much as these, however few there are."""

_TRACE_ID_BYTES: Final = 16


def plain_trace_ids(layout: Layout, *, limits: SpanLimits, now_ns: int) -> Sequence[bytes] | None:
    """Return the trace id of each span of a request, in wire order.

    ``None`` if ``otlp_protobuf.decode`` must say whether every span can be kept, or if two spans have the same ids.
    """
    spans_count = len(layout.spans)
    if spans_count < SPANS_MIN or len(layout.value) > limits.record_bytes_max or not is_available():
        return None
    if max(part.end - part.content for part in layout.spans) > limits.span_bytes_max:
        return None
    bounds = bounds_of(limits, now_ns=now_ns)
    arrays = read_plain([layout.value], bounds)
    if arrays is None or arrays.spans_count != spans_count or not are_parts_readable(arrays, bounds):
        return None
    ids = arrays.ids("trace_id", _TRACE_ID_BYTES).tobytes()
    return [ids[at : at + _TRACE_ID_BYTES] for at in range(0, len(ids), _TRACE_ID_BYTES)]
