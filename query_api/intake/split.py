"""One OTLP request into one request a trace, in one walk, the bytes of each span as they came.

Each trace takes its resource and scope with it, so that many traces below one large resource would come out a
thousand times as large as they came in: the whole is bounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from common.codec.layout import RequestLayout, SpanPart
from common.errors import TooLarge
from query_api.intake.publish import TraceRecord

GROWTH_MAX: Final = 8
"""So many times the largest body may come out of one."""


def split_by_trace(layout: RequestLayout, trace_ids: Mapping[int, bytes], *, bytes_max: int) -> list[TraceRecord]:
    """A record a trace, in the order in which they came.

    ``trace_ids``: the trace of each span that is kept, by its index in wire order. Raises ``TooLarge`` past ``bytes_max``
    in all.
    """
    records = []
    room = bytes_max
    for trace_id, spans in _spans_by_trace(layout, trace_ids).items():
        record = TraceRecord(trace_id, layout.request_of(spans))
        room -= len(record.value)
        if room < 0:
            raise TooLarge(
                f"The traces take more than {bytes_max} bytes, each with its resource and scope; send fewer."
            )
        records.append(record)
    return records


def _spans_by_trace(layout: RequestLayout, trace_ids: Mapping[int, bytes]) -> dict[bytes, list[SpanPart]]:
    spans_of: dict[bytes, list[SpanPart]] = defaultdict(list)
    for index, span in enumerate(layout.spans):
        if index in trace_ids:
            spans_of[trace_ids[index]].append(span)
    return spans_of
