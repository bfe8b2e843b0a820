"""Groups of spans that a condition on the sums of their traces chooses: with measures of costs, too."""

from __future__ import annotations

from typing import Any

import pytest

from common.clickhouse.store import ColumnStore
from common.span import Span
from common.times import SystemClock
from tests.support.api import context_of, post_json, serving
from tests.support.span_corpus import START_NS, store_record


def a_call(number: int, *, trace: int, parent: int | None, cost: float) -> Span:
    sent = {"ag.metrics.costs.incremental.total": cost} if cost else {}
    parent_id = None if parent is None else parent.to_bytes(8, "big") * 2
    ids = trace.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    return Span(*ids, parent_id, f"span {number}", 3, START_NS + number, START_NS + number + 1_000, 0, None, sent)


SPANS = [
    a_call(1, trace=1, parent=None, cost=0),
    a_call(2, trace=1, parent=1, cost=2),
    a_call(3, trace=1, parent=1, cost=3),
    a_call(4, trace=2, parent=None, cost=0),
    a_call(5, trace=2, parent=4, cost=0.5),
]


@pytest.mark.parametrize(
    "measures",
    [
        [{"of": "count"}],
        [{"of": "count"}, {"of": "cost", "as": ["sum"]}],
        [{"of": "count"}, {"of": "tokens", "as": ["sum"]}, {"of": "cost", "as": ["max"]}],
    ],
    ids=["count", "cost", "tokens and cost"],
)
async def test_condition_on_sums_chooses_spans(store: ColumnStore, measures: list[dict[str, Any]]) -> None:
    await store_record(store, SPANS)
    above = {"field": "attributes", "key": "ag.metrics.costs.cumulative.total", "operator": "gt", "value": 2.5}
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        body = {"filtering": {"conditions": [above]}, "windowing": {"oldest": "1970-01-01"}}
        page = await post_json(client, "/spans/query", body)
        [group] = (await post_json(client, "/spans/groups/query", {**body, "measures": measures}))["groups"]

    assert sorted(span["span_name"] for span in page["spans"]) == ["span 1", "span 3"]
    assert group["values"]["count"] == 2
    if {"of": "cost", "as": ["sum"]} in measures:
        assert group["values"]["cost"] == {"sum": 3}
