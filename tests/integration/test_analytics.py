"""Analytics over the real engine and over HTTP: every statistic against plain Python over the visible spans."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import numpy as np
import orjson
import pytest

from common.clickhouse.store import ColumnStore
from common.json_values import is_number
from common.paths import value_at
from common.settings import QuerySettings, Settings
from common.span import Event, Scope, Span
from common.times import SystemClock, format_us
from query_api.analytics.models import TotalsModel
from query_api.analytics.statements import FREQUENCIES_MAX
from tests.support.api import context_of, serving
from tests.support.deleting import delete
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, store_record

START_US = START_NS // 1000
HOUR_US = 3_600_000_000
WINDOW = {"oldest": format_us(START_US), "newest": format_us(START_US + 10 * HOUR_US)}
ANALYTICS = (0, 1, 2, 2.5, -3, 7.25, 100, 1e6)
SPECS: list[dict[str, Any]] = [
    {"type": "numeric/continuous", "path": "attributes.ag.metrics.duration.cumulative"},
    {"type": "numeric/continuous", "path": "attributes.ag.metrics.tokens.cumulative.total", "bins": 4},
    {"type": "numeric/continuous", "path": "ag.metrics.costs.cumulative.total", "bins": 5},
    {"type": "numeric/continuous", "path": "ag.metrics.errors.cumulative"},
    {"type": "numeric/continuous", "path": "app.number", "bins": 8, "vmin": 0, "vmax": 100, "edge": False},
    {"type": "numeric/discrete", "path": "app.few"},
    {"type": "binary", "path": "app.flag"},
    {"type": "categorical/single", "path": "attributes.ag.type.trace"},
    {"type": "categorical/single", "path": "app.label"},
    {"type": "categorical/multiple", "path": "app.labels"},
    {"type": "string", "path": "app.mixed"},
    {"type": "json", "path": "app.object"},
    {"type": "json", "path": "ag.metrics.tokens.cumulative"},
    {"type": "none", "path": "app.label2"},
    {"type": "*", "path": "app.anything"},
    {"type": "*", "path": "ag.metrics.costs.cumulative"},
]
PLAIN: dict[str, Any] = {"specs": [{"type": "categorical/single", "path": "ag.type.trace"}]}
"""For what does not depend on the specs: to plan the default ones takes the engine half a second."""


@dataclass(frozen=True)
class Api:
    """The API over HTTP, and its store."""

    client: aiohttp.ClientSession
    store: ColumnStore

    async def post(self, path: str, body: Any = None, *, status: int = 200, query: dict[str, str] | None = None) -> Any:
        async with self.client.post(path, json=body, params=query) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def metrics(self, **body: Any) -> Any:
        return await self.post("/spans/analytics/query", {**WINDOW, **body})

    async def counts(self, **body: Any) -> Any:
        return await self.post("/tracing/spans/analytics", {**WINDOW, **body})

    async def spans(self, **body: Any) -> list[dict[str, Any]]:
        response = await self.post("/spans/query", {"windowing": {**WINDOW, "limit": 10_000}, **body})
        assert "windowing" not in response
        spans: list[dict[str, Any]] = response["spans"]
        return spans


@pytest.fixture
async def api(store: ColumnStore) -> AsyncIterator[Api]:
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        yield Api(client, store)


def span(number: int, *, trace: int | None = None, start_us: int = 0, **members: Any) -> Span:
    """Return a span: a root unless it has a parent, in its own trace unless that is given."""
    start_ns = START_NS + start_us * 1000
    plain: dict[str, Any] = {
        "parent_id": None,
        "end_ns": start_ns + 1_500_000,
        "kind": 1,
        "status_code": 0,
        "status_message": None,
        "attributes": {},
    }
    return Span(
        trace_id=(number if trace is None else trace).to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        start_ns=start_ns,
        name=f"s{number}",
        **{**plain, **members},
    )


def random_span(source: random.Random, number: int) -> Span:
    """Draw a span of one of up to 40 traces of about six spans, over slightly more than ten hours; some are children."""
    start_us = source.randrange(-HOUR_US // 2, 11 * HOUR_US)
    app: dict[str, Any] = {
        "number": source.choice((*ANALYTICS, "5", True, None)),
        "few": source.choice((1, 2, 2.0, 0.5, "2")),
        "flag": source.choice((True, False, None, "true")),
        "label": source.choice(("a", "b", "é", "", 5, ["a"])),
        "labels": [source.choice(("x", "y", "", 1, True, ["x"])) for _ in range(source.randrange(5))],
        "mixed": source.choice(("", "text", 1, True, {}, [])),
        "object": source.choice(({}, {"a": 1}, {"0": 1}, [], [1], "x", {"n": None})),
        "anything": source.choice((None, 0, "", False, {}, [], {"a": {}}, [None], "x")),
    }
    attributes: dict[str, Any] = {"app": {name: value for name, value in app.items() if source.random() < 0.8}}
    if source.random() < 0.6:
        attributes["ag.metrics.tokens.incremental.total"] = source.choice((1, 10, 250))
        attributes["ag.metrics.costs.incremental.total"] = source.choice((0.5, 0.25, 2))
    if source.random() < 0.1:
        attributes["ag.metrics.tokens.cumulative.total"] = 77
    start_ns = START_NS + start_us * 1000
    return span(
        number,
        trace=1 + number % 40,
        start_us=start_us,
        parent_id=None if source.random() < 0.6 else (number - 1).to_bytes(8, "big") * 2,
        end_ns=start_ns + source.choice((0, 1_000_000, 2_345_678, 10**9)),
        attributes=attributes,
        events=(Event(source.choice(("exception", "other")), start_ns, {"name": "exception"}),)
        if source.random() < 0.3
        else (),
    )


async def store_corpus(store: ColumnStore, seed: int) -> None:
    """Spans of two projects: some sent again, changed and moved in time, some in another partition, some deleted, some
    twice.
    """
    source = random.Random(seed)
    numbers = list(range(1, 241))
    first = [random_span(source, number) for number in numbers]
    await store_record(store, first, offset=1)
    await store_record(store, first[:100], offset=1)
    await store_record(store, [random_span(source, number) for number in source.sample(numbers, 60)], offset=2)
    other_log = [random_span(source, number) for number in source.sample(numbers, 60)]
    await store_record(store, other_log, partition_id="cluster/spans/1", offset=1, record_ms=source.choice((0, 2)))
    for deleted in first[:6]:
        await delete(store, deleted)
    await store_record(store, [random_span(source, n) for n in numbers[:50]], offset=9, project_id=OTHER_PROJECT_ID)


def start_us(shown: dict[str, Any]) -> int:
    return int(shown["start_time_unix_nano"]) // 1000


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


TAILS = {"00.05": 0.0005, "00.1": 0.001, "00.5": 0.005, "01": 0.01}
TAILS |= {"99": 0.99, "99.5": 0.995, "99.9": 0.999, "99.95": 0.9995}
LEVELS = {**TAILS, **{f"{number:02}": number / 100 for number in range(5, 100, 5)}}


def expected_numbers(found: list[float]) -> dict[str, Any]:
    plain = [float(value) for value in found]
    pcts = {f"p{name}": float(np.quantile(plain, level)) for name, level in LEVELS.items()}
    assert pcts["p50"] == pytest.approx(statistics.median(plain))
    return {
        "count": len(plain),
        "sum": near(math.fsum(plain)),
        "mean": near(statistics.fmean(plain)),
        "min": min(plain),
        "max": max(plain),
        "range": near(max(plain) - min(plain)),
        "pcts": {name: near(value) for name, value in pcts.items()},
    }


def check_hist(spec: dict[str, Any], hist: list[dict[str, Any]], found: list[float]) -> None:
    """Check that the bins are adjacent and that each holds exactly the values of its interval."""
    low, high = spec.get("vmin", min(found)), spec.get("vmax", max(found))
    bins_count = 1 if low == high else spec.get("bins") or math.ceil(math.sqrt(len(found)))
    edges = [bin_["interval"][0] for bin_ in hist] + [hist[-1]["interval"][1]]
    assert [bin_["bin"] for bin_ in hist] == list(range(1, bins_count + 1))
    assert [bin_["interval"][1] for bin_ in hist] == edges[1:]
    assert (edges[0], edges[-1]) == (low, high)
    assert np.diff(edges) == pytest.approx((high - low) / bins_count)
    holds_last = spec.get("edge") is not False
    for bin_ in hist:
        first, last = bin_["interval"]
        closes = bin_["bin"] == bins_count and holds_last
        assert bin_["count"] == sum(first <= value < last or (closes and value == last) for value in found)
    assert sum(bin_["density"] for bin_ in hist) == pytest.approx(1 if any(bin_["count"] for bin_ in hist) else 0)


def check_freq(metric: dict[str, Any], found: list[Any]) -> None:
    """Check the values with their counts, most frequent first, then by value."""
    ordered = sorted(Counter(found).items(), key=lambda pair: (-pair[1], pair[0]))
    assert metric["count"] == len(found)
    assert metric["freq"] == [
        {"value": value, "count": times, "density": near(times / len(found))} for value, times in ordered
    ]
    assert metric["uniq"] == len(ordered)


def check_metric(spec: dict[str, Any], metric: dict[str, Any], found: list[Any]) -> None:
    """Check one metric of one bucket against the values at its path in the bucket's spans."""
    match spec["type"]:
        case "numeric/continuous" | "numeric/discrete":
            numbers = [value for value in found if is_number(value)]
            expected = expected_numbers(numbers)
            assert {name: metric[name] for name in expected} == expected
            assert metric["iqrs"]["iqr50"] == near(metric["pcts"]["p75"] - metric["pcts"]["p25"])
            if "pscs" in metric:
                assert metric["pscs"]["psc50"] == near(metric["iqrs"]["iqr50"] / abs(metric["pcts"]["p50"]))
            if spec["type"] == "numeric/discrete":
                check_freq(metric, numbers)
            else:
                check_hist(spec, metric["hist"], numbers)
        case "categorical/single":
            check_freq(metric, [value for value in found if isinstance(value, str)])
        case "categorical/multiple":
            check_freq(
                metric, [text for value in found if isinstance(value, list) for text in value if isinstance(text, str)]
            )
        case "binary":
            check_freq(metric, [value for value in found if isinstance(value, bool)])
        case "string":
            assert metric == {"type": "string", "count": sum(isinstance(value, str) for value in found)}
        case "json":
            assert metric == {"type": "json", "count": sum(isinstance(value, dict) for value in found)}
        case "*":
            assert metric == {"type": "*", "count": sum(value is not None for value in found)}
        case kind:
            pytest.fail(f"{kind} says nothing")


def counts_as(spec: dict[str, Any], value: Any) -> bool:
    """Return whether a spec covers the value."""
    match spec["type"]:
        case "numeric/continuous" | "numeric/discrete":
            return is_number(value)
        case "categorical/single" | "string":
            return isinstance(value, str)
        case "categorical/multiple":
            return isinstance(value, list) and any(isinstance(element, str) for element in value)
        case "binary":
            return isinstance(value, bool)
        case "json":
            return isinstance(value, dict)
        case "*":
            return value is not None
        case _:
            return False


@pytest.mark.parametrize("focus", ["trace", "span"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_every_statistic_agrees_with_plain_python(api: Api, seed: int, focus: str) -> None:
    await store_corpus(api.store, seed)
    spans = [span for span in await api.spans() if focus == "span" or "parent_id" not in span]
    by_bucket: dict[int, list[Any]] = defaultdict(list)
    for span in spans:
        by_bucket[(start_us(span) - START_US) // (150 * 60_000_000)].append(span)

    response = await api.metrics(specs=SPECS, interval=150, focus=focus)

    assert len(by_bucket) == response["count"] == len(response["buckets"]) == 4
    for index, bucket in enumerate(response["buckets"]):
        assert bucket["timestamp"] == format_us(START_US + index * 150 * 60_000_000)
        assert bucket["interval"] == 150
        seen = set()
        for spec in SPECS:
            key = spec["path"].removeprefix("attributes.")
            found = [value_at(span["attributes"], key.split(".")) for span in by_bucket[index]]
            if any(counts_as(spec, value) for value in found):
                seen.add(f"attributes.{key}")
                assert bucket["metrics"][f"attributes.{key}"]["type"] == spec["type"]
                check_metric(spec, bucket["metrics"][f"attributes.{key}"], found)
        assert set(bucket["metrics"]) == seen


@pytest.mark.parametrize("focus", ["trace", "span"])
async def test_counts_and_sums_agree_with_plain_python(api: Api, focus: str) -> None:
    await store_corpus(api.store, 3)
    spans = [span for span in await api.spans() if focus == "span" or "parent_id" not in span]
    used = "cumulative" if focus == "trace" else "incremental"

    def totals(of: list[dict[str, Any]]) -> dict[str, Any]:
        if not of:
            return {"count": 0, "duration": 0, "costs": 0, "tokens": 0}
        paths = {
            "duration": ["duration", "cumulative"],
            "costs": ["costs", used, "total"],
            "tokens": ["tokens", used, "total"],
        }
        values = {
            name: [value_at(span["attributes"]["ag"]["metrics"], path) for span in of] for name, path in paths.items()
        }
        numbers = {name: [value for value in found if is_number(value)] for name, found in values.items()}
        return {"count": len(of), **{name: near(math.fsum(found)) for name, found in numbers.items() if found}}

    response = await api.counts(interval=60, focus=focus)

    assert response["count"] == len(response["buckets"]) == 10
    for index, bucket in enumerate(response["buckets"]):
        inside = [span for span in spans if (start_us(span) - START_US) // HOUR_US == index]
        failed = [span for span in inside if any(event["name"] == "exception" for event in span.get("events", []))]
        assert bucket == {
            "timestamp": format_us(START_US + index * HOUR_US),
            "interval": 60,
            "total": totals(inside),
            "errors": totals(failed),
        }


async def test_invisible_versions_do_not_count(api: Api) -> None:
    kept, moved, gone = span(1), span(2, start_us=HOUR_US), span(3)
    await store_record(api.store, [kept, span(2), gone], offset=1)
    await store_record(api.store, [kept, span(2), gone], offset=1)
    await store_record(api.store, [moved], offset=2)
    await delete(api.store, gone)

    buckets = (await api.counts(interval=60))["buckets"]

    assert [bucket["total"]["count"] for bucket in buckets[:3]] == [1, 1, 0]


async def test_root_counts_with_the_sums_of_its_whole_trace(api: Api) -> None:
    def used(number: int, tokens: int, **members: Any) -> Span:
        return span(number, trace=1, attributes={"ag.metrics.tokens.incremental.total": tokens}, **members)

    await store_record(api.store, [span(1, trace=1)], offset=1)
    await store_record(api.store, [used(2, 20, parent_id=(1).to_bytes(8, "big") * 2)], offset=2)
    await store_record(api.store, [used(3, 300, parent_id=(1).to_bytes(8, "big") * 2, start_us=50 * HOUR_US)], offset=3)

    [bucket] = (await api.metrics(specs=[SPECS[1]]))["buckets"]

    assert bucket["metrics"]["attributes.ag.metrics.tokens.cumulative.total"]["sum"] == 320
    assert (await api.counts())["buckets"][0]["total"]["tokens"] == 320


async def test_root_counts_with_the_only_span_that_reports_usage(api: Api) -> None:
    used = {"ag.metrics.tokens.incremental.total": 20}
    await store_record(api.store, [span(1, trace=1)], offset=1)
    below = span(2, trace=1, parent_id=(1).to_bytes(8, "big") * 2, attributes=used)
    await store_record(api.store, [below], offset=2)

    assert (await api.counts())["buckets"][0]["total"]["tokens"] == 20


@pytest.mark.parametrize("focus", ["trace", "span"])
async def test_usage_repeated_by_spans_below_counts_once(api: Api, focus: str) -> None:
    agent, call, tool = ((number).to_bytes(8, "big") * 2 for number in (1, 2, 3))
    used = {"tokens": {"incremental": {"total": 300}}, "costs": {"incremental": {"total": 0.5}}}
    part = {"tokens": {"incremental": {"total": 200}}}
    # Reported by an instrumentation: otherwise the usage is the span's own and is added.
    said_by = {"gen_ai": {"operation": {"name": "chat"}}}
    spans = [
        span(1, trace=1, attributes={"ag": {"metrics": used}, **said_by}),
        span(2, trace=1, parent_id=agent, attributes={"ag": {"metrics": part}, **said_by}),
        span(3, trace=1, parent_id=call, attributes={"ag": {"metrics": part}, **said_by}, start_us=20 * HOUR_US),
        span(4, trace=1, parent_id=tool),
    ]
    await store_record(api.store, spans[:3], offset=1)
    await store_record(api.store, spans[3:], offset=2)

    total = (await api.counts(focus=focus, newest=format_us(START_US + 30 * HOUR_US)))["buckets"][0]["total"]

    assert (total["tokens"], total["costs"]) == (200, 0.5)


@pytest.mark.parametrize("focus", ["trace", "span"])
async def test_call_reported_in_two_traces_counts_in_one(api: Api, focus: str) -> None:
    """The client's own span, in a different trace than the instrumentation's, keeps what it reports."""
    used = {"tokens": {"incremental": {"total": 40}}, "costs": {"incremental": {"total": 0.5}}}
    around = span(1, attributes={"ag": {"metrics": used}})
    echo = span(2, attributes={"ag": {"metrics": used}}, scope=Scope("com.anthropic.sdk.python"))
    await store_record(api.store, [around, echo], offset=1)
    [kept] = await api.spans(filtering={"conditions": [{"field": "span_name", "value": "s2"}]})
    assert kept["attributes"]["ag"]["metrics"]["tokens"]["incremental"]["total"] == 40
    assert "counted_in" in kept["attributes"]["ag"]["meta"]

    total = (await api.counts(focus=focus))["buckets"][0]["total"]

    assert (total["count"], total["tokens"], total["costs"]) == (2, 40, 0.5)


@pytest.mark.parametrize("focus", ["trace", "span"])
async def test_missing_total_is_prompt_plus_completion(api: Api, focus: str) -> None:
    parts = {"tokens": {"incremental": {"prompt": 30, "completion": 10}}}
    nothing = {"tokens": {"incremental": {"total": 0}}}
    spans = [span(1, attributes={"ag": {"metrics": parts}}), span(2, attributes={"ag": {"metrics": nothing}})]
    await store_record(api.store, spans, offset=1)

    total = (await api.counts(focus=focus))["buckets"][0]["total"]

    assert (total["tokens"], "costs" in total) == (40, False)


async def test_the_filter_decides_which_spans_count(api: Api) -> None:
    await store_corpus(api.store, 4)
    filtering = {"operator": "not", "conditions": [{"field": "attributes", "key": "app.label", "value": "a"}]}
    matching = [span for span in await api.spans(filtering=filtering) if "parent_id" not in span]
    text = orjson.dumps(filtering).decode()
    bodies: list[dict[str, Any]] = [{"filter": filtering}, {"filter": text}, {"filtering": filtering}]

    responses = [await api.counts(**body) for body in bodies]
    responses.append(await api.post("/tracing/spans/analytics", query={**WINDOW, "filter": text}))

    for response in responses:
        assert 0 < response["buckets"][0]["total"]["count"] == len(matching)


async def test_empty_filter_and_specs_have_no_effect(api: Api) -> None:
    empty = {"filter": "", "specs": " "}

    assert await api.post("/spans/analytics/query", WINDOW, query=empty) == await api.metrics()
    assert await api.post("/tracing/spans/analytics", WINDOW, query={"filter": ""}) == await api.counts()


async def test_body_takes_precedence_over_the_query_string(api: Api) -> None:
    body = {"newest": WINDOW["newest"], "windowing": {"interval": 60, "newest": "2020-01-01"}}

    response = await api.post(
        "/spans/analytics/query", body, query={"oldest": WINDOW["oldest"], "newest": "2031-01-01", "focus": "span"}
    )

    assert response["query"] == {
        "formatting": {"focus": "span", "format": "agenta"},
        "windowing": {"by": "start_time", **WINDOW, "interval": 60},
        "filtering": {"conditions": []},
    }


@pytest.mark.parametrize("place", ["flat", "windowing", "query"])
async def test_rate_samples_traces_and_is_returned(api: Api, place: str) -> None:
    """The first bytes of a trace id decide: here 0, 1, 2 and 3 of each hundred."""
    await store_record(api.store, [span(1 + number, trace=(number << 96) + 1) for number in range(4)])
    bodies: dict[str, Any] = {"flat": {"rate": 0.02}, "windowing": {"windowing": {"rate": 0.02}}, "query": {}}
    body = bodies[place]
    query = {"rate": "0.02"} if place == "query" else None

    counts = await api.post("/tracing/spans/analytics", {**WINDOW, **body}, query=query)
    requested = {**WINDOW, **body, "specs": [{"type": "*", "path": "ag.type"}]}
    metrics = await api.post("/spans/analytics/query", requested, query=query)

    assert counts["buckets"][0]["total"]["count"] == 2
    assert metrics["buckets"][0]["metrics"]["attributes.ag.type"]["count"] == 2
    assert metrics["query"]["windowing"]["rate"] == 0.02


async def test_specs_of_the_body_take_precedence_and_are_returned(api: Api) -> None:
    of_body, of_query = ([{"type": "string", "path": path}] for path in ("a", "b"))
    query = {"specs": orjson.dumps(of_query).decode(), "format": "opentelemetry"}

    response = await api.post("/spans/analytics/query", {"specs": of_body}, query=query)

    assert response["specs"] == of_body
    assert response["query"]["formatting"] == {"focus": "trace", "format": "opentelemetry"}
    assert (await api.post("/spans/analytics/query", {}, query=query))["specs"] == of_query


async def test_specs_of_one_path_are_merged_with_the_type_of_the_first(api: Api) -> None:
    metric = {"type": "numeric/discrete", "path": "x"}
    await store_record(api.store, [span(1, attributes={"x": 5})])

    [bucket] = (await api.metrics(specs=[metric, {"type": "numeric/continuous", "path": "attributes.x"}]))["buckets"]

    [said] = bucket["metrics"].values()
    assert said["type"] == "numeric/discrete"
    assert {"freq", "hist"} < set(said)


async def test_defaults_are_returned_without_a_body(api: Api) -> None:
    response = await api.post("/tracing/analytics/query")

    newest, oldest = (datetime.fromisoformat(response["query"]["windowing"][name]) for name in ("newest", "oldest"))
    assert newest - oldest == timedelta(days=30)
    assert (newest.hour, newest.minute, newest.second) == (0, 0, 0)
    assert response["query"]["windowing"]["interval"] == 30 * 24 * 60
    assert [spec["path"].rsplit(".", 2)[-2:] for spec in response["specs"]][4:] == [["type", "trace"], ["type", "span"]]
    assert len(response["specs"]) == 6


async def test_too_many_buckets_become_coarser(api: Api) -> None:
    def window(minutes: int) -> dict[str, Any]:
        return {"newest": format_us(START_US + minutes * 60_000_000), "interval": 1}

    at_most = await api.counts(**window(1_024))
    past = await api.counts(**window(1_025))

    assert (at_most["count"], at_most["buckets"][0]["interval"]) == (1_024, 1)
    assert (past["count"], past["buckets"][0]["interval"]) == (205, 5)


async def test_an_empty_window_has_no_buckets(api: Api) -> None:
    assert await api.counts(newest=WINDOW["oldest"], oldest=WINDOW["newest"]) == {"count": 0, "buckets": []}


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        pytest.param("oldest", "0001-01-01T00:00:00+14:00", marks=pytest.mark.long),
        ("oldest", "9999-12-31T23:59:59.999999-14:00"),
        ("newest", "0001-01-01T00:00:00+14:00"),
        pytest.param("newest", "9999-12-31T23:59:59.999999-14:00", marks=pytest.mark.long),
    ],
)
async def test_bound_outside_the_calendar_in_utc_is_clamped(api: Api, name: str, bound: str) -> None:
    for body in ({name: bound}, {"windowing": {name: bound}}):
        await api.post("/spans/analytics/query", {**body, **PLAIN})
        await api.post("/tracing/spans/analytics", body)


@pytest.mark.parametrize("minutes", [10, 10**18])
async def test_explained_window_has_no_interval(api: Api, minutes: int) -> None:
    explanation = (await api.counts(interval=minutes, explain=True))["explain"]

    assert explanation["statements"][0]["window"] == WINDOW


@pytest.mark.parametrize(
    "body",
    [
        {"focus": "nothing"},
        {"interval": 0},
        {"rate": 1.5},
        {"newest": "yesterday"},
        {"newest": 12345},
        {"newest": True},
        {"specs": [{"type": "median", "path": "a"}]},
        {"specs": "[{"},
        {"by": "end_time"},
        {"specs": [{"path": "a"}]},
        {"specs": [{"type": "string"}]},
        {"specs": [{**SPECS[0], "bins": 0}]},
        {"specs": [{**SPECS[0], "bins": 1_025}]},
        {"specs": [{**SPECS[0], "vmin": 2, "vmax": 1}]},
        {"specs": [SPECS[0]] * 65},
        {"specs": [{"type": "json", "path": ".".join("a" * 257)}]},
        {"filter": "{"},
        {"filter": {"conditions": [{"feild": "x"}]}},
        {"filter": {"conditions": [{"field": "trace_id", "operator": "equals"}]}},
    ],
    ids=str,
)
async def test_wrong_shape_is_422(api: Api, body: dict[str, Any]) -> None:
    detail = (await api.post("/spans/analytics/query", body, status=422))["detail"]

    assert detail[0]["loc"][0] == "body"


@pytest.mark.parametrize(
    "ignored", [2**64, 10**300, orjson.loads("[" * 300 + "]" * 300)], ids=["long", "longer", "deep"]
)
@pytest.mark.parametrize("operator", ["exists", "not_exists"])
async def test_ignored_value_is_not_returned(api: Api, operator: str, ignored: Any) -> None:
    condition = {"field": "attributes", "key": "a", "operator": operator}
    known = {"field": "span_name", "value": "x"}
    filtering = {"conditions": [{"operator": "or", "conditions": [{**condition, "value": ignored}, known]}]}

    applied = (await api.post("/spans/analytics/query", {"filter": filtering, **PLAIN}))["query"]["filtering"]

    assert applied == {"conditions": [{"operator": "or", "conditions": [condition, known]}]}


async def test_invalid_filter_is_400_with_its_path(api: Api) -> None:
    condition = {"field": "nothing", "value": 1}

    flat = await api.post("/spans/analytics/query", {"filter": {"conditions": [condition]}}, status=400)
    nested = await api.post("/spans/sessions/query", {"filtering": {"conditions": [condition]}}, status=400)
    query = {"filter": orjson.dumps({"conditions": [condition]}).decode()}
    in_query = await api.post("/tracing/spans/analytics", {}, query=query, status=400)

    assert flat["detail"].startswith("filter.conditions[0].field")
    assert nested["detail"].startswith("filtering.conditions[0].field")
    assert in_query["detail"] == flat["detail"]


async def test_smallest_and_largest_doubles_are_in_bins(api: Api) -> None:
    huge = (1.7e308, -1.7e308, 1.6e308, 5e-324, 2**64 - 1, 0.1)
    await store_record(api.store, [span(number, attributes={"x": value}) for number, value in enumerate(huge, 1)])

    async def hist(**spec: Any) -> tuple[list[int], list[float]]:
        """Return how many values are in each bin, and where the bins end."""
        [bucket] = (await api.metrics(specs=[{"type": "numeric/continuous", "path": "x", **spec}]))["buckets"]
        bins = bucket["metrics"]["attributes.x"]["hist"]
        return [bin_["count"] for bin_ in bins], [bin_["interval"][1] for bin_ in bins]

    assert await hist(bins=2) == ([1, 5], [0, 1.7e308])
    counts, ends = await hist(bins=3)
    assert counts == [1, 3, 2]
    assert ends == pytest.approx([-1.7e308 / 3, 1.7e308 / 3, 1.7e308])
    assert (await hist(vmin=1.5e308, bins=4))[0] == [0, 0, 1, 1]
    assert (await hist(vmin=0, vmax=5e-324, bins=4))[0] == [0, 0, 0, 1]
    assert (await hist(vmin=0, vmax=5e-324, bins=4, edge=False))[0] == [0, 0, 0, 0]
    assert (await hist(vmax=0, bins=2))[0] == [1, 0]
    assert (await hist(vmin=-1e306, vmax=1e306, bins=1_024))[0] == [*[0] * 512, 3, *[0] * 511]


async def metric_of_x(api: Api, found: Sequence[Any], **spec: Any) -> dict[str, Any]:
    """Return the statistics of values at the path ``x``, one per trace."""
    await store_record(api.store, [span(number, attributes={"x": value}) for number, value in enumerate(found, 1)])
    [bucket] = (await api.metrics(specs=[{"type": "numeric/continuous", "path": "x", **spec}]))["buckets"]
    metric: dict[str, Any] = bucket["metrics"]["attributes.x"]
    return metric


async def test_value_where_two_bins_meet_is_in_the_upper_bin(api: Api) -> None:
    found = [number / 100 for number in range(101)]

    hist = (await metric_of_x(api, found, bins=100))["hist"]

    check_hist({"bins": 100}, hist, found)


async def test_value_just_below_where_two_bins_meet_is_in_the_lower_bin(api: Api) -> None:
    """Six times that value is 5, in doubles."""
    hist = (await metric_of_x(api, [0, math.nextafter(5 / 6, 0), 1], bins=6))["hist"]

    assert [bin_["count"] for bin_ in hist] == [1, 0, 0, 0, 1, 1]


async def test_values_far_below_the_last_bin_are_in_their_bins(api: Api) -> None:
    hist = (await metric_of_x(api, [-1.7e308, -1, 0], bins=4))["hist"]

    assert [bin_["count"] for bin_ in hist] == [1, 0, 0, 2]


@pytest.mark.parametrize(("values_count", "bins_count"), [(1, 1), (9, 3), (10, 4)])
async def test_default_number_of_bins_is_the_root_of_the_count(api: Api, values_count: int, bins_count: int) -> None:
    assert len((await metric_of_x(api, range(values_count)))["hist"]) == bins_count


async def test_last_bin_includes_the_largest_value_unless_edge_is_false(api: Api) -> None:
    hist = (await metric_of_x(api, [0, 1, 2], bins=2, edge=False))["hist"]

    assert [bin_["count"] for bin_ in hist] == [1, 2]


async def test_equal_values_are_one_bin_and_a_range_beyond_them_has_none(api: Api) -> None:
    assert [bin_["interval"] for bin_ in (await metric_of_x(api, [4, 4, 4]))["hist"]] == [[4, 4]]
    assert (await metric_of_x(api, [4, 4, 4], vmin=5))["hist"] == []


async def test_values_beyond_the_limit_are_only_counted(api: Api) -> None:
    labels = [f"{number:05}" for number in range(FREQUENCIES_MAX + 1)]
    await store_record(api.store, [span(1, attributes={"x": [labels[-1], *labels]})])

    [bucket] = (await api.metrics(specs=[{"type": "categorical/multiple", "path": "x"}]))["buckets"]

    metric = bucket["metrics"]["attributes.x"]
    assert (metric["count"], metric["uniq"], len(metric["freq"])) == (10_002, 10_001, FREQUENCIES_MAX)
    assert [entry["value"] for entry in metric["freq"][:2]] == [labels[-1], labels[0]]


async def test_by_created_at_a_span_is_where_its_version_was_stored(api: Api) -> None:
    await store_record(api.store, [span(1)], offset=1)
    [shown] = await api.spans()
    stored = datetime.fromisoformat(shown["created_at"])
    window = {"oldest": shown["created_at"], "newest": (stored + timedelta(microseconds=1)).isoformat()}

    for body in ({"by": "created_at", **window}, {"windowing": {"by": "created_at", **window}}):
        response = await api.post("/spans/analytics/query", {**body, **PLAIN})
        assert response["query"]["windowing"]["by"] == "created_at"
        assert [bucket["timestamp"] for bucket in response["buckets"]] == [shown["created_at"]]
    assert (await api.counts(by="created_at"))["buckets"][0]["total"]["count"] == 0
    assert (await api.counts())["buckets"][0]["total"]["count"] == 1


async def test_sum_past_the_largest_double_is_a_text(api: Api) -> None:
    await store_record(api.store, [span(number, attributes={"x": 1.7e308}) for number in (1, 2)])

    [bucket] = (await api.metrics(specs=[{"type": "numeric/discrete", "path": "x"}]))["buckets"]

    metric = bucket["metrics"]["attributes.x"]
    assert (metric["sum"], metric["mean"], metric["max"]) == ("Infinity", "Infinity", 1.7e308)


async def test_schema_describes_totals_past_the_largest_double(api: Api) -> None:
    tokens = {"ag.metrics.tokens.incremental.total": 1.7e308}
    await store_record(api.store, [span(1, attributes=tokens), span(2, attributes=tokens)])

    response = await api.counts()

    assert response["buckets"][0]["total"]["tokens"] == "Infinity"
    described = TotalsModel.model_json_schema(mode="serialization")["properties"]["tokens"]["anyOf"]
    assert any("Infinity" in schema.get("enum", ()) for schema in described)


async def test_too_many_bins_in_total_are_400(api: Api) -> None:
    at_most = {**WINDOW, "newest": format_us(START_US + 256 * 60_000_000), "interval": 1}
    specs = [{"type": "numeric/continuous", "path": "a", "bins": 1_024}]

    await api.post("/spans/analytics/query", {**at_most, "specs": specs})
    await api.post("/spans/analytics/query", {**at_most, "specs": [*specs, {**specs[0], "type": "binary"}]})
    past = [*specs, {"type": "numeric/continuous", "path": "b", "bins": 1}]
    await api.post("/spans/analytics/query", {**at_most, "specs": past}, status=400)


async def test_hostile_path_finds_only_the_value_of_that_name(api: Api) -> None:
    names = ["it's", 'a"b', "{p1:String}", "%(x)s", "a\\", "é", "", "0", "' OR 1=1 --"]
    await store_record(api.store, [span(1, attributes={"x": dict.fromkeys(names, "found")})])
    specs = [{"type": "string", "path": f"x.{name}"} for name in (*names, "nul\0", "absent")]

    [bucket] = (await api.metrics(specs=specs))["buckets"]

    assert set(bucket["metrics"]) == {f"attributes.x.{name}" for name in names}


async def test_only_arrays_have_texts_of_arrays(api: Api) -> None:
    stored = {"é": ["a", ["b"], {"c": "d"}], "object": {"0": "a"}, "text": "a"}
    await store_record(api.store, [span(1, attributes={"x": stored})])

    specs = [{"type": "categorical/multiple", "path": f"x.{name}"} for name in stored]
    [bucket] = (await api.metrics(specs=specs))["buckets"]

    [(path, metric)] = bucket["metrics"].items()
    assert (path, metric["freq"]) == ("attributes.x.é", [{"value": "a", "count": 1, "density": 1}])


async def test_sum_that_is_a_number_has_no_members(api: Api) -> None:
    used = {"ag.metrics.tokens.incremental.total": 5}
    await store_record(api.store, [span(1, attributes=used, events=(Event("exception", START_NS, {}),))])
    paths = ["tokens.cumulative.total", "tokens.cumulative.total.x", "errors.cumulative", "errors.cumulative.x"]

    [bucket] = (await api.metrics(specs=[{"type": "*", "path": f"ag.metrics.{path}"} for path in paths]))["buckets"]

    assert set(bucket["metrics"]) == {f"attributes.ag.metrics.{path}" for path in paths[::2]}


@pytest.mark.parametrize("focus", ["trace", "span"])
async def test_call_repeated_by_its_agent_counts_once(api: Api, focus: str) -> None:
    used = {"ag": {"metrics": {"tokens": {"incremental": {"total": 5}}}}, "gen_ai": {"operation": {"name": "chat"}}}
    parent_id = (1).to_bytes(8, "big") * 2
    await store_record(
        api.store, [span(1, trace=1, attributes=used), span(2, trace=1, parent_id=parent_id, attributes=used)]
    )

    assert (await api.counts(focus=focus))["buckets"][0]["total"]["tokens"] == 5


async def test_explained_response_names_its_statement(api: Api) -> None:
    bodies = {"/spans/analytics/query": PLAIN, "/tracing/spans/analytics": {}, "/spans/users/query": {}}
    for path, body in bodies.items():
        assert (await api.post(path, {**body, "explain": True}))["explain"]
        assert "explain" not in await api.post(path, body)


async def test_query_string_may_request_an_explanation(api: Api) -> None:
    specs = orjson.dumps(PLAIN["specs"]).decode()
    for path, of_query in (("/spans/analytics/query", {"specs": specs}), ("/tracing/spans/analytics", {})):
        query = {"explain": "true", **of_query}
        assert (await api.post(path, query=query))["explain"]
        assert "explain" not in await api.post(path, {"explain": False}, query=query)
    async with api.client.get("/tracing/spans/analytics", params={"explain": "true"}) as response:
        assert (await response.json())["explain"]


async def test_exhausted_budget_is_504(store: ColumnStore) -> None:
    settings = Settings(auth="off", query=QuerySettings(budget_s=1e-9))
    async with serving(context_of(store=store, clock=SystemClock(), settings=settings)) as client:
        for path in ("/spans/analytics/query", "/tracing/spans/analytics", "/spans/sessions/query"):
            async with client.post(path, json={}) as response:
                assert response.status == 504
