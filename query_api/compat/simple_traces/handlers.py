"""The handlers of simple traces, annotations and invocations: written like every span, queried, read and deleted like
every trace (reference ``spans-api`` §1.6, ``workflows-evaluators-testsets`` §5 to §7)."""

from __future__ import annotations

import orjson

from common.fair_share import in_thread
from query_api.compat.simple_traces.entities import EntityOfTrace, entity_of, entity_of_stored, schema_of
from query_api.compat.simple_traces.families import TraceFamily
from query_api.compat.simple_traces.filters import node_of
from query_api.compat.simple_traces.models import (
    EditSimpleTrace,
    Json,
    QuerySimpleTraces,
    SimpleLink,
    SimpleTraceEdit,
)
from query_api.compat.simple_traces.spans import (
    TraceDraft,
    finished,
    response_body,
    simple_trace_of,
    spans_of_edited,
)
from query_api.compute import IN_PROCESS_BYTES_MAX, run_if_large
from query_api.intake.publish import publish_spans
from query_api.pages.traces import Trace, trace_id_of, trace_page, traces_of
from query_api.registry.json_schemas import check_data, inferred_schema
from query_api.registry.kinds import json_text
from query_api.registry.values import Revision
from query_api.request.json_body import ApiModel
from query_api.request.route import PrepareContext, Request, Response
from query_api.spans.deletion import delete_with_scores
from query_api.spans.rows import Rendered
from query_api.spans.unfit_windows import refuse_feed
from query_api.spans.windowing import Windowing, WindowingResponse


class SimpleTraceHandlers:
    """The routes of one family."""

    def __init__(self, family: TraceFamily, *, created_status: int = 200) -> None:
        self._family = family
        self._created_status = created_status

    async def create(self, request: Request) -> Response:
        """Create a trace of one span; respond when Kafka has acknowledged it. An entity that it refers to and that does
        not exist is created.
        """
        draft: TraceDraft = request.body
        if not draft.needs_entity:
            return await publish_spans(request, draft.prepared, status=self._created_status)
        entity = await entity_of(request, self._family, draft.references, schema=draft.schema)
        await self._check(request, entity.revision, draft.data)
        prepared = await run_if_large(
            request.context.compute,
            finished,
            draft,
            entity.references,
            entity.revision.artifact_slug,
            is_large=len(draft.span) > IN_PROCESS_BYTES_MAX,
        )
        return await publish_spans(request, prepared, status=self._created_status)

    async def get(self, request: Request) -> Response:
        """Return a simple trace, read from the root span of the trace."""
        root = await self._root(request)
        if root is None:
            return _json(self._family.response(count=0))
        return _json(self._family.response(count=1, trace=simple_trace_of(_span(root))))

    async def edit(self, request: Request) -> Response:
        """Change the root span of a trace and keep absent members; respond when Kafka has acknowledged it."""
        body: EditSimpleTrace = request.body
        root = await self._root(request)
        if root is None:
            return _json(self._family.response(count=0))
        entity = await self._entity_of_edit(request, root, body.trace)
        settings, now_ns = request.context.settings, request.context.clock.now_ns()
        context = PrepareContext(request.path, None, settings.limits.span_limits(), now_ns)
        references = None if entity is None else entity.references
        edited = await in_thread(spans_of_edited, self._family, root, body.trace, references, context)
        return await publish_spans(request, edited, status=200)

    async def delete(self, request: Request) -> Response:
        """Delete all spans of a trace. No route returns them from then on; safe to repeat."""
        root = await _any_root(request)
        if root is not None and not self._family.owns(_span(root)):
            return _json(self._family.deleted(count=0))
        await delete_with_scores(request, trace_id_of(request))
        if root is None:
            return _json(self._family.deleted(count=0))
        span = _span(root)
        link = SimpleLink(trace_id=span["trace_id"], span_id=span["span_id"])
        return _json(self._family.deleted(count=1, link=link))

    async def query(self, request: Request) -> Response:
        """Return a page of the simple traces that match, latest match first."""
        query: QuerySimpleTraces = request.body
        windowing = query.windowing or Windowing()
        refuse_feed(windowing)
        page = await trace_page(request, node_of(self._family, query), windowing)
        traces = [simple_trace_of(_span(_root_of(trace))) for trace in page.items]
        return _json(
            self._family.page(
                count=len(traces),
                traces=traces,
                windowing=None if page.cursor is None else WindowingResponse(next=page.cursor),
                complete=None if page.is_complete else False,
            )
        )

    async def _root(self, request: Request) -> Rendered | None:
        """Return the root span of the trace in the path; ``None`` if the trace is not of this family."""
        root = await _any_root(request)
        return root if root is not None and self._family.owns(_span(root)) else None

    async def _entity_of_edit(self, request: Request, root: Rendered, edit: SimpleTraceEdit) -> EntityOfTrace | None:
        """Find, or create, what an edit refers to, and check the data; ``None`` if it changes no references."""
        if not self._family.needs_entity:
            return None
        if edit.references is not None:
            schema = await in_thread(inferred_schema, edit.data)
            entity = await entity_of(request, self._family, edit.references, schema=schema)
            await self._check(request, entity.revision, await in_thread(json_text, edit.data))
            return entity
        if self._family.is_validated:
            stored = simple_trace_of(_span(root)).references
            revision = await entity_of_stored(request, self._family, stored)
            if revision is not None:
                await self._check(request, revision, await in_thread(json_text, edit.data))
        return None

    async def _check(self, request: Request, revision: Revision, data: str) -> None:
        """Raise ``InvalidRequest`` if data does not match the schema of an evaluator."""
        schema = schema_of(revision) if self._family.is_validated else None
        if schema is not None:
            await check_data(request.context.compute, schema, data, at=("body", self._family.one, "data"))


async def _any_root(request: Request) -> Rendered | None:
    """Return the root span of the trace in the path, whatever its family."""
    found = await traces_of(request, [trace_id_of(request)])
    return _root_of(found[0]) if found else None


def _json(response: ApiModel) -> Response:
    return Response(response_body(response))


def _root_of(trace: Trace) -> Rendered:
    """Return the earliest root of a trace, or its earliest span if it has no root."""
    return next((span for span in trace.spans if span.parent_id is None), trace.spans[0])


def _span(rendered: Rendered) -> Json:
    loaded: Json = orjson.loads(rendered.json)
    return loaded
