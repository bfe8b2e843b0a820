"""Which reports of usage count: each model call once, whatever repeats it."""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Any

import orjson
import pytest

from common.span import NO_METRICS, Metrics
from common.usage import Report, counted
from query_api.spans.usage import with_sums, write_sums


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big") * 2


def row(
    number: int,
    parent: int | None = None,
    *,
    tokens: float = 0,
    cost: float = 0,
    errors: float = 0,
    is_own: bool = False,
) -> Report:
    metrics = Metrics(tokens_total=tokens, costs_total=cost, errors=errors)
    parent_id = None if parent is None else span_id(parent)
    return Report(span_id(number), parent_id, metrics if any(metrics) else NO_METRICS, is_own)


def tokens_of(*rows: Report) -> float:
    return counted(rows).tokens_total


def test_siblings_are_added() -> None:
    rows = [row(1), row(2, 1, tokens=10), row(3, 1, tokens=5)]

    assert counted(rows) == Metrics(tokens_total=15)


def test_every_amount_is_added() -> None:
    rows = [
        Report(span_id(1), None, Metrics(1, 2, 3, 0.25, 0.5, 0.75, 1)),
        Report(span_id(2), None, Metrics(1, 2, 3, 1, 2, 3, 1)),
    ]

    assert counted(rows) == Metrics(2, 4, 6, 1.25, 2.5, 3.75, 2)


def test_nothing_used_nothing() -> None:
    assert counted([]) == counted([row(1), row(2, 1)]) == NO_METRICS


def test_agent_does_not_count_above_its_model_calls() -> None:
    assert tokens_of(row(1, tokens=15), row(2, 1, tokens=10), row(3, 1, tokens=5)) == 15


def test_agent_alone_counts() -> None:
    assert tokens_of(row(1), row(2, 1, tokens=15), row(3, 2)) == 15


def test_a_report_below_counts_through_spans_that_report_nothing() -> None:
    assert tokens_of(row(1, tokens=15), row(2, 1), row(3, 2), row(4, 3, tokens=10)) == 10


def test_order_of_spans_does_not_matter() -> None:
    rows = [row(1, tokens=99), row(2, 1), row(3, 2, tokens=10), row(4, 3, tokens=7), row(5, 1, tokens=5)]

    assert {tokens_of(*order) for order in permutations(rows)} == {12}


def test_usage_of_its_own_counts_above_other_reports() -> None:
    assert tokens_of(row(1, tokens=3, is_own=True), row(2, 1, tokens=10), row(3, 1, tokens=5, is_own=True)) == 18
    assert tokens_of(row(1, tokens=99), row(2, 1, tokens=3, is_own=True), row(3, 2, tokens=10)) == 13


def test_tokens_and_costs_are_judged_separately() -> None:
    rows = [row(1, tokens=15), row(2, 1, cost=0.5), row(3, 1, cost=0.25)]

    assert counted(rows) == Metrics(tokens_total=15, costs_total=0.75)


def test_one_amount_is_a_report_of_its_unit() -> None:
    repeating = Report(span_id(1), None, Metrics(tokens_total=15))

    assert counted([repeating, Report(span_id(2), span_id(1), Metrics(tokens_prompt=10))]) == Metrics(tokens_prompt=10)


def test_errors_count_where_they_happened() -> None:
    assert counted([row(1, errors=1), row(2, 1, errors=1), row(3, 2, errors=1)]).errors == 1
    assert counted([row(1, errors=1), row(2, 1), row(3, 2, errors=1), row(4, 1, errors=2)]).errors == 3


def test_errors_sent_as_its_own_count_once() -> None:
    """The events of a plain span, without an instrumentation on it."""
    assert counted([row(1, errors=1, is_own=True), row(2, 1, errors=1, is_own=True)]).errors == 1


def test_missing_part_is_taken_from_the_next_report_above() -> None:
    whole, broken = Metrics(16, 1, 17), Metrics(16, 0, 16)
    rows = [
        Report(span_id(1), None, whole),
        Report(span_id(2), span_id(1), whole),
        Report(span_id(3), span_id(2), broken),
    ]

    for order in permutations(rows):
        assert counted(order) == whole


def test_total_above_its_parts_includes_missing_parts() -> None:
    split, alone = Metrics(costs_prompt=0.1, costs_completion=0.2, costs_total=0.3), Metrics(costs_total=0.3)

    assert counted([Report(span_id(1), None, split), Report(span_id(2), span_id(1), alone)]) == split
    assert counted([Report(span_id(1), None, alone), Report(span_id(2), span_id(1), split)]) == split


def test_embedding_counts_next_to_a_completion() -> None:
    agent, chat, embedding = Metrics(116, 20, 136), Metrics(100, 20, 120), Metrics(16, 0, 16)
    children = [Report(span_id(number), span_id(1), used) for number, used in ((2, chat), (3, embedding))]

    assert counted([Report(span_id(1), None, agent), *children]) == agent


def test_span_with_a_missing_parent_is_at_the_top() -> None:
    assert tokens_of(row(1, tokens=10), row(2, 7, tokens=5)) == 15


def test_zeros_mean_no_parent() -> None:
    assert tokens_of(Report(span_id(1), bytes(16), Metrics(tokens_total=3)), row(2, 1, tokens=2)) == 2


def test_span_that_is_its_own_parent_is_at_the_top() -> None:
    assert tokens_of(row(1, 1, tokens=10)) == 10
    assert tokens_of(row(1, 1, tokens=10), row(2, 1, tokens=4)) == 4


def test_single_report_in_a_circle_counts() -> None:
    assert tokens_of(row(1, 2, tokens=10), row(2, 1)) == 10
    assert tokens_of(row(1, 2, tokens=10), row(2, 1), row(3, tokens=5)) == 15


def test_report_in_a_circle_does_not_count_above_another() -> None:
    rows = [row(1, 2, tokens=10), row(2, 1), row(3, 2, tokens=4)]

    assert {tokens_of(*order) for order in permutations(rows)} == {4}


def test_a_circle_without_reports_leads_nowhere() -> None:
    assert tokens_of(row(1, 2), row(2, 1), row(3, 2, tokens=10), row(4, 1, tokens=5)) == 15


def test_reports_in_a_circle_do_not_count_if_there_are_others() -> None:
    assert tokens_of(row(1, 2, tokens=10), row(2, 1, tokens=9), row(3, tokens=5)) == 5


def test_reports_in_a_circle_count_if_there_are_no_others() -> None:
    assert tokens_of(row(1, 2, tokens=10), row(2, 1, tokens=9)) == 19


def test_chain_may_have_any_depth() -> None:
    depth = 20_000
    chain = [
        row(1, tokens=9),
        *(row(number, number - 1) for number in range(2, depth)),
        row(depth, depth - 1, tokens=4),
    ]

    assert tokens_of(*chain) == 4
    assert tokens_of(*reversed(chain)) == 4


TRICKY: tuple[dict[str, Any], ...] = (
    {},
    {"a": {"metrics": {"tokens": 1}}},
    {'a"metrics': {"tokens": 1}},
    {"text": '"metrics":{"tokens":{}}'},
    {"text": '{"metrics":{}} Straße \u2028 \\'},
    {"zz": "é" * 3_000},
)
METRICS: tuple[dict[str, Any], ...] = (
    {"duration": {}, "errors": {}, "tokens": {}, "costs": {}},
    {"duration": {"cumulative": 0.1}, "errors": {}, "tokens": {"incremental": {"total": 2**63}}, "costs": {"é": "{"}},
    {"duration": {}, "errors": {}, "tokens": {"x": ["]}", 1e300, None, True]}, "costs": {"y": "z" * 3_000}},
)


@pytest.mark.parametrize(
    "sums", [Metrics(), Metrics(1.0, 2.5, 3.5, 0.0, 0.1, 0.1, 2.0), Metrics(tokens_total=math.inf)]
)
def test_sums_are_written_into_json_as_into_the_attributes(sums: Metrics) -> None:
    for others, metrics in product(TRICKY, METRICS):
        both = {"ag": {"metrics": metrics}, **others}, {**others, "ag": {"data": others, "metrics": metrics}}
        for attributes in both:
            stored = orjson.dumps(attributes)
            expected = orjson.loads(stored)
            write_sums(expected, sums)
            assert with_sums(stored, sums) == orjson.dumps(expected), attributes


def test_sum_does_not_depend_on_the_order_of_the_spans() -> None:
    rows = [row(number, tokens=amount) for number, amount in enumerate((0.1, 0.2, 0.3, 1e17, -1e17))]
    assert len({tokens_of(*ordered) for ordered in permutations(rows)}) == 1
