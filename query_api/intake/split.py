"""One OTLP request into one request a trace, in one walk, the bytes of each span as they came.

Each trace takes its resource and scope with it, so that many traces below one large resource would come out a
thousand times as large as they came in: the whole is bounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from common.codec.json_cut import RequestLayout
from common.codec.protobuf_cut import Layout
from common.errors import TooLarge
from query_api.intake.publish import TraceRecord

AnyLayout: TypeAlias = Layout | RequestLayout
GROWTH_MAX: Final = 8
"""So many times the largest body may come out of one."""


def split_by_trace(layout: AnyLayout, trace_ids: Mapping[int, bytes], *, bytes_max: int) -> list[TraceRecord]:
    """A record a trace, in the order in which they came.

    ``trace_ids``: the trace of each span that is kept, by its index in wire order. Raises ``TooLarge`` past ``bytes_max``
    in all.
    """
    records = []
    room = bytes_max
    for trace_id, resources in _resources_by_trace(layout, trace_ids).items():
        spans_count = sum(len(scope.spans) for resource in resources for scope in resource.scopes)
        record = TraceRecord(trace_id, layout._replace(resources=resources).cut(range(spans_count)))
        room -= len(record.value)
        if room < 0:
            raise TooLarge(
                f"The traces take more than {bytes_max} bytes, each with its resource and scope; send fewer."
            )
        records.append(record)
    return records


def _resources_by_trace(layout: AnyLayout, trace_ids: Mapping[int, bytes]) -> dict[bytes, list[Any]]:
    resources_of: dict[bytes, list[Any]] = defaultdict(list)
    span_index = 0
    for resource in layout.resources:
        scopes_of: dict[bytes, list[Any]] = defaultdict(list)
        for scope in resource.scopes:
            spans_of: dict[bytes, list[Any]] = defaultdict(list)
            for index, span in enumerate(scope.spans, start=span_index):
                if index in trace_ids:
                    spans_of[trace_ids[index]].append(span)
            span_index += len(scope.spans)
            for trace_id, spans in spans_of.items():
                scopes_of[trace_id].append(scope._replace(spans=spans))
        for trace_id, scopes in scopes_of.items():
            resources_of[trace_id].append(resource._replace(scopes=scopes))
    return resources_of
