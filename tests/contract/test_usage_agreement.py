"""What a trace used is the same in Python and in SQL, on a real engine: for trees, orphans, circles and deep chains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from common.span import NO_METRICS, Metrics
from query_api.spans.usage import Report, counted, repeats_sql, sums_of_traces_sql

Rows: TypeAlias = Sequence[Report]

TRACES_AT_ONCE = 20
EXAMPLES = max(20, settings().max_examples // 5)
"""A statement that is planned is dear, a trace in it is cheap."""

SPANS_MAX = 14
LONG = {"max_query_size": 16 * 1024 * 1024, "max_ast_elements": 1_000_000}  # the spans are its text
COLUMNS = ("trace_id", "span_id", "parent_id", *Metrics._fields, "usage_is_own")


def span_id(number: int) -> bytes:
    return (number + 1).to_bytes(8, "big") * 2


def metrics(*, tokens: bool, costs: bool, number: int) -> Metrics:
    """Each bit is one span, so that a sum says which of them are in it."""
    used, spent = 2.0**number if tokens else 0.0, 2.0**number if costs else 0.0
    return Metrics(used, used, used, spent, spent, spent, 1.0)


@st.composite
def traces(draw: st.DrawFn) -> Rows:
    """Spans with any parents: none, one that is there, themselves, or one that is not there."""
    count = draw(st.integers(1, SPANS_MAX))
    parents = st.one_of(st.none(), st.integers(0, count - 1), st.just(SPANS_MAX))
    earlier = draw(st.booleans())  # then there are no circles
    rows = []
    for number in range(count):
        parent = draw(st.integers(0, number - 1) if earlier and number else parents)
        used = metrics(tokens=draw(st.booleans()), costs=draw(st.booleans()), number=number)
        is_silent = draw(st.booleans())
        parent_id = None if parent is None else span_id(parent)
        rows.append(Report(span_id(number), parent_id, NO_METRICS if is_silent else used, draw(st.booleans())))
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


def heads(of_traces: Sequence[Rows]) -> str:
    """The spans of all traces as a table inside a statement."""
    rows = [
        f"(unhex('{number:032x}'), unhex('{each.hex()}'), unhex('{(parent or bytes(16)).hex()}'), {', '.join(map(str, used))}, {int(is_own)})"
        for number, trace in enumerate(of_traces)
        for each, parent, used, is_own in trace
    ]
    types = ["FixedString(16)"] * 3 + ["Float64"] * len(Metrics._fields) + ["UInt8"]
    structure = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, types, strict=True))
    return f"SELECT * FROM values('{structure}', {', '.join(rows)})"


async def selected(store: ColumnStore, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await store.select(Statement(sql, settings=LONG), deadline_s=20.0)).to_pylist()
    return rows


async def sums(store: ColumnStore, of_traces: Sequence[Rows]) -> list[Metrics]:
    rows = await selected(store, sums_of_traces_sql(heads(of_traces)))
    by_trace = {row["trace_id"]: Metrics(*(row[name] for name in Metrics._fields)) for row in rows}
    return [by_trace[number.to_bytes(16, "big")] for number in range(len(of_traces))]


@pytest.mark.timeout(3_600)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(of_traces=st.lists(traces(), min_size=8, max_size=TRACES_AT_ONCE))
@example(
    of_traces=[[Report(span_id(0), span_id(1), Metrics(1, 1, 1)), Report(span_id(1), span_id(0), Metrics(2, 2, 2))]]
)
async def test_both_count_the_same(store: ColumnStore, of_traces: list[Rows]) -> None:
    assert await sums(store, of_traces) == [counted(trace) for trace in of_traces]


@pytest.mark.parametrize("length", [2, 3, 4, 5, 8, 9, 700])
async def test_a_report_is_found_below_at_any_depth(store: ColumnStore, length: int) -> None:
    deep = chain(length, reports=[0, length - 1])

    assert (await sums(store, [deep]))[0].tokens_total == length == counted(deep).tokens_total


async def test_a_large_trace_beside_small_ones_is_no_matter(store: ColumnStore) -> None:
    large = [Report(span_id(0), None, Metrics(tokens_total=1.0))]
    large += [Report(span_id(number), span_id(number // 2), Metrics(tokens_total=1.0)) for number in range(1, 600)]
    small = [chain(2, reports=[0, 1])] * 20

    found = await sums(store, [large, *small])

    assert [each.tokens_total for each in found] == [300, *[2] * 20]


async def test_what_does_not_count_is_named(store: ColumnStore) -> None:
    agent, step, call = span_id(1), span_id(2), span_id(3)
    trace = [
        Report(agent, None, Metrics(tokens_total=9, costs_total=1)),
        Report(step, agent, NO_METRICS),
        Report(call, step, Metrics(tokens_total=9)),
    ]

    rows = await selected(store, repeats_sql(heads([trace, chain(3, reports=[2])])))

    assert rows == [{"trace_id": bytes(16), "span_id": agent, "counts_tokens": 0, "counts_costs": 1}]
