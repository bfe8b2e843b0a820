"""The four ways in which ``clearspan audit`` reads its spans back, and what each of them found."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from clearspan.client.audit_spans import RUN_ATTRIBUTE, MarkedRun, MarkedSpan, is_as_sent
from clearspan.client.connection import ApiClient

POLL_S: Final = 0.1
"""The pause between two reads."""

FEED_WAIT_S: Final = 2
IDS_TOGETHER: Final = 50
"""Traces of one request by id: their ids are in the address."""

PAGES_MIN: Final = 4
"""Pages over which the walk spreads the spans."""

PAGE_MAX: Final = 500
LIMIT_MAX: Final = 10_000
"""Spans of one response."""

NAMED_MAX: Final = 20
"""Spans of a kind that a result names."""

ResponseSpan: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class WayResult:
    """What one way found."""

    way: str
    sent: MarkedRun
    seconds: float | None = None
    """From the acknowledgement of the last span to the response with the last one; ``None`` if some are missing."""

    counts: Counter[str] = field(default_factory=Counter)
    """How often each span was returned."""

    differing: set[str] = field(default_factory=set)
    """Spans that are not as they were sent."""

    _sent_by_id: Mapping[str, MarkedSpan] = field(init=False)

    def __post_init__(self) -> None:
        self._sent_by_id = self.sent.by_id()

    @property
    def missing(self) -> list[str]:
        """The spans that were not returned."""
        return [span.span_id for span in self.sent.spans if not self.counts[span.span_id]]

    @property
    def twice(self) -> list[str]:
        """The spans that were returned more than once, and those that were never sent."""
        known = self._sent_by_id
        return [span_id for span_id, count in self.counts.items() if count > 1 or span_id not in known]

    @property
    def is_good(self) -> bool:
        """Whether every span was returned once, as it was sent."""
        return not self.missing and not self.twice and not self.differing

    def take(self, spans: Iterable[ResponseSpan]) -> None:
        """Add spans of a response."""
        known = self._sent_by_id
        for span in spans:
            span_id = str(span.get("span_id"))
            self.counts[span_id] += 1
            if span_id in known and not is_as_sent(span, known[span_id], self.sent):
                self.differing.add(span_id)

    def members(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "way": self.way,
            "seconds": None if self.seconds is None else round(self.seconds, 4),
            "found": len(self.sent.spans) - len(self.missing),
            "missing": len(self.missing),
            "twice": len(self.twice),
            "differing": len(self.differing),
            **{
                f"{name}_spans": spans[:NAMED_MAX]
                for name, spans in (("missing", self.missing), ("twice", self.twice), ("differing", [*self.differing]))
                if spans
            },
        }


class ReadBack:
    """Reads the spans of a run back until they are all there or a time has passed. Raises ``RequestFailed``."""

    def __init__(self, api: ApiClient, run: MarkedRun, *, timeout_s: float) -> None:
        self._api = api
        self._run = run
        self._timeout_s = timeout_s
        self._mine = {"field": "attributes", "key": RUN_ATTRIBUTE, "operator": "is", "value": run.run_id}
        self._sent_s = 0.0
        self._cursor = ""

    async def begin(self) -> None:
        """Note where the feed is, before anything is sent."""
        windowing = {"by": "created_at", "from": "now", "limit": 1}
        self._cursor = (await self._api.post("/spans/query", self._body(windowing)))["windowing"]["next"]

    async def read(self) -> list[WayResult]:
        """Read in all ways at the same time, from now on."""
        self._sent_s = time.monotonic()
        polled = (("id", self._by_id), ("filter", self._by_filter), ("pages", self._by_pages))
        tasks = [asyncio.create_task(self._poll(way, read)) for way, read in polled]
        tasks.append(asyncio.create_task(self._follow()))
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _poll(self, way: str, read: Callable[[WayResult], Awaitable[None]]) -> WayResult:
        while True:
            result = WayResult(way, self._run)
            await read(result)
            if not result.missing:
                result.seconds = time.monotonic() - self._sent_s
                return result
            if self._is_over():
                return result
            await asyncio.sleep(POLL_S)

    async def _by_id(self, result: WayResult) -> None:
        traces = [spans[0].trace_id for spans in self._run.traces()]
        for first in range(0, len(traces), IDS_TOGETHER):
            answer = await self._api.get("/spans", trace_ids=",".join(traces[first : first + IDS_TOGETHER]))
            result.take(answer.get("spans", []))

    async def _by_filter(self, result: WayResult) -> None:
        await self._walk(result, {"limit": min(len(self._run.spans) + 1, LIMIT_MAX)})

    async def _by_pages(self, result: WayResult) -> None:
        count = min(PAGE_MAX, max(1, len(self._run.spans) // PAGES_MIN))
        await self._walk(result, {"limit": count, "order": "ascending"})

    async def _walk(self, result: WayResult, windowing: Mapping[str, Any]) -> None:
        cursor: Mapping[str, Any] = {}
        while True:
            answer = await self._api.post("/spans/query", self._body({**windowing, **cursor}))
            result.take(answer.get("spans", []))
            if "windowing" not in answer:
                return
            cursor = {"next": answer["windowing"]["next"]}

    async def _follow(self) -> WayResult:
        """Read the feed; when all are there, read once more: a span that comes again would come now."""
        result, cursor, is_last = WayResult("feed", self._run), self._cursor, False
        while True:
            wait_s = 0 if is_last else FEED_WAIT_S
            windowing = {"by": "created_at", "limit": PAGE_MAX, "next": cursor, "wait_s": wait_s}
            answer = await self._api.post("/spans/query", self._body(windowing))
            result.take(answer.get("spans", []))
            cursor = answer["windowing"]["next"]
            if is_last or (result.missing and self._is_over()):
                return result
            if not result.missing:
                result.seconds = time.monotonic() - self._sent_s
                is_last = True

    def _body(self, windowing: Mapping[str, Any]) -> dict[str, Any]:
        return {"filtering": {"conditions": [self._mine]}, "windowing": dict(windowing)}

    def _is_over(self) -> bool:
        return time.monotonic() - self._sent_s > self._timeout_s


def is_good(results: Sequence[WayResult]) -> bool:
    """Return whether every way found every span once, as it was sent."""
    return all(result.is_good for result in results)
