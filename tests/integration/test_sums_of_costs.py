"""Sums of costs over the real engine: the same in every answer, whatever the order of spans, records and blocks."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from common.clickhouse.store import ColumnStore
from common.span import Span
from common.times import SystemClock, format_us
from tests.support.api import context_of, post_json, serving
from tests.support.numbered_spans import numbered_span
from tests.support.scale import scaled
from tests.support.span_corpus import START_NS, store_record

START_US = START_NS // 1000
WINDOW = {"oldest": format_us(START_US), "newest": format_us(START_US + 3_600_000_000)}
CALLS = scaled(2_000, 20_000)
COST = {"of": "cost", "as": ["sum", "avg", "min", "max", "p50", "uniq"]}
OF_ATTRIBUTE = {
    "of": {"field": "attributes", "key": "ag.metrics.costs.incremental.total"},
    "as": ["sum", "avg", "min", "max", "p50", "uniq"],
}
CUMULATIVE = "attributes.ag.metrics.costs.cumulative.total"


@pytest.fixture
async def client(store: ColumnStore) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context_of(store=store, clock=SystemClock())) as session:
        yield session


def span(number: int, *, trace: int = 1, parent: int | None = 1, **attributes: Any) -> Span:
    return numbered_span(number, trace=trace, parent=parent, start_us=number, attributes=attributes)


def call(number: int, cost: float, **members: Any) -> Span:
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.usage.cost": cost}
    return span(number, **members, **attributes)


async def store_in_blocks(store: ColumnStore, spans: list[Span], *, count: int) -> None:
    """Store spans as several records in a random order, each an insert of its own."""
    random.Random(1).shuffle(spans)
    for offset in range(count):
        await store_record(store, spans[offset::count], offset=offset)


async def test_equal_queries_answer_equal_sums(client: aiohttp.ClientSession, store: ColumnStore) -> None:
    """2,000 calls of 0.0000015 dollars in six records; doubles add up to 0.002999999999999972 or another number."""
    expected = round(CALLS * 0.0000015, 12)
    await store_in_blocks(store, [span(1, parent=None), *(call(n + 2, 0.0000015) for n in range(CALLS))], count=6)
    one = {"sum": expected, "avg": 0.0000015, "min": 0.0000015, "max": 0.0000015, "p50": 0.0000015, "uniq": 1}

    for _ in range(3):
        (group,) = (await post_json(client, "/spans/groups/query", {"measures": [COST, OF_ATTRIBUTE]}))["groups"]
        assert group["values"] == {"cost": one, "ag.metrics.costs.incremental.total": one}
        for focus in ("span", "trace"):
            counts = await post_json(client, "/tracing/spans/analytics", {**WINDOW, "interval": 60, "focus": focus})
            assert [bucket["total"]["costs"] for bucket in counts["buckets"]] == [expected]

    metrics = await post_json(client, "/spans/analytics/query", {"windowing": {**WINDOW, "interval": 60}})
    (bucket,) = metrics["buckets"]
    assert {name: bucket["metrics"][CUMULATIVE][name] for name in ("sum", "mean", "max")} == {
        "sum": expected,
        "mean": expected,
        "max": expected,
    }
    assert [summary["cost"] for summary in (await post_json(client, "/traces/summaries/query", {}))["summaries"]] == [
        expected
    ]
    has_it = {"field": "attributes", "key": CUMULATIVE.removeprefix("attributes."), "operator": "eq", "value": expected}
    found = await post_json(client, "/spans/query", {"filtering": {"conditions": [has_it]}})
    assert [each["attributes"]["ag"]["metrics"]["costs"]["cumulative"] for each in found["spans"]] == [
        {"total": expected}
    ]


async def test_statistics_have_the_decimals_of_money(client: aiohttp.ClientSession, store: ColumnStore) -> None:
    costs = [0.1, 0.2, 0.0000003, 0.7]
    await store_record(store, [call(n + 1, cost, parent=None, trace=n + 1) for n, cost in enumerate(costs)])

    (group,) = (await post_json(client, "/spans/groups/query", {"measures": [COST]}))["groups"]
    assert group["values"]["cost"] == {
        "sum": 1.0000003,
        "avg": 0.250000075,
        "min": 0.0000003,
        "max": 0.7,
        "p50": 0.15,
        "uniq": 4,
    }
    ranked = await post_json(client, "/traces/query", {"windowing": {"sort": {"by": "cost"}}})
    assert [trace["spans"].popitem()[0] for trace in ranked["traces"]] == ["s4", "s2", "s1", "s3"]


async def cost_of_trace(client: aiohttp.ClientSession) -> Any:
    """Return the cost of the only trace, after checking that every answer has the same."""
    (summary,) = (await post_json(client, "/traces/summaries/query", {}))["summaries"]
    cost = summary["cost"]
    is_root = {"field": "parent_id", "value": None}
    (root,) = (await post_json(client, "/spans/query", {"filtering": {"conditions": [is_root]}}))["spans"]
    assert root["attributes"]["ag"]["metrics"]["costs"]["cumulative"]["total"] == cost
    (group,) = (await post_json(client, "/spans/groups/query", {"measures": [{"of": "cost", "as": ["sum"]}]}))["groups"]
    assert group["values"]["cost"]["sum"] == cost
    for focus in ("span", "trace"):
        counts = await post_json(client, "/tracing/spans/analytics", {**WINDOW, "interval": 60, "focus": focus})
        assert [bucket["total"]["costs"] for bucket in counts["buckets"]] == [cost]
    (ranked,) = (await post_json(client, "/traces/query", {"windowing": {"sort": {"by": "cost"}}}))["traces"]
    assert ranked["trace_id"] == root["trace_id"]
    has_it = {"field": "attributes", "key": CUMULATIVE.removeprefix("attributes."), "operator": "eq", "value": cost}
    found = await post_json(client, "/spans/query", {"filtering": {"conditions": [has_it, is_root]}})
    assert found["count"] == 1
    return cost


def priced(number: int, *, parent: int | None, kind: str = "chat", model: str = "gpt-4o-mini") -> Span:
    """A span of ten tokens, which cost 0.0000015 dollars by the list."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": kind,
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": 10,
    }
    return span(number, parent=parent, **attributes)


def sent(number: int, cost: float, *, parent: int | None) -> Span:
    """The same with a cost that was sent."""
    spent = priced(number, parent=parent)
    return spent._replace(attributes={**spent.attributes, "gen_ai.usage.cost": cost})


@pytest.mark.parametrize("records_count", [1, 2, 3])
@pytest.mark.parametrize(
    ("spans", "cost"),
    [
        ([sent(1, 0.5, parent=None), priced(2, parent=1)], 0.5),
        ([sent(1, 0.5, parent=None), span(2), priced(3, parent=2), priced(4, parent=2)], 0.5),
        ([priced(1, parent=None, kind="invoke_agent"), sent(2, 0.25, parent=1)], 0.25),
        ([sent(1, 0.5, parent=None), sent(2, 0.25, parent=1), priced(3, parent=1)], 0.2500015),
        ([priced(1, parent=None, kind="invoke_agent"), span(2)], 0.0000015),
        ([priced(1, parent=None, kind="invoke_agent"), priced(2, parent=1), priced(3, parent=1)], 0.000003),
        ([priced(1, parent=None, kind="invoke_agent"), priced(2, parent=1, model="mine"), span(3)], 0.0000015),
    ],
    ids=[
        "a gateway's cost above a list price",
        "an agent's cost above two list prices",
        "a list price above a cost that was sent",
        "a part was sent by a child",
        "only the agent reports tokens",
        "the agent repeats its calls",
        "the model of the call has no price",
    ],
)
async def test_cost_that_was_sent_wins_and_list_prices_fill_the_rest(
    client: aiohttp.ClientSession, store: ColumnStore, spans: list[Span], cost: float, records_count: int
) -> None:
    await store_in_blocks(store, list(spans), count=records_count)

    assert await cost_of_trace(client) == cost


async def test_hostile_costs_fail_no_query(client: aiohttp.ClientSession, store: ColumnStore) -> None:
    """What no call costs stays in the attributes and is added to nothing; what is too small is nothing."""
    costs = [1e308, 1e15, 1.7e308, 10**18, 1e-13, 1e14, 0.5]
    await store_record(store, [call(n + 1, cost, parent=None, trace=n + 1) for n, cost in enumerate(costs)])
    expected = 1e14 + 0.5

    (group,) = (await post_json(client, "/spans/groups/query", {"measures": [COST, OF_ATTRIBUTE]}))["groups"]
    assert group["values"]["cost"]["sum"] == expected
    assert group["values"]["cost"]["max"] == 1e14
    assert group["values"]["ag.metrics.costs.incremental.total"]["sum"] == expected
    counts = await post_json(client, "/tracing/spans/analytics", {**WINDOW, "interval": 60})
    assert [bucket["total"]["costs"] for bucket in counts["buckets"]] == [expected]
    await post_json(client, "/spans/analytics/query", {"windowing": {**WINDOW, "interval": 60}})
    ranked = await post_json(client, "/traces/query", {"windowing": {"sort": {"by": "cost"}}})
    assert [trace["spans"].popitem()[0] for trace in ranked["traces"]] == ["s6", "s7"]
    shown = await post_json(client, "/spans/query", {"windowing": {"order": "ascending"}})
    totals = [each["attributes"]["ag"]["metrics"]["costs"]["incremental"]["total"] for each in shown["spans"]]
    assert totals == costs
