"""``POST /spans/query`` as a client sees it, without a socket, over a store of the test's own."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson
from multidict import CIMultiDict

from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID
from common.times import SystemClock
from query_api.pages.spans import SpansQuery
from query_api.queries.saved import query_spans
from query_api.request.context import ApiContext
from query_api.request.json_body import read_body
from query_api.request.route import Request
from tests.support.api import PATIENT, context_of

SpanId = tuple[str, str]
"""``trace_id`` and ``span_id`` as answers show them."""


@dataclass(frozen=True)
class SpanPages:
    """Asks one project for pages."""

    context: ApiContext
    project_id: UUID = DEFAULT_PROJECT_ID

    @classmethod
    def over(cls, store: ColumnStore, *, project_id: UUID = DEFAULT_PROJECT_ID, **query_settings: Any) -> SpanPages:
        """``query_settings`` may be outside of their bounds, so that little data is much."""
        context = context_of(store=store, clock=SystemClock())
        query = PATIENT.model_copy(update=query_settings)
        return cls(replace(context, settings=context.settings.model_copy(update={"query": query})), project_id)

    async def page(self, **body: Any) -> dict[str, Any]:
        model = read_body(SpansQuery, json.dumps(body).encode(), content_type=None, required=False)
        answer = await query_spans(Request(self.context, self.project_id, {}, None, model, CIMultiDict()))
        page: dict[str, Any] = orjson.loads(answer.body)
        assert page["count"] == len(page["spans"])
        return page

    async def pages(self, *, between: Callable[[], Awaitable[None]] | None = None, **body: Any) -> list[dict[str, Any]]:
        """Return all pages; ``between`` is awaited after each."""
        pages: list[dict[str, Any]] = []
        windowing: dict[str, Any] = dict(body.pop("windowing", {}))
        while True:
            page = await self.page(**body, windowing=windowing)
            pages.append(page)
            if between is not None:
                await between()
            if "windowing" not in page:
                return pages
            windowing |= page["windowing"]


def ids_of(*pages: dict[str, Any]) -> list[SpanId]:
    """The spans of pages, in order."""
    return [(span["trace_id"], span["span_id"]) for page in pages for span in page["spans"]]
