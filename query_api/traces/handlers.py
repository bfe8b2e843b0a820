"""The trace routes: all spans of a trace as a tree (reference §1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from common.errors import InvalidInput
from common.ids import parse_trace_id, trace_id_hex
from query_api.route import Answer, Call
from query_api.spans.handlers import project_spans, spans_of_ids
from query_api.spans.render import Rendered
from query_api.traces.models import TraceIds
from query_api.traces.tree import tree_json


async def get_trace(call: Call) -> Answer:
    """``GET /traces/{trace_id}``."""
    [trace_id] = _ids([call.path["trace_id"]])
    spans = await spans_of_ids(project_spans(call), trace_ids=[trace_id])
    return Answer(b'{"count":1,"trace":%b}' % _trace_json(trace_id, spans) if spans else b'{"count":0}')


async def list_traces(call: Call) -> Answer:
    """``GET /traces/``: traces in the order in which they were asked for; unknown ones are left out."""
    asked: TraceIds = call.query
    trace_ids = _ids([*asked.trace_id, *(text for each in asked.trace_ids for text in each.split(",") if text.strip())])
    if not trace_ids:
        raise InvalidInput("At least one trace_id query parameter is required.")
    spans = await spans_of_ids(project_spans(call), trace_ids=trace_ids)
    trace_id_of = attrgetter("key.trace_id")
    by_trace = {key: list(group) for key, group in groupby(sorted(spans, key=trace_id_of), key=trace_id_of)}
    traces = [_trace_json(trace_id, by_trace[trace_id]) for trace_id in trace_ids if trace_id in by_trace]
    return Answer(b'{"count":%d,"traces":[%b]}' % (len(traces), b",".join(traces)))


def _trace_json(trace_id: bytes, spans: Sequence[Rendered]) -> bytes:
    return b'{"trace_id":"%b","spans":%b}' % (trace_id_hex(trace_id).encode(), tree_json(spans))


def _ids(texts: Iterable[str]) -> list[bytes]:
    try:
        return list(dict.fromkeys(parse_trace_id(text.strip()) for text in texts))
    except ValueError as exc:
        raise InvalidInput("Invalid trace_id.") from exc
