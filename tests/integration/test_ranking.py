"""``windowing.sort`` returns the first spans or traces by a value, as a client finds them that reads all and sorts them
itself (contract §3.5)."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import orjson
import pyarrow as pa
import pytest
import pytest_asyncio
from multidict import CIMultiDict

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, InvalidInput
from common.json_values import NUMBER_GRAMMAR
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import format_us, parse_time_ns
from query_api.pages.summaries import SummariesQuery
from query_api.pages.traces import TracesQuery
from query_api.queries.saved import query_summaries, query_traces
from query_api.request.errors import InvalidRequest
from query_api.request.json_body import read_body
from query_api.request.route import Request
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import ProjectSpans
from tests.support.feed import StoreInFront
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS, store_record
from tests.support.span_pages import SpanPages

pytestmark = pytest.mark.asyncio(loop_scope="module")

START_US: Final = START_NS // 1_000
TOTAL: Final = "ag.metrics.{}.incremental.total"
NUMBERS: Final = (
    *(0, 1, 2, 2, 3, 5.5, -1, -2.25, 1e308, -1e308, 2**53 + 1, 1e-9),
    *("5", "-1.5e3", "0", "05", " 5", "abc", "1e400", "", "NaN"),
    *(True, False, [7], {"a": 9}),
)
SORTS: Final = ("cost", "tokens", "duration", "n", "deep.n")
ALL: Final = 1_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    opened = open_store(configured, data_dir=chdb_dir)
    yield opened
    await opened.close()


def random_span(source: random.Random, trace: int, number: int) -> Span:
    start_ns = START_NS + source.choice((0, 1, 2, 3_600_000_000, 90_000_000_000, 40 * 86_400_000_000)) * 1_000
    attributes: dict[str, Any] = {"kind": source.choice("ab")}
    for key in ("n", "deep.n"):
        if source.random() < 0.7:
            attributes[key] = source.choice(NUMBERS)
    for unit in ("tokens", "costs"):
        if source.random() < 0.6:
            attributes[TOTAL.format(unit)] = source.choice((0, 1, 2, 3, 10, 0.25, 1_000_000))
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=source.choice((None, (number - 1).to_bytes(8, "big") * 2)) if number > 1 else None,
        name=f"s{number}",
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + source.choice((0, 1, 500, 1_000, 2_000_000)) * 1_000,
        status_code=0,
        status_message=None,
        attributes=attributes,
    )


async def store_history(store: ColumnStore, seed: int) -> UUID:
    """Store spans, some of them several times: changed, moved, in another partition; delete some traces."""
    source, project_id = random.Random(seed), uuid4()
    sent: list[tuple[int, int]] = []
    for offset in range(30):
        spans = []
        for _ in range(source.choice((1, 3, 8))):
            new = source.randrange(1, 13), len(sent) + 1
            trace, number = source.choice(sent) if sent and source.random() < 0.4 else new
            sent.append((trace, number))
            spans.append(random_span(source, trace, number))
        partition_id = f"cluster/spans/{source.choice((0, 0, 1))}"
        await store_record(
            store, spans, partition_id=partition_id, offset=offset, record_ms=offset + 1, project_id=project_id
        )
        if source.random() < 0.1:
            spans_of_project = ProjectSpans(store, project_id, clock=SpanPages.over(store).context.clock, budget_s=10.0)
            await delete_trace(spans_of_project, source.choice(sent)[0].to_bytes(16, "big"))
    return project_id


def number_of(value: Any) -> float | None:
    """The number that a ranking sees in a value."""
    if isinstance(value, str) and re.fullmatch(NUMBER_GRAMMAR, value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def value_of(span: Mapping[str, Any], by: str) -> float | None:
    if by == "duration":
        return (start_us(span, "end_time") - start_us(span)) / 1_000
    path = {"cost": TOTAL.format("costs"), "tokens": TOTAL.format("tokens")}.get(by, by)
    found: Any = span["attributes"]
    for segment in path.split("."):
        found = found.get(segment) if isinstance(found, dict) else None
    return number_of(found)


def start_us(span: Mapping[str, Any], name: str = "start_time") -> int:
    return parse_time_ns(span[name]) // 1_000


def ranked(
    spans: Sequence[Mapping[str, Any]], by: str, *, order: str = "descending", ties: str = "descending"
) -> list[str]:
    """The spans as a client ranks them that has read all."""
    valued = [(value, start_us(span), span["span_id"]) for span in spans if (value := value_of(span, by)) is not None]
    valued.sort(key=lambda item: item[1:], reverse=ties == "descending")
    valued.sort(key=lambda item: item[0], reverse=order == "descending")
    return [span_id for _, _, span_id in valued]


def span_ids(page: Mapping[str, Any]) -> list[str]:
    return [span["span_id"] for span in page["spans"]]


FILTERS: Final[Sequence[dict[str, Any]]] = (
    {},
    {"filtering": {"conditions": [{"field": "attributes", "key": "kind", "value": "a"}]}},
    {"filtering": {"conditions": [{"field": "duration", "operator": "gt", "value": 0.4}]}},
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project_id(store: ColumnStore) -> UUID:
    """A project with a history, which no test changes."""
    return await store_history(store, 0)


async def test_ranking_is_that_of_a_client_that_reads_all_spans(store: ColumnStore, project_id: UUID) -> None:
    source, api = random.Random(1), SpanPages.over(store, project_id=project_id)
    bounds: Sequence[dict[str, Any]] = (
        {},
        {"newest": format_us(START_US + 3)},
        {"oldest": format_us(START_US + 1), "order": "ascending"},
    )
    for filtering, window in itertools.product(FILTERS, bounds):
        everything = (await api.page(**filtering, windowing={**window, "limit": ALL}))["spans"]
        for by in source.sample(SORTS, 1):
            order, limit = source.choice(("descending", "ascending")), source.choice((1, 3, 10, ALL))

            page = await api.page(**filtering, windowing={**window, "limit": limit, "sort": {"by": by, "order": order}})

            expected = ranked(everything, by, order=order, ties=window.get("order", "descending"))[:limit]
            assert span_ids(page) == expected, (filtering, window, by, order, limit)
            assert page.keys() == {"count", "spans"}


async def test_spans_that_were_replaced_or_deleted_do_not_hide_those_below_them(store: ColumnStore) -> None:
    """More stale versions than the first round looks at."""
    source, project_id = random.Random(0), uuid4()
    high = [random_span(source, 1 + number % 3, number)._replace(attributes={"n": 1_000}) for number in range(1, 90)]
    low = [span._replace(attributes={"n": number}) for number, span in enumerate(high)]
    await store_record(store, high, offset=0, project_id=project_id)
    await store_record(store, low, offset=1, project_id=project_id)
    gone = [random_span(source, 9, 100 + number)._replace(attributes={"n": 2_000}) for number in range(60)]
    await store_record(store, gone, offset=2, project_id=project_id)
    api = SpanPages.over(store, project_id=project_id)
    await delete_trace(ProjectSpans(store, project_id, clock=api.context.clock, budget_s=10.0), (9).to_bytes(16, "big"))

    page = await api.page(windowing={"limit": 2, "sort": {"by": "n"}})

    assert [span["attributes"]["n"] for span in page["spans"]] == [88, 87]
    assert "complete" not in page


class BusyStore(StoreInFront):
    """An engine that has no time to rank more than some rows at once."""

    def __init__(self, store: ColumnStore, *, times: int) -> None:
        super().__init__(store)
        self._times = times

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "ranked_by" in statement.sql and "EXPLAIN" not in statement.sql and self._times:
            self._times -= 1
            raise DeadlineExceeded
        return await super().select(statement, deadline_s=deadline_s)


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_ranking_is_the_same_in_time_slices(store: ColumnStore, project_id: UUID, order: str) -> None:
    busy = SpanPages.over(BusyStore(store, times=1), project_id=project_id)
    api = SpanPages.over(store, project_id=project_id)
    for by in ("cost", "n"):
        windowing = {"limit": 5, "sort": {"by": by, "order": order}, "order": order}
        assert await busy.page(windowing=windowing) == await api.page(windowing=windowing)
        busy.context.store._times = 1  # type: ignore[attr-defined]


async def test_budget_that_ends_leaves_the_ranking_of_what_was_examined(store: ColumnStore, project_id: UUID) -> None:
    whole = SpanPages.over(store, project_id=project_id)
    tiny = SpanPages.over(store, project_id=project_id, budget_rows=5)

    page = await tiny.page(windowing={"limit": 50, "sort": {"by": "duration"}})

    everything = [span for found in await whole.pages() for span in found["spans"]]
    newest_us = max(map(start_us, everything))
    assert page["complete"] is False
    assert span_ids(page) == ranked([span for span in everything if start_us(span) == newest_us], "duration")
    with pytest.raises(DeadlineExceeded):
        await SpanPages.over(BusyStore(store, times=1_000), project_id=project_id, budget_s=0.3).page(
            windowing={"sort": {"by": "duration"}}
        )


async def test_ranking_that_is_larger_than_a_page_says_that_it_is_cut(store: ColumnStore, project_id: UUID) -> None:
    small = SpanPages.over(store, project_id=project_id, page_bytes_max=2_000)

    page = await small.page(windowing={"limit": 50, "sort": {"by": "duration"}})

    assert 0 < page["count"] < 10
    assert page["complete"] is False


async def test_ranking_shows_no_spans_of_another_project(store: ColumnStore) -> None:
    project_id = uuid4()
    await store_record(store, [random_span(random.Random(1), 1, 1)], project_id=project_id)

    page = await SpanPages.over(store, project_id=uuid4()).page(windowing={"sort": {"by": "duration"}})

    assert page["spans"] == []


async def test_ranking_is_explained(store: ColumnStore, project_id: UUID) -> None:

    page = await SpanPages.over(store, project_id=project_id).page(windowing={"sort": {"by": "cost"}}, explain=True)

    steps = [statement["step"] for statement in page["explain"]["statements"]]
    assert steps[:2] == ["candidates", "latest versions"]


@cache
def sort(by: str) -> Mapping[str, Any]:
    return {"sort": {"by": by}}


@pytest.mark.parametrize(
    ("windowing", "error", "text"),
    [
        (
            sort("start_time"),
            InvalidInput,
            "windowing.sort.by: spans cannot be sorted by 'start_time'; allowed: duration",
        ),
        (sort("model"), InvalidInput, "windowing.sort.by: "),
        (sort("ag.metrics.costs.cumulative.total"), InvalidInput, "windowing.sort.by: "),
        ({**sort("cost"), "by": "created_at"}, InvalidInput, "windowing.sort: "),
        ({**sort("cost"), "next": "abc"}, InvalidInput, "windowing.sort: "),
        ({**sort("cost"), "limit": 1_001}, InvalidRequest, ""),
        (sort(""), InvalidRequest, ""),
        ({"sort": {}}, InvalidRequest, ""),
        ({"sort": {"by": "cost", "order": "up"}}, InvalidRequest, ""),
    ],
)
async def test_ranking_that_means_nothing_is_rejected(
    store: ColumnStore, windowing: Mapping[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        await SpanPages.over(store).page(windowing=windowing)

    assert getattr(caught.value, "detail", "").startswith(text) if text else True


async def asked(api: SpanPages, handler: Callable[[Request], Any], **body: Any) -> dict[str, Any]:
    """What a route about traces answers."""
    kind = SummariesQuery if handler is query_summaries else TracesQuery
    model = read_body(kind, json.dumps(body).encode(), content_type=None, required=False)
    answer = await handler(Request(api.context, api.project_id, {}, None, model, CIMultiDict()))
    found: dict[str, Any] = orjson.loads(answer.body)
    return found


def ranked_traces(
    summaries: Sequence[Mapping[str, Any]],
    matching: Sequence[Mapping[str, Any]],
    by: str,
    *,
    order: str,
    ties: str = "descending",
) -> list[str]:
    """The traces as a client ranks them: by a member of their summaries, or by the spans that match."""
    latest: dict[str, int] = {}
    values: dict[str, float] = {}
    for span in matching:
        trace_id, value = span["trace_id"], value_of(span, by)
        latest[trace_id] = max(latest.get(trace_id, 0), start_us(span))
        if value is not None:
            values[trace_id] = max(values.get(trace_id, value), value)
    if by in ("cost", "tokens", "duration"):
        values = {summary["trace_id"]: summary[by] for summary in summaries if by in summary}
    found = [trace_id for trace_id in latest if trace_id in values]
    found.sort(key=lambda trace_id: (latest[trace_id], trace_id), reverse=ties == "descending")
    found.sort(key=lambda trace_id: values[trace_id], reverse=order == "descending")
    return found


TRACE_BOUNDS: Final[Sequence[dict[str, Any]]] = (
    {},
    {"newest": format_us(START_US + 90_000_000)},
    {"oldest": format_us(START_US + 2), "order": "ascending"},
)


async def test_traces_are_ranked_as_by_a_client_that_reads_them_all(store: ColumnStore, project_id: UUID) -> None:
    source, api = random.Random(2), SpanPages.over(store, project_id=project_id)
    summaries = (await asked(api, query_summaries, windowing={"limit": ALL}))["summaries"]
    for filtering, window in itertools.product(FILTERS, TRACE_BOUNDS):
        bounds = [parse_time_ns(window[name]) // 1_000 if name in window else None for name in ("oldest", "newest")]
        matching = [
            span
            for span in (await api.page(**filtering, windowing={"limit": ALL}))["spans"]
            if (bounds[0] is None or start_us(span) >= bounds[0]) and (bounds[1] is None or start_us(span) < bounds[1])
        ]
        for by in source.sample(SORTS, 1):
            order, limit = source.choice(("descending", "ascending")), source.choice((1, 3, ALL))
            windowing = {**window, "limit": limit, "sort": {"by": by, "order": order}}

            page = await asked(api, query_traces, **filtering, windowing=windowing)
            lines = await asked(api, query_summaries, **filtering, windowing=windowing)

            ties = window.get("order", "descending")
            expected = ranked_traces(summaries, matching, by, order=order, ties=ties)[:limit]
            assert [trace["trace_id"] for trace in page["traces"]] == expected, (filtering, windowing)
            assert [summary["trace_id"] for summary in lines["summaries"]] == expected
            assert page.keys() == {"count", "traces"}


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_traces_are_ranked_in_time_slices(store: ColumnStore, project_id: UUID, order: str) -> None:
    """An attribute of a trace may be in several slices, so its ranking is not exact, and the response says so."""
    for by in ("cost", "duration", "n"):
        windowing = {"limit": 3, "sort": {"by": by, "order": order}}
        busy = SpanPages.over(BusyStore(store, times=1), project_id=project_id)

        found = await asked(busy, query_summaries, windowing=windowing)

        if by == "n":
            assert found["complete"] is False
        else:
            assert found == await asked(
                SpanPages.over(store, project_id=project_id), query_summaries, windowing=windowing
            )


async def test_cost_of_a_trace_is_not_what_its_spans_report_together(store: ColumnStore) -> None:
    """More traces with replaced versions that report much than the first round looks at."""
    source, project_id = random.Random(3), uuid4()

    def reporting(cost: float, trace: int, number: int) -> Span:
        parent_id = (number - 1).to_bytes(8, "big") * 2 if number > 1 else None
        span = random_span(source, trace, number)
        return span._replace(parent_id=parent_id, attributes={TOTAL.format("costs"): cost})

    replaced = [reporting(1_000 + trace, trace, 1) for trace in range(1, 50)]
    await store_record(store, replaced, offset=0, project_id=project_id)
    await store_record(store, [reporting(trace, trace, 1) for trace in range(1, 50)], offset=1, project_id=project_id)
    alone = [reporting(cost, 100 + cost, 1) for cost in (60, 61, 62)]
    await store_record(store, alone, offset=2, project_id=project_id)
    api = SpanPages.over(store, project_id=project_id)

    page = await asked(api, query_summaries, windowing={"limit": 4, "sort": {"by": "cost"}})

    assert [summary["cost"] for summary in page["summaries"]] == [62, 61, 60, 49]


async def test_ranked_traces_are_cut_at_the_size_of_a_page(store: ColumnStore, project_id: UUID) -> None:
    small = SpanPages.over(store, project_id=project_id, page_bytes_max=2_000)

    page = await asked(small, query_traces, windowing={"sort": {"by": "duration"}})

    assert (page["count"], page["complete"]) == (1, False)
    assert "windowing" not in page


async def test_ranking_of_traces_that_means_nothing_is_rejected(store: ColumnStore) -> None:
    for windowing in ({**sort("cost"), "next": "abc"}, sort("start_time"), {**sort("cost"), "by": "created_at"}):
        for handler in (query_traces, query_summaries):
            with pytest.raises(InvalidInput):
                await asked(SpanPages.over(store), handler, windowing=windowing)
