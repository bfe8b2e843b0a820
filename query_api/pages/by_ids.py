"""Spans by their ids (reference §1.1), and what traces by their ids need, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

import pyarrow as pa
from pydantic import Field

from common.errors import InvalidInput
from common.ids import parse_span_id, parse_trace_id
from query_api.pages.span_model import SpanModel
from query_api.request.json_body import ApiModel, Strict
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import latest_of_ids, latest_of_traces, sums_of_traces
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.rows import Layout, Rendered
from query_api.spans.rows_ahead import RowsAhead, render_latest
from query_api.spans.usage import TraceSums
from query_api.spans.versions import Version, values_of


class SpanIds(Strict):
    """The spans of the given traces that have one of the given span ids."""

    trace_id: list[str] = Field(default_factory=list, description="A trace id; may be repeated.")
    trace_ids: list[str] = Field(default_factory=list, description="Comma-separated trace ids.")
    span_id: list[str] = Field(default_factory=list, description="A span id; may be repeated.")
    span_ids: list[str] = Field(default_factory=list, description="Comma-separated span ids.")


class SpanResponse(ApiModel):
    """One span, or none."""

    count: int
    span: SpanModel | None = None


async def list_spans(request: Request) -> Response:
    """Return the spans with these ids, by their start. Unknown ids are left out."""
    ids: SpanIds = request.query
    trace_ids = parse_ids([*ids.trace_id, *split_lists(ids.trace_ids)], parse_trace_id)
    span_ids = parse_ids([*ids.span_id, *split_lists(ids.span_ids)], parse_span_id)
    if not trace_ids and not span_ids:
        raise InvalidInput("At least one trace_id or span_id query parameter is required.")
    found = await _spans_of(request, trace_ids=trace_ids, span_ids=span_ids)
    return Response(b'{"count":%d,"spans":[%b]}' % (len(found), b",".join(span.json for span in found)))


async def get_span(request: Request) -> Response:
    """Return one span by its ids."""
    found = await _spans_of(
        request,
        trace_ids=parse_ids([request.path["trace_id"]], parse_trace_id),
        span_ids=parse_ids([request.path["span_id"]], parse_span_id),
    )
    return Response(b'{"count":1,"span":%b}' % found[0].json if found else b'{"count":0}')


async def _spans_of(request: Request, *, trace_ids: list[bytes], span_ids: list[bytes]) -> list[Rendered]:
    bytes_max = request.context.settings.query.trace_bytes_max
    return await spans_of_ids(project_spans(request), trace_ids=trace_ids, span_ids=span_ids, bytes_max=bytes_max)


async def spans_of_ids(
    spans: ProjectSpans, *, trace_ids: list[bytes], span_ids: list[bytes], bytes_max: int
) -> list[Rendered]:
    """Return all spans of the traces, or those with one of the span ids; earliest first, then by id.

    Raises ``InvalidInput`` if they are larger than ``bytes_max``.
    """
    ahead = RowsAhead(spans, bytes_max=bytes_max)
    wanted = set(span_ids)

    async def begin(sent: pa.Table) -> None:
        if wanted:
            sent = sent.filter(pa.array(map(wanted.__contains__, values_of(sent, "span_id")), pa.bool_()))
        await ahead.begin(sent, trace_ids)

    async def look_up(absent: Collection[Version]) -> tuple[Sequence[Version], Sequence[Layout], TraceSums]:
        if trace_ids:  # one statement finds the versions and the sums of their traces
            on_sent = None if absent else begin
            found, sums = await latest_of_traces(spans, trace_ids, absent=absent, on_sent=on_sent)
            latest = sorted(version for version in found if not wanted or version.span_id in wanted)
            return latest, await ahead.take(latest), sums
        latest = sorted(await latest_of_ids(spans, span_ids=span_ids, absent=absent))
        rows, sums = await asyncio.gather(
            ahead.take(latest), sums_of_traces(spans, {version.trace_id for version in latest})
        )
        return latest, rows, sums

    async with ahead:
        return await render_latest(look_up)


def parse_ids(texts: Iterable[str], parse: Callable[[str], bytes], *, message: str | None = None) -> list[bytes]:
    """Return the distinct ids. Raises ``InvalidInput`` for a text that is not an id, with ``message`` or the reason."""
    try:
        return list(dict.fromkeys(map(parse, texts)))
    except ValueError as exc:
        raise InvalidInput(message or str(exc)) from exc


def split_lists(lists: Iterable[str]) -> list[str]:
    """Return the elements of comma-separated lists."""
    return [text.strip() for joined in lists for text in joined.split(",") if text.strip()]
