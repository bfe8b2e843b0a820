"""The route ``/spans/export``: all spans of a query as one stream (contract §9).

An export walks as the pages of ``/spans/query`` do, in the same order, and holds one of a few places while it runs, so
that exports leave the engine to queries. The next piece is made when the client has read the one before.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import orjson
from pydantic import BeforeValidator, Field, field_validator

from common.errors import InvalidInput, Unavailable
from common.fair_share import current_tenant, in_thread
from query_api.export.columns import COLUMNS_MAX
from query_api.export.formats import Encoder, ExportFormat, encoder_of
from query_api.filter.parse import FilteringModel, check_groups
from query_api.filter.sql.compile import compile_node
from query_api.pages.spans import SpansQuery
from query_api.pages.walk import SpanQuery, SpanWalk
from query_api.queries.saved import of_spans
from query_api.request.json_body import Strict, parse_json_text, refuse_boolean
from query_api.request.references import Bound, NamedSlug, ReferenceIn
from query_api.request.route import Request, Response
from query_api.spans.project_spans import project_spans
from query_api.spans.window import PageCursor, pack_position, page_cursor, query_of, spans_window
from query_api.spans.windowing import Order, WindowBy, Windowing


def _filter(value: Any) -> Any:
    loaded = parse_json_text(value) if isinstance(value, str) else value
    check_groups(loaded, path="filter")
    return loaded


class ExportParameters(Strict):
    """Which spans to export, and how."""

    format: ExportFormat = Field(ExportFormat.JSONL, description="`jsonl` (default), `csv` or `parquet`.")
    filter: Annotated[FilteringModel | None, BeforeValidator(_filter, json_schema_input_type=str | None)] = Field(
        None,
        description="The filter of the spans: the member `filtering` of `/spans/query` as JSON text.",
        examples=['{"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]}'],
    )
    query: NamedSlug | None = Field(
        None, description="The slug of a saved query. Its filter applies in addition, and its window unless given here."
    )
    oldest: Bound | None = Field(None, description="Bound of start_time: excluded when ascending.")
    newest: Bound | None = Field(None, description="Bound of start_time: excluded when descending.")
    order: Order | None = Field(None, description="The order by start_time; default descending.")
    columns: list[str] = Field(
        [],
        max_length=COLUMNS_MAX,
        description="Only for csv and parquet: the names of the columns, separated by commas. `attributes.PATH` is the"
        " value at a path, `scores.NAME` that of a score. By default csv has a line of the usual columns, and parquet"
        " has all but paths and single scores.",
        examples=[["trace_id", "start_time", "model", "cost", "session"]],
    )
    limit: int | None = Field(None, ge=1, description="The maximum number of spans; by default all are exported.")
    next: str | None = Field(
        None,
        max_length=131_072,
        description="The cursor in the summary of an export of the same query: continue there.",
    )
    summary: bool = Field(
        False,  # noqa: FBT003 - the default of a field
        description='End with a line `{"export": {"count", "next"?, "complete"}}`. It is always in the metadata of a'
        " Parquet file.",
    )

    _is_number = field_validator("limit", mode="before")(refuse_boolean)

    @property
    def column_names(self) -> Sequence[str]:
        """The names of ``columns``, which may be given in one text or several."""
        return [name.strip() for text in self.columns for name in text.split(",")]


async def export_spans(request: Request) -> Response:
    """Stream all spans of a query as JSON Lines, CSV or Parquet, in the order of `/spans/query` and each once.

    A stream that fails ends without its final chunk. Then continue with `limit` and `next`.
    """
    parameters: ExportParameters = request.query
    encoder = encoder_of(parameters.format, parameters.column_names)
    walk, cursor = await _walk(request, encoder)
    context, tenant = request.context, current_tenant()
    await context.exports.acquire(tenant, timeout_s=context.settings.query.queue_s)
    stream = _Export(request, walk, cursor, encoder).pieces(partial(context.exports.release, tenant))
    return Response(await anext(stream), content_type=encoder.content_type, stream=stream)


async def _walk(request: Request, encoder: Encoder) -> tuple[SpanWalk, PageCursor]:
    parameters: ExportParameters = request.query
    own = Windowing.model_construct(
        oldest=parameters.oldest, newest=parameters.newest, order=parameters.order, next=parameters.next
    )
    reference = None if parameters.query is None else ReferenceIn(slug=parameters.query)
    body = SpansQuery.model_construct(filtering=parameters.filter, windowing=own, query_ref=reference)
    filtering, windowing = await query_of(replace(request, body=body), of_spans)
    if windowing.sort is not None or windowing.by not in (None, WindowBy.START_TIME):
        raise InvalidInput("query: an export is ordered by start_time; the saved query is a ranking or a feed.")
    cursor = page_cursor(request, "export", filtering, windowing)
    query = SpanQuery(
        partial(project_spans, request, explain=False),
        request.context.export_turns,
        await compile_node(filtering, now_us=cursor.now_us),
        spans_window(windowing, position=cursor.position, now_us=cursor.now_us),
        encoder.columns,
        request.context.limits,
    )
    return SpanWalk(query, limit=parameters.limit), cursor


@dataclass(frozen=True, slots=True)
class _Export:
    request: Request
    walk: SpanWalk
    cursor: PageCursor
    encoder: Encoder

    async def pieces(self, release: Any) -> AsyncGenerator[bytes, None]:
        """Yield the file: at least one piece, the first of which may be empty. Calls ``release`` at the end."""
        try:
            count, begin = 0, self.encoder.begin()
            async with aclosing(self.walk.chunks()) as chunks:
                async for chunk in chunks:
                    if self.request.context.stored.is_closed:
                        raise Unavailable("This process is stopping.")
                    count += chunk.rows.num_rows
                    if piece := begin + await in_thread(self.encoder.add, chunk):
                        yield piece
                        begin = b""
            yield begin + self._end(count)
        finally:
            release()

    def _end(self, count: int) -> bytes:
        ends_at = self.walk.ends_at
        summary: dict[str, Any] = {"count": count, "complete": ends_at is None}
        if ends_at is not None:
            summary["next"] = self.cursor.write(pack_position(ends_at))
        return self.encoder.end(orjson.dumps(summary), is_asked_for=self.request.query.summary)
