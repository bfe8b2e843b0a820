"""What a trace used, on a real engine and over HTTP: each model call once, in any order, however often it is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore
from common.settings import ClickHouseSettings
from common.span import Event, Span
from common.times import SystemClock, format_us
from tests.support.api import context_of, post_json, serving
from tests.support.numbered_spans import numbered_span
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS, store_record

START_US = START_NS // 1000
WINDOW = {"oldest": format_us(START_US), "newest": format_us(START_US + 3_600_000_000)}
TOTAL = "ag.metrics.tokens.cumulative.total"
AGENT, STEP, CALL, OTHER_CALL = 1, 2, 3, 4
SOME_ORDERS = [
    pytest.param(order, marks=() if order == (2, 1, 0) else pytest.mark.long) for order in permutations(range(3))
]
"""The orders of three records: the parts before the whole in `make test`."""


@dataclass
class Api:
    """The API over HTTP, and its store: each call of ``ingest`` is the next record of one partition."""

    client: aiohttp.ClientSession
    store: ColumnStore
    offset: int = 0

    async def ingest(self, *spans: Span) -> None:
        self.offset += 1
        await store_record(self.store, spans, offset=self.offset)

    async def again(self, *spans: Span) -> None:
        """Deliver the previous record again."""
        await store_record(self.store, spans, offset=self.offset)

    async def post(self, path: str, body: Any) -> Any:
        return await post_json(self.client, path, body)

    async def tokens(self, trace: int = 1) -> Any:
        """Return the total at the root of the trace, after checking that traces, filters and analytics agree."""
        is_root = {"field": "parent_id", "value": None}
        of_trace = {"field": "trace_id", "operator": "is", "value": f"{trace:032x}"}
        (root,) = (await self.post("/spans/query", {"filtering": {"conditions": [is_root, of_trace]}}))["spans"]
        total = total_of(root)

        (trace_found,) = (await self.post("/traces/query", {"filtering": {"conditions": [of_trace]}}))["traces"]
        assert total_of(trace_found["spans"]["s1"]) == total
        has_it = {"field": "attributes", "key": TOTAL, "operator": "eq", "value": total}
        found = await self.post("/spans/query", {"filtering": {"conditions": [has_it, is_root]}})
        assert [span["trace_id"] for span in found["spans"]] == [f"{trace:032x}"]
        counts = await self.post("/tracing/spans/analytics", {**WINDOW, "interval": 60})
        assert [bucket["total"]["tokens"] for bucket in counts["buckets"]] == [total]
        return total


@pytest.fixture
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[Api]:
    store = open_store(chdb_settings(), data_dir=chdb_dir)
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        yield Api(client, store)
    await store.close()


def total_of(span: dict[str, Any]) -> Any:
    return span["attributes"]["ag"]["metrics"]["tokens"].get("cumulative", {}).get("total", 0)


def span(number: int, parent: int | None = None, *, tokens: int = 0, trace: int = 1) -> Span:
    used = {"gen_ai.usage.input_tokens": tokens} if tokens else {}
    attributes = {"ag.type.span": "agent" if parent is None else "chat", **used}
    return numbered_span(number, trace=trace, parent=parent, start_us=number, attributes=attributes)


WHOLE = (span(AGENT, tokens=99), span(STEP, AGENT), span(CALL, STEP, tokens=10), span(OTHER_CALL, STEP, tokens=5))


@pytest.mark.parametrize("order", rest_is_long([(2, 0, 3, 1), (0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)]))
async def test_trace_in_several_records_is_counted_once_in_any_order(api: Api, order: tuple[int, ...]) -> None:
    for index in order:
        await api.ingest(WHOLE[index])

    assert await api.tokens() == 15


async def test_usage_of_its_own_is_added_to_what_is_below(api: Api) -> None:
    own = span(AGENT)._replace(attributes={"ag.metrics.tokens.incremental.prompt": 3})
    await api.ingest(span(CALL, AGENT, tokens=10))
    await api.ingest(own)

    assert await api.tokens() == 13


async def test_agent_counts_until_its_first_model_call_arrives(api: Api) -> None:
    await api.ingest(span(AGENT, tokens=99), span(STEP, AGENT))
    alone = await api.tokens()
    await api.ingest(span(CALL, STEP, tokens=10))

    assert (alone, await api.tokens()) == (99, 10)


async def test_call_counts_next_to_its_agent_while_the_link_is_missing(api: Api) -> None:
    await api.ingest(span(AGENT, tokens=99), span(CALL, STEP, tokens=10))
    apart = await api.tokens()
    await api.ingest(span(STEP, AGENT))

    assert (apart, await api.tokens()) == (109, 10)


async def test_resent_span_counts_with_its_latest_usage(api: Api) -> None:
    await api.ingest(*WHOLE)
    await api.ingest(span(CALL, STEP, tokens=20))
    replaced = await api.tokens()
    await api.ingest(span(CALL, STEP), span(OTHER_CALL, STEP))

    assert (replaced, await api.tokens()) == (25, 99)


async def test_resent_span_moves_to_its_new_parent(api: Api) -> None:
    await api.ingest(span(AGENT, tokens=99), span(CALL, AGENT, tokens=10))
    await api.ingest(span(CALL, OTHER_CALL, tokens=10))

    assert await api.tokens() == 109


async def test_redelivered_record_changes_nothing(api: Api) -> None:
    await api.ingest(*WHOLE)
    await api.again(*WHOLE)

    assert await api.tokens() == 15


async def test_deleted_trace_counts_only_what_is_sent_afterwards(api: Api) -> None:
    await api.ingest(*WHOLE)
    async with api.client.delete(f"/traces/{1:032x}") as response:
        assert response.status == 202
    await api.ingest(span(AGENT), span(CALL, AGENT, tokens=4))

    assert await api.tokens() == 4


async def test_other_traces_do_not_count(api: Api) -> None:
    await api.ingest(span(AGENT, tokens=99), span(CALL, AGENT, tokens=10, trace=2))
    response = await api.post("/spans/query", {"filtering": {"conditions": [{"field": "span_name", "value": "s1"}]}})

    (root,) = response["spans"]
    assert total_of(root) == 99


def failed(span: Span, **attributes: Any) -> Span:
    """Return the same span with an exception."""
    at_ns = span.start_ns
    return span._replace(events=(Event("exception", at_ns, {}),), attributes={**span.attributes, **attributes})


async def cumulative(api: Api, path: str) -> Any:
    """Return the value at the root, after checking that filters on each member agree."""
    at_root = {"field": "parent_id", "value": None}
    (root,) = (await api.post("/spans/query", {"filtering": {"conditions": [at_root]}}))["spans"]
    value = root["attributes"]["ag"]["metrics"]
    for segment in path.split("."):
        value = value[segment]
    for member in ("prompt", "completion", "total") if isinstance(value, dict) else ():
        exists = {"field": "attributes", "key": f"ag.metrics.{path}.{member}", "operator": "exists"}
        found = await api.post("/spans/query", {"filtering": {"conditions": [exists, at_root]}})
        assert found["count"] == (member in value), member
        is_zero = {**exists, "operator": "eq", "value": 0}
        assert (await api.post("/spans/query", {"filtering": {"conditions": [is_zero]}}))["count"] == 0
        has = {"field": "attributes", "key": f"ag.metrics.{path}", "operator": "has", "value": member}
        found = await api.post("/spans/query", {"filtering": {"conditions": [has, at_root]}})
        assert found["count"] == (member in value), member
    return value


@pytest.mark.parametrize("in_one_record", rest_is_long([False, True]))
async def test_parts_are_absent_if_only_the_total_of_costs_is_known(api: Api, *, in_one_record: bool) -> None:
    spans = [span(AGENT), span(CALL, AGENT)._replace(attributes={"llm.cost.total": 0.5})]
    for record in [spans] if in_one_record else [[span] for span in spans]:
        await api.ingest(*record)

    assert await cumulative(api, "costs.cumulative") == {"total": 0.5}
    specs = [
        {"type": "numeric/continuous", "path": f"ag.metrics.costs.cumulative.{part}"} for part in ("prompt", "total")
    ]
    (bucket,) = (await api.post("/spans/analytics/query", {**WINDOW, "interval": 60, "specs": specs}))["buckets"]
    counts = {path.rpartition(".")[2]: each["count"] for path, each in bucket["metrics"].items()}
    assert counts == {"total": 1}


@pytest.mark.parametrize("order", SOME_ORDERS)
async def test_part_missing_in_the_innermost_report_comes_from_above(api: Api, order: tuple[int, ...]) -> None:
    whole = {"gen_ai.usage.input_tokens": 16, "gen_ai.usage.output_tokens": 1}
    spans = [span(AGENT), span(STEP, AGENT)._replace(attributes=whole), span(CALL, STEP, tokens=16)]
    for index in order:
        await api.ingest(spans[index])

    assert await cumulative(api, "tokens.cumulative") == {"prompt": 16, "completion": 1, "total": 17}
    assert await api.tokens() == 17
    counts = await api.post("/tracing/spans/analytics", {**WINDOW, "interval": 60, "focus": "span"})
    assert [bucket["total"]["tokens"] for bucket in counts["buckets"]] == [17]


@pytest.mark.parametrize("in_one_record", rest_is_long([False, True]))
async def test_failure_counts_once_if_its_parents_failed_too(api: Api, *, in_one_record: bool) -> None:
    spans = [failed(span(AGENT)), span(STEP, AGENT), failed(span(CALL, STEP)), failed(span(OTHER_CALL, STEP))]
    for record in [spans] if in_one_record else [[span] for span in spans]:
        await api.ingest(*record)

    assert await cumulative(api, "errors.cumulative") == 2
    assert await cumulative(api, "errors.incremental") == 1
    two = {"field": "attributes", "key": "ag.metrics.errors.cumulative", "operator": "eq", "value": 2}
    found = await api.post("/spans/query", {"filtering": {"conditions": [two, {"field": "parent_id", "value": None}]}})
    assert found["count"] == 1
