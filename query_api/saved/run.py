"""Running a saved query where it is retrieved: which traces it finds, and these (reference ``spans-api`` §9.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from common.ids import span_id_hex, trace_id_hex
from query_api.filter.parse import parse_filter
from query_api.pages.spans import span_page
from query_api.pages.traces import trace_page
from query_api.request.route import Request
from query_api.saved.queries import SAVED_AT, QueryData
from query_api.saved.resolve import overridden
from query_api.spans.render import Rendered
from query_api.spans.windowing import Focus, Windowing, refuse_feed


class Found(NamedTuple):
    """A page of what a saved query finds."""

    spans: Mapping[bytes, Sequence[Rendered]]
    """By their trace, the first that was found first. Where the query is about spans, those that match; else all of the trace."""

    cursor: str | None
    is_complete: bool

    @property
    def trace_ids_json(self) -> bytes:
        """The list of the ids of the traces."""
        return b"[%b]" % b",".join(b'"%b"' % trace_id_hex(trace_id).encode() for trace_id in self.spans)

    @property
    def traces_json(self) -> bytes:
        """The list of the traces, each with its spans by their ids: no tree."""
        return b"[%b]" % b",".join(_trace_json(*each) for each in self.spans.items())


async def run(request: Request, saved: QueryData, own: Windowing | None) -> Found:
    """The page that the saved query asks for, with what the request says of it. Without a focus it is about traces."""
    filtering = await parse_filter(saved.filtering, path=SAVED_AT)
    windowing = overridden(saved.windowing, own)
    refuse_feed(windowing)
    if saved.formatting is not None and saved.formatting.focus is Focus.SPAN:
        page = await span_page(request, filtering, windowing)
        return Found(_by_trace(page.items), page.cursor, page.is_complete)
    traces = await trace_page(request, filtering, windowing)
    return Found({trace.trace_id: trace.spans for trace in traces.items}, traces.cursor, traces.is_complete)


def _by_trace(spans: Sequence[Rendered]) -> Mapping[bytes, Sequence[Rendered]]:
    found: dict[bytes, list[Rendered]] = {}
    for span in spans:
        found.setdefault(span.key.trace_id, []).append(span)
    return found


def _trace_json(trace_id: bytes, spans: Sequence[Rendered]) -> bytes:
    members = b",".join(b'"%b":%b' % (span_id_hex(span.key.span_id).encode(), span.json) for span in spans)
    return b'{"trace_id":"%b","spans":{%b}}' % (trace_id_hex(trace_id).encode(), members)
