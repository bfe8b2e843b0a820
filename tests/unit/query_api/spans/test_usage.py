"""Which reports of usage count: each model call once, whatever repeats it."""

from __future__ import annotations

from itertools import permutations

from common.span import NO_METRICS, Metrics
from query_api.spans.usage import Report, counted


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


def test_an_agent_does_not_count_beside_its_model_calls() -> None:
    assert tokens_of(row(1, tokens=15), row(2, 1, tokens=10), row(3, 1, tokens=5)) == 15


def test_an_agent_counts_where_it_is_alone() -> None:
    assert tokens_of(row(1), row(2, 1, tokens=15), row(3, 2)) == 15


def test_a_report_below_counts_through_spans_that_report_nothing() -> None:
    assert tokens_of(row(1, tokens=15), row(2, 1), row(3, 2), row(4, 3, tokens=10)) == 10


def test_the_order_in_which_spans_are_there_is_of_no_matter() -> None:
    rows = [row(1, tokens=99), row(2, 1), row(3, 2, tokens=10), row(4, 3, tokens=7), row(5, 1, tokens=5)]

    assert {tokens_of(*order) for order in permutations(rows)} == {12}


def test_what_is_a_spans_own_counts_above_others() -> None:
    assert tokens_of(row(1, tokens=3, is_own=True), row(2, 1, tokens=10), row(3, 1, tokens=5, is_own=True)) == 18
    assert tokens_of(row(1, tokens=99), row(2, 1, tokens=3, is_own=True), row(3, 2, tokens=10)) == 13


def test_tokens_and_costs_count_each_for_themselves() -> None:
    rows = [row(1, tokens=15), row(2, 1, cost=0.5), row(3, 1, cost=0.25)]

    assert counted(rows) == Metrics(tokens_total=15, costs_total=0.75)


def test_one_amount_is_a_report_of_its_unit() -> None:
    repeating = Report(span_id(1), None, Metrics(tokens_total=15))

    assert counted([repeating, Report(span_id(2), span_id(1), Metrics(tokens_prompt=10))]) == Metrics(tokens_prompt=10)


def test_errors_count_where_they_happened() -> None:
    assert counted([row(1, errors=1), row(2, 1, errors=1), row(3, 2, errors=1)]).errors == 1
    assert counted([row(1, errors=1), row(2, 1), row(3, 2, errors=1), row(4, 1, errors=2)]).errors == 3


def test_errors_that_a_span_sent_as_its_own_count_once_too() -> None:
    """The events of a plain span, without an instrumentation on it."""
    assert counted([row(1, errors=1, is_own=True), row(2, 1, errors=1, is_own=True)]).errors == 1


def test_of_a_report_that_lacks_a_member_the_next_above_that_has_it_counts() -> None:
    whole, broken = Metrics(16, 1, 17), Metrics(16, 0, 16)
    rows = [
        Report(span_id(1), None, whole),
        Report(span_id(2), span_id(1), whole),
        Report(span_id(3), span_id(2), broken),
    ]

    for order in permutations(rows):
        assert counted(order) == whole


def test_a_total_that_is_more_than_its_parts_has_those_above_in_it() -> None:
    split, alone = Metrics(costs_prompt=0.1, costs_completion=0.2, costs_total=0.3), Metrics(costs_total=0.3)

    assert counted([Report(span_id(1), None, split), Report(span_id(2), span_id(1), alone)]) == split
    assert counted([Report(span_id(1), None, alone), Report(span_id(2), span_id(1), split)]) == split


def test_an_embedding_counts_beside_a_call_with_completions() -> None:
    agent, chat, embedding = Metrics(116, 20, 136), Metrics(100, 20, 120), Metrics(16, 0, 16)
    children = [Report(span_id(number), span_id(1), used) for number, used in ((2, chat), (3, embedding))]

    assert counted([Report(span_id(1), None, agent), *children]) == agent


def test_a_span_whose_parent_is_not_there_stands_at_the_top() -> None:
    assert tokens_of(row(1, tokens=10), row(2, 7, tokens=5)) == 15


def test_zeros_are_no_parent() -> None:
    assert tokens_of(Report(span_id(1), bytes(16), Metrics(tokens_total=3)), row(2, 1, tokens=2)) == 2


def test_a_span_that_is_its_own_parent_stands_at_the_top() -> None:
    assert tokens_of(row(1, 1, tokens=10)) == 10
    assert tokens_of(row(1, 1, tokens=10), row(2, 1, tokens=4)) == 4


def test_a_report_that_leads_back_to_itself_alone_counts() -> None:
    assert tokens_of(row(1, 2, tokens=10), row(2, 1)) == 10
    assert tokens_of(row(1, 2, tokens=10), row(2, 1), row(3, tokens=5)) == 15


def test_a_report_that_leads_back_to_itself_does_not_count_above_another() -> None:
    rows = [row(1, 2, tokens=10), row(2, 1), row(3, 2, tokens=4)]

    assert {tokens_of(*order) for order in permutations(rows)} == {4}


def test_a_circle_without_reports_leads_nowhere() -> None:
    assert tokens_of(row(1, 2), row(2, 1), row(3, 2, tokens=10), row(4, 1, tokens=5)) == 15


def test_reports_in_a_circle_do_not_count_beside_others() -> None:
    assert tokens_of(row(1, 2, tokens=10), row(2, 1, tokens=9), row(3, tokens=5)) == 5


def test_reports_in_a_circle_count_where_nothing_else_would() -> None:
    assert tokens_of(row(1, 2, tokens=10), row(2, 1, tokens=9)) == 19


def test_a_chain_is_as_deep_as_it_likes() -> None:
    depth = 50_000
    chain = [
        row(1, tokens=9),
        *(row(number, number - 1) for number in range(2, depth)),
        row(depth, depth - 1, tokens=4),
    ]

    assert tokens_of(*chain) == 4
    assert tokens_of(*reversed(chain)) == 4
