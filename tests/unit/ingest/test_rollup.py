"""The roll-up inside one record: any order, any shape, linear; a model call that two traces report counts in one."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.ids import span_id_hex, trace_id_hex
from common.span import NO_METRICS, Metrics, NormalizedSpan, Resource, Scope, Span
from common.usage import Report, counted
from ingest.normalize import normalize
from ingest.rollup import roll_up
from tests.support.scale import scaled

TRACE, OTHER_TRACE = b"t" * 16, b"u" * 16
MANY = scaled(20_000, 100_000)
CLIENT = Scope("com.anthropic.sdk.python")
INSTRUMENTATION = Scope("openinference.instrumentation.anthropic")
PROCESS = Resource({"service": {"name": "a"}})


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big") * 2


def span(number: int, parent: int | None, *, start_ns: int = 0, trace_id: bytes = TRACE) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=span_id(number),
        parent_id=None if parent is None else span_id(parent),
        name="",
        kind=0,
        start_ns=start_ns,
        end_ns=start_ns,
        status_code=0,
        status_message=None,
        attributes={},
    )


def added(spans: list[Span], own: list[float]) -> list[float]:
    """Return sums over descendants if every number counts."""
    metrics = [Metrics(tokens_total=number) for number in own]
    return [sums.tokens_total for sums in roll_up(spans, metrics, range(len(spans)))]


def test_every_metric_of_all_descendants_is_added() -> None:
    spans = [span(1, None), span(2, 1), span(3, 1)]
    own = [NO_METRICS, Metrics(1, 2, 3, 0.25, 0.5, 0.75, 1), Metrics(10, 20, 30, 1, 2, 3, 0)]

    assert roll_up(spans, own) == [Metrics(11, 22, 33, 1.25, 2.5, 3.75, 1), *own[1:]]


def test_usage_reported_below_is_not_added_to_a_report_above() -> None:
    spans = [span(1, None), span(2, 1), span(3, 2), span(4, 3)]
    own = [Metrics(tokens_total=99), NO_METRICS, Metrics(tokens_total=7), Metrics(tokens_total=5)]

    assert [metrics.tokens_total for metrics in roll_up(spans, own)] == [5, 5, 5, 5]


def test_usage_that_always_counts_is_added_to_what_is_below() -> None:
    spans = [span(1, None), span(2, 1), span(3, 2)]
    own = [Metrics(tokens_total=10, errors=1), Metrics(tokens_total=99), Metrics(tokens_total=5)]

    assert [metrics.tokens_total for metrics in roll_up(spans, own, {0})] == [15, 5, 5]


def test_tokens_and_costs_are_each_taken_from_where_they_are_reported() -> None:
    spans = [span(1, None), span(2, 1)]
    own = [Metrics(tokens_total=7, errors=1), Metrics(costs_total=0.5, errors=1)]

    assert roll_up(spans, own) == [Metrics(tokens_total=7, costs_total=0.5, errors=1), own[1]]


def test_errors_count_where_they_happened() -> None:
    spans = [span(1, None), span(2, 1), span(3, 2), span(4, 1)]
    own = [Metrics(errors=1), Metrics(errors=1), Metrics(errors=2), NO_METRICS]

    assert [metrics.errors for metrics in roll_up(spans, own)] == [2, 2, 2, 0]
    assert [metrics.errors for metrics in roll_up(spans, own, {0, 1, 2, 3})] == [2, 2, 2, 0]


def test_missing_part_is_taken_from_the_next_report_above() -> None:
    spans = [span(1, None), span(2, 1), span(3, 2)]
    own = [
        Metrics(16, 1, 17, costs_total=0.5),
        Metrics(16, 1, 17, costs_prompt=0.25, costs_completion=0.25, costs_total=0.5),
        Metrics(16, 0, 16, costs_total=0.5),
    ]

    assert roll_up(spans, own) == [own[1], own[1], own[2]]


@given(st.data())
def test_root_has_the_sums_that_responses_have(data: st.DataObject) -> None:
    """The roll-up of a record agrees with that of a trace at query time (``common/usage.py``)."""
    count = data.draw(st.integers(1, 10))
    spans = [
        span(number, data.draw(st.integers(1, number - 1)) if number > 1 else None) for number in range(1, count + 1)
    ]
    amounts = st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.sampled_from([0, 1]))
    own = []
    for number in range(count):
        units = [(p, c, p + c + 2 * more) for p, c, more in (data.draw(amounts), data.draw(amounts))]
        used = [2.0**number * amount for unit in units for amount in unit]
        metrics = Metrics._make([*used, data.draw(st.sampled_from([0.0, 1.0]))])
        own.append(metrics if any(metrics) else NO_METRICS)
    always = {number for number in range(count) if data.draw(st.booleans())}

    reports = [
        Report(span.span_id, span.parent_id, metrics, number in always)
        for number, (span, metrics) in enumerate(zip(spans, own, strict=True))
    ]
    assert roll_up(spans, own, always)[0] == counted(reports)


def test_order_of_spans_does_not_matter() -> None:
    tree = [(span(1, None), 1.0), (span(2, 1), 2.0), (span(3, 1), 4.0), (span(4, 3), 8.0)]

    for order in permutations(tree):
        sums = added([report for report, _ in order], [own for _, own in order])
        assert dict(zip([report.span_id[-1] for report, _ in order], sums, strict=True)) == {1: 15, 2: 2, 3: 12, 4: 8}


def test_child_that_starts_before_its_parent_is_added() -> None:
    assert added([span(1, None, start_ns=9), span(2, 1, start_ns=1)], [1, 2]) == [3, 2]


def test_orphan_is_a_root() -> None:
    assert added([span(1, None), span(2, 7), span(3, 2)], [1, 2, 4]) == [1, 6, 4]


def test_same_id_in_another_trace_is_not_the_parent() -> None:
    assert added([span(1, None), span(2, 1, trace_id=OTHER_TRACE)], [1, 2]) == [1, 2]


def test_span_that_is_its_own_parent_counts_once() -> None:
    assert added([span(1, 1), span(2, 1)], [1, 2]) == [3, 2]


def test_cycle_is_cut_above_its_earliest_span() -> None:
    cycle = [span(1, 3, start_ns=5), span(2, 1, start_ns=3), span(3, 2, start_ns=4), span(4, 3)]

    assert added(cycle, [1, 2, 4, 8]) == [1, 15, 13, 8]


def test_last_copy_of_a_duplicate_span_is_added() -> None:
    assert added([span(2, 1), span(2, 1), span(1, None)], [1, 2, 4])[2] == 6


@pytest.mark.scaled
def test_long_chain_is_summed() -> None:
    chain = [span(1, None)] + [span(child, parent) for parent, child in pairwise(range(1, MANY + 1))]

    for spans in (chain, chain[::-1]):
        sums = added(spans, [1.0] * len(spans))
        assert sorted(sums) == list(range(1, MANY + 1))


@pytest.mark.scaled
def test_long_cycle_is_summed() -> None:
    ring = [span(number, number % MANY + 1) for number in range(1, MANY + 1)]

    assert sorted(added(ring, [1.0] * len(ring))) == list(range(1, MANY + 1))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12) | st.none(), st.integers(0, 3)), max_size=12))
def test_roots_of_a_record_count_everything_once(drawn: list[tuple[int, int | None, int]]) -> None:
    unique = {number: (parent, start_ns) for number, parent, start_ns in drawn}
    spans = [span(number, parent, start_ns=start_ns) for number, (parent, start_ns) in unique.items()]
    own = [float(2**index) for index in range(len(spans))]

    sums = [int(number) for number in added(spans, own)]

    # Each sum is a set of spans, one bit per span: it includes its own, and is nested in or disjoint from every other.
    for index, held in enumerate(sums):
        assert held >> index & 1
        assert all(held & other in (0, held, other) for other in sums)
    everything = 2 ** len(spans) - 1
    tops = [held for held in sums if not any(held != other and held & other == held for other in sums)]
    assert sum(set(tops)) == everything


def call(
    number: int,
    *,
    scope: Scope = INSTRUMENTATION,
    at: tuple[int, int] = (0, 100),
    tokens: int = 40,
    parent: int | None = None,
    resource: Resource = PROCESS,
) -> Span:
    """A span in its own trace."""
    start_ns = 1_780_000_000_000_000_000
    return Span(
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        name="call",
        kind=3,
        start_ns=start_ns + at[0],
        end_ns=start_ns + at[1],
        status_code=0,
        status_message=None,
        attributes={"ag.type.span": "chat", "ag.metrics.tokens.incremental.prompt": tokens},
        resource=resource,
        scope=scope,
    )


def echo(number: int, *, at: tuple[int, int] = (1, 99), tokens: int = 40, parent: int | None = None) -> Span:
    return call(number, scope=CLIENT, at=at, tokens=tokens, parent=parent)


def counting(*spans: Span) -> list[bool]:
    return [normalized.metrics.tokens_total > 0 for normalized in normalize(spans)]


def meta(normalized: NormalizedSpan) -> dict[str, object]:
    found: dict[str, object] = normalized.attributes["ag"].get("meta", {})
    return found


def test_client_span_does_not_count_next_to_the_span_around_it() -> None:
    assert counting(call(1), echo(2)) == counting(call(1), echo(2, at=(0, 100))) == [True, False]
    assert counting(echo(2), call(1)) == [False, True]


def test_duplicate_keeps_its_report_and_names_the_counted_span() -> None:
    original, kept = normalize([call(1), echo(2)])

    assert kept.attributes["ag"]["metrics"]["tokens"] == {"incremental": {"prompt": 40}}
    assert meta(kept)["counted_in"] == {
        "trace_id": trace_id_hex(call(1).trace_id),
        "span_id": span_id_hex(call(1).span_id),
    }
    assert "counted_in" not in meta(original)


def test_client_span_alone_counts() -> None:
    assert counting(echo(2)) == [True]


def test_client_span_below_another_is_left_to_the_roll_up() -> None:
    assert counting(call(1), echo(2, parent=9)) == [True, True]


def test_different_call_counts() -> None:
    assert counting(call(1), echo(2, tokens=41)) == [True, True]
    assert counting(call(1), echo(2, at=(1, 101))) == [True, True]
    assert counting(call(1, at=(2, 100)), echo(2, at=(1, 99))) == [True, True]
    assert counting(call(1, resource=Resource({"service": {"name": "b"}})), echo(2)) == [True, True]


def test_each_call_has_one_duplicate() -> None:
    assert counting(call(1), echo(2), echo(3)) == [True, False, True]
    assert counting(call(1, at=(0, 100)), call(2, at=(10, 50)), echo(3, at=(11, 49)), echo(4, at=(1, 99))) == [
        True,
        True,
        False,
        False,
    ]


def test_error_counts_in_both_traces() -> None:
    failed = echo(2)
    failed = failed._replace(attributes=failed.attributes | {"ag.metrics.errors.incremental": 1})

    _, kept = normalize([call(1), failed])

    assert kept.metrics == kept.metrics._replace(errors=1, tokens_total=0)
    assert kept.metrics.tokens_prompt == kept.metrics.costs_total == 0


def test_duplicate_republished_alone_does_not_count() -> None:
    kept = normalize([call(1), echo(2)])[1]

    (again,) = normalize([echo(2)._replace(attributes=kept.attributes)])

    assert again.attributes == kept.attributes
    assert again.metrics == kept.metrics
