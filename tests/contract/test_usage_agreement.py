"""What a trace used is the same in Python and in SQL, on a real engine: for trees, orphans, circles and deep chains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from common.clickhouse.connect import open_store
from common.clickhouse.select import Select
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import NO_METRICS, Metrics
from common.usage import Report, counted, counted_totals, trace_sums

Rows: TypeAlias = Sequence[Report]

TRACES_AT_ONCE = 20
EXAMPLES = (6, max(40, settings().max_examples // 5))
"""In `make test`, and in the long test: planning a statement is expensive, a trace in it is cheap."""

SPANS_MAX = 14
LONG = {"max_query_size": 16 * 1024 * 1024, "max_ast_elements": 1_000_000}  # the spans are its text
COLUMNS = ("trace_id", "span_id", "parent_id", *Metrics._fields, "usage_is_own", "cost_is_computed")


UNITS = (
    (0.0, 0.0, 0.0),
    (1.0, 1.0, 2.0),
    (1.0, 0.0, 1.0),
    (0.0, 1.0, 1.0),
    (0.0, 0.0, 2.0),
    (1.0, 0.0, 2.0),
    (1.0, 1.0, 4.0),
)
"""Prompt, completion and total: all of them, one part alone, a total alone, and totals that are more than the parts."""


def span_id(number: int) -> bytes:
    return (number + 1).to_bytes(8, "big") * 2


def metrics(draw: st.DrawFn, number: int) -> Metrics:
    """Any members of what a span can report. Each bit is one span, so that a sum says which of them are in it."""
    bit = 2.0**number
    units = [draw(st.sampled_from(UNITS)) for _ in ("tokens", "costs")]
    amounts = [amount * bit for unit in units for amount in unit]
    return Metrics._make([*amounts, draw(st.sampled_from([0.0, bit]))])


IS_SMALL = "length(ids) < 64 AS is_small"


@st.composite
def traces(draw: st.DrawFn) -> Rows:
    """Spans with any parents: none, one that is there, themselves, or one that is not there."""
    count = draw(st.integers(1, SPANS_MAX))
    parents = st.one_of(st.none(), st.integers(0, count - 1), st.just(SPANS_MAX))
    earlier = draw(st.booleans())  # then there are no circles
    rows = []
    for number in range(count):
        parent = draw(st.integers(0, number - 1) if earlier and number else parents)
        used = NO_METRICS if draw(st.booleans()) else metrics(draw, number)
        parent_id = None if parent is None else span_id(parent)
        used = used if any(used) else NO_METRICS
        rows.append(Report(span_id(number), parent_id, used, draw(st.booleans()), draw(st.booleans())))
    return rows


def chain(length: int, *, reports: Sequence[int]) -> Rows:
    """Each span the child of the one before."""
    return [
        Report(
            span_id(number),
            span_id(number - 1) if number else None,
            Metrics(tokens_total=number + 1.0) if number in reports else NO_METRICS,
        )
        for number in range(length)
    ]


@pytest.fixture
async def store(chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    opened = open_store(ClickHouseSettings(interface="chdb", database="default"), data_dir=chdb_dir)
    yield opened
    await opened.close()


def reports_of(of_traces: Sequence[Rows]) -> Select:
    """The spans of all traces as a table inside a statement."""
    rows = [
        f"(unhex('{number:032x}'), unhex('{span_id.hex()}'), unhex('{(parent or bytes(16)).hex()}'), {', '.join(map(str, used))}, {int(is_own)}, {int(is_computed)})"
        for number, trace in enumerate(of_traces)
        for span_id, parent, used, is_own, is_computed in trace
    ]
    types = ["FixedString(16)"] * 3 + ["Float64"] * len(Metrics._fields) + ["UInt8"] * 2
    structure = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, types, strict=True))
    given = f"SELECT * FROM values('{structure}', {', '.join(rows)})"
    return Select(DEFAULT_PROJECT_ID, "given", ["*"], queries={"given": given})


async def selected(store: ColumnStore, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await store.select(Statement(sql, settings=LONG), deadline_s=60.0)).to_pylist()
    return rows


async def sums_in_sql(store: ColumnStore, of_traces: Sequence[Rows], *, all_are_large: bool = False) -> list[Metrics]:
    """The sums of each trace. ``all_are_large``: by the steps for traces that have too many spans for the short way."""
    sql = str(trace_sums(reports_of(of_traces)))
    assert IS_SMALL in sql
    rows = await selected(store, sql.replace(IS_SMALL, "0 AS is_small") if all_are_large else sql)
    by_trace = {row["trace_id"]: Metrics(*(row[name] for name in Metrics._fields)) for row in rows}
    return [by_trace[number.to_bytes(16, "big")] for number in range(len(of_traces))]


CIRCLE: Rows = [
    Report(span_id(0), span_id(1), Metrics(1, 1, 1)),
    Report(span_id(1), span_id(0), Metrics(2, 2, 2)),
]


@settings(max_examples=EXAMPLES[0], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(of_traces=st.lists(traces(), min_size=8, max_size=TRACES_AT_ONCE))
@example(of_traces=[CIRCLE])
async def test_python_and_sql_agree(store: ColumnStore, of_traces: list[Rows]) -> None:
    await agree(store, of_traces)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=EXAMPLES[1], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(of_traces=st.lists(traces(), min_size=8, max_size=TRACES_AT_ONCE))
async def test_python_and_sql_agree_on_many_traces(store: ColumnStore, of_traces: list[Rows]) -> None:
    await agree(store, of_traces)


async def agree(store: ColumnStore, of_traces: list[Rows]) -> None:
    sums = [counted(trace) for trace in of_traces]
    assert await sums_in_sql(store, of_traces) == sums
    assert await sums_in_sql(store, of_traces, all_are_large=True) == sums


@pytest.mark.parametrize("length", [2, 3, 5, 9, 63, 64, 700])
async def test_report_below_is_found_at_any_depth(store: ColumnStore, length: int) -> None:
    deep = chain(length, reports=[0, length - 1])

    assert (await sums_in_sql(store, [deep]))[0].tokens_total == length == counted(deep).tokens_total


async def test_large_trace_next_to_small_ones_is_counted(store: ColumnStore) -> None:
    large = [Report(span_id(0), None, Metrics(tokens_total=1.0))]
    large += [Report(span_id(number), span_id(number // 2), Metrics(tokens_total=1.0)) for number in range(1, 600)]
    small = [chain(2, reports=[0, 1])] * 20

    found = await sums_in_sql(store, [large, *small])

    assert [used.tokens_total for used in found] == [300, *[2] * 20]


STREAM_THAT_BROKE = [
    Report(span_id(0), None, Metrics(tokens_prompt=16, tokens_completion=1, tokens_total=17)),
    Report(span_id(1), span_id(0), Metrics(tokens_prompt=16, tokens_total=16)),
]
FAILED_PARENTS = [
    Report(span_id(0), None, Metrics(errors=1), is_own=True),
    Report(span_id(1), span_id(0), NO_METRICS),
    Report(span_id(2), span_id(1), Metrics(errors=1), is_own=True),
    Report(span_id(3), span_id(2), Metrics(errors=2), is_own=True),
    Report(span_id(4), span_id(0), Metrics(errors=4), is_own=True),
]
TOTAL_ALONE_BELOW = [
    Report(span_id(0), None, Metrics(costs_prompt=0.5, costs_completion=0.25, costs_total=0.75)),
    Report(span_id(1), span_id(0), Metrics(costs_total=0.75)),
]
CALLS_OF_AN_AGENT = [
    Report(span_id(0), None, Metrics(tokens_prompt=132, tokens_completion=21, tokens_total=153)),
    Report(span_id(1), span_id(0), Metrics(tokens_prompt=100, tokens_completion=20, tokens_total=120)),
    Report(span_id(2), span_id(0), Metrics(tokens_prompt=16, tokens_total=16)),  # an embedding
    *(
        Report(span_id(3 + number), span_id(3 if parent else 0), used)
        for number, (_, parent, used, *_) in enumerate(STREAM_THAT_BROKE)
    ),
]


def sent(number: int, parent: int | None, cost: float, *, is_own: bool = False) -> Report:
    """A span with a cost that was sent."""
    parent_id = None if parent is None else span_id(parent)
    return Report(span_id(number), parent_id, Metrics(costs_total=cost), is_own)


def listed(number: int, parent: int | None, cost: float, *, is_own: bool = False) -> Report:
    """A span with a list price, half of it for the prompt."""
    parent_id = None if parent is None else span_id(parent)
    used = Metrics(costs_prompt=cost / 2, costs_completion=cost / 2, costs_total=cost)
    return Report(span_id(number), parent_id, used, is_own, cost_is_computed=True)


def nothing(number: int, parent: int) -> Report:
    return Report(span_id(number), span_id(parent), NO_METRICS)


@pytest.mark.parametrize("padding", [0, 80], ids=["small", "large"])
@pytest.mark.parametrize(
    ("trace", "total", "prompt"),
    [
        ([sent(0, None, 8), listed(1, 0, 4)], 8, 0),
        ([sent(0, None, 8), nothing(1, 0), nothing(2, 1), listed(3, 2, 4), listed(4, 2, 2)], 8, 0),
        ([listed(0, None, 8), sent(1, 0, 4)], 4, 0),
        ([listed(0, None, 8), nothing(1, 0), sent(2, 1, 4), listed(3, 2, 2)], 4, 0),
        ([sent(0, None, 8), sent(1, 0, 4)], 4, 0),
        ([sent(0, None, 16), sent(1, 0, 4), listed(2, 0, 2)], 6, 1),
        ([sent(0, None, 16), sent(1, 0, 4), listed(2, 0, 2), listed(3, 1, 1)], 6, 1),
        ([sent(0, None, 32), listed(1, 0, 16), sent(2, 1, 4), listed(3, 1, 2), listed(4, 3, 1)], 5, 0.5),
        ([listed(0, None, 32), listed(1, 0, 4), listed(2, 0, 2)], 6, 3),
        ([sent(0, None, 16, is_own=True), listed(1, 0, 4)], 20, 2),
        ([sent(0, None, 16), listed(1, 0, 4, is_own=True)], 20, 2),
        ([listed(0, None, 8), sent(1, 0, 4, is_own=True), listed(2, 1, 2)], 6, 1),
    ],
    ids=[
        "sent above",
        "sent far above",
        "sent below",
        "sent between",
        "sent twice",
        "sent above one that was sent and one that was not",
        "the same, with a list price below each",
        "between two that were sent",
        "list prices only",
        "own above covers nothing",
        "own below counts",
        "own below hides what is above",
    ],
)
async def test_cost_that_was_sent_wins_over_list_prices(
    store: ColumnStore, trace: Rows, total: float, prompt: float, padding: int
) -> None:
    """``padding`` spans without usage make the trace too large for the short way in SQL."""
    whole = [*trace, *(nothing(100 + number, 0) for number in range(padding))]
    sums = Metrics(costs_prompt=prompt, costs_completion=prompt, costs_total=total)

    assert counted(whole) == sums
    assert counted(whole[::-1]) == sums
    assert await sums_in_sql(store, [whole, chain(3, reports=[2])]) == [sums, Metrics(tokens_total=3)]


@pytest.mark.parametrize(
    ("trace", "sums"),
    [
        (STREAM_THAT_BROKE, Metrics(tokens_prompt=16, tokens_completion=1, tokens_total=17)),
        (FAILED_PARENTS, Metrics(errors=6)),
        (TOTAL_ALONE_BELOW, Metrics(costs_prompt=0.5, costs_completion=0.25, costs_total=0.75)),
        (CALLS_OF_AN_AGENT, Metrics(tokens_prompt=132, tokens_completion=21, tokens_total=153)),
    ],
    ids=["a stream that broke", "failed parents", "a total alone below", "calls of an agent"],
)
async def test_missing_part_is_taken_from_the_next_report_above(store: ColumnStore, trace: Rows, sums: Metrics) -> None:
    assert counted(trace) == sums
    assert (await sums_in_sql(store, [trace])) == [sums]


async def test_spans_that_count_in_part_are_listed(store: ColumnStore) -> None:
    agent, step, call = span_id(1), span_id(2), span_id(3)
    trace = [
        Report(agent, None, Metrics(tokens_total=9, costs_total=1)),
        Report(step, agent, NO_METRICS),
        Report(call, step, Metrics(tokens_total=9)),
    ]

    rows = await selected(store, str(counted_totals(reports_of([trace, chain(3, reports=[2]), STREAM_THAT_BROKE]))))

    rows.sort(key=itemgetter("trace_id"))
    assert rows == [
        {"trace_id": bytes(16), "span_id": agent, "counted_tokens": 0, "counted_costs": 1},
        {"trace_id": (2).to_bytes(16, "big"), "span_id": span_id(0), "counted_tokens": 1, "counted_costs": 0},
    ]
