"""A reader of the feed, as the API calls its handler, and a store whose inserts are seen part by part."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from multidict import CIMultiDict

from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Shard, Statement
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.ids import DEFAULT_PROJECT_ID
from common.stored_position import StoredPosition
from query_api.pages.spans import SpansQuery
from query_api.queries.saved import query_spans
from query_api.request.context import ApiContext, waiting_places
from query_api.request.json_body import read_body
from query_api.request.route import Request


class Reader:
    """Reads the feed of one project from page to page; ``windowing`` and ``body`` are the same on each."""

    def __init__(
        self,
        context: ApiContext,
        *,
        project_id: UUID = DEFAULT_PROJECT_ID,
        windowing: Mapping[str, Any] | None = None,
        **body: Any,
    ) -> None:
        self._context = context
        self._project_id = project_id
        self._windowing = {"by": "created_at", **(windowing or {})}
        self._body = body
        self.next: str | None = None

    async def page(self, **windowing: Any) -> dict[str, Any]:
        """The next page; remembers where it ends."""
        at = {} if self.next is None else {"next": self.next}
        body = {**self._body, "windowing": {**self._windowing, **at, **windowing}}
        query = read_body(SpansQuery, json.dumps(body).encode(), content_type=None, required=False)
        call = Request(self._context, self._project_id, {}, None, query, CIMultiDict())
        page: dict[str, Any] = orjson.loads((await query_spans(call)).body)
        assert page["count"] == len(page["spans"])
        self.next = page["windowing"]["next"]
        return page

    async def rest(self, **windowing: Any) -> list[dict[str, Any]]:
        """Every span from here to the end."""
        found: list[dict[str, Any]] = []
        while (page := await self.page(**windowing))["count"] or "complete" in page:
            found += page["spans"]
        return found

    async def ids(self, **windowing: Any) -> list[int]:
        """The span ids from here to the end, as numbers."""
        return [int(span["span_id"], 16) for span in await self.rest(**windowing)]


async def settle(
    store: ColumnStore, *, offset: int, partition_id: str = "cluster/spans/0", project_id: UUID = DEFAULT_PROJECT_ID
) -> StoredPosition:
    """Write that a partition is stored up to this offset."""
    settled = StoredPosition(project_id, partition_id, offset, 1, offset + 1)
    await store.insert(
        STORED_THROUGH_TABLE,
        positions_table([settled]),
        dedup_token=f"{project_id}/{partition_id}/{offset}",
        deadline_s=10.0,
    )
    return settled


class StoreInFront:
    """Passes everything on to a store, and counts its statements."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.selects_count = 0

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        await self._store.insert(table, rows, dedup_token=dedup_token, deadline_s=deadline_s)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        self.selects_count += 1
        return await self._store.select(statement, deadline_s=deadline_s)

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        return await self._store.rows_read(statement, deadline_s=deadline_s)

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        await self._store.execute(statement, deadline_s=deadline_s)

    def shards(self) -> AbstractAsyncContextManager[Sequence[Shard]]:
        return self._store.shards()

    async def close(self) -> None:
        """Do nothing: the wrapped store belongs to the caller."""


class PartByPartStore(StoreInFront):
    """Inserts of spans become visible in two parts, the later rows first, with pauses before, between and after.

    So does an insert into several parts and views look to a reader, at its worst.
    """

    def __init__(self, store: ColumnStore, *, source: random.Random, pause_s_max: float) -> None:
        super().__init__(store)
        self._source = source
        self._pause_s_max = pause_s_max

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        if table != SPANS_TABLE:
            await super().insert(table, rows, dedup_token=dedup_token, deadline_s=deadline_s)
            return
        half = self._source.randrange(rows.num_rows + 1)
        for name, part in (("later", rows.slice(half)), ("earlier", rows.slice(0, half))):
            await self._pause()
            if part.num_rows:
                await super().insert(table, part, dedup_token=f"{dedup_token}/{name}", deadline_s=deadline_s)
        await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._source.random() * self._pause_s_max)


def with_query_settings(context: ApiContext, **changed: Any) -> ApiContext:
    """The same API with other settings of queries."""
    query = context.settings.query.model_copy(update=changed)
    settings = context.settings.model_copy(update={"query": query})
    return replace(context, settings=settings, waiting=waiting_places(query.waiting_max))


def versions(spans: Sequence[Mapping[str, Any]], *, attribute: str) -> list[tuple[str, Any]]:
    """Span id and the value of an attribute that tells versions apart."""
    return [(span["trace_id"] + span["span_id"], span["attributes"][attribute]) for span in spans]
