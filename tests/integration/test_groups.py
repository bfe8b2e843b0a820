"""Groups of spans over the real engine and over HTTP, against what a client makes of all spans."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from common.clickhouse.store import ColumnStore
from common.settings import Settings
from common.span import Resource, Span
from common.times import SystemClock, format_us
from tests.support.api import PATIENT, UntouchedStore, context_of, post_json, serving
from tests.support.client_groups import ClientGroups
from tests.support.deleting import delete
from tests.support.scale import scaled
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, store_record, store_year

START_US = START_NS // 1000
HOUR_US = 3_600_000_000
CASES = scaled(10, 500)
SPANS_COUNT = 260
LABEL = {"field": "attributes", "key": "app.label"}
REGION = {"field": "resource", "key": "region"}


@dataclass
class Api:
    """The API over HTTP, and its store."""

    client: aiohttp.ClientSession
    store: ColumnStore

    async def post(self, path: str, body: Any, *, status: int = 200) -> Any:
        return await post_json(self.client, path, body, status=status)

    async def groups(self, body: Any = None, *, status: int = 200) -> Any:
        return await self.post("/spans/groups/query", body or {}, status=status)

    async def spans(self, **body: Any) -> list[dict[str, Any]]:
        response = await self.post(
            "/spans/query", {**body, "windowing": {"limit": 10_000, **body.get("windowing", {})}}
        )
        spans: list[dict[str, Any]] = response["spans"]
        return spans


@pytest.fixture
async def api(store: ColumnStore) -> AsyncIterator[Api]:
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        yield Api(client, store)


@pytest.fixture
async def refusing_api() -> AsyncIterator[Api]:
    """An API whose store must not be reached."""
    store = UntouchedStore()
    async with serving(context_of(store=store)) as client:
        yield Api(client, store)


def span(number: int, *, trace: int = 1, parent: int | None = None, start_us: int = 0, **members: Any) -> Span:
    plain: dict[str, Any] = {
        "end_ns": START_NS + start_us * 1000 + 1_500_000,
        "kind": 1,
        "status_code": 0,
        "status_message": None,
        "attributes": {},
    }
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        start_ns=START_NS + start_us * 1000,
        name=f"s{number % 7}",
        **{**plain, **members},
    )


def random_span(source: random.Random, number: int) -> Span:
    """Draw a span of one of 40 traces, with any parent: a tree, an orphan, sometimes a circle. Sums are exact."""
    trace = 1 + number % 40
    parent = None if source.random() < 0.2 else abs(number + 40 * source.choice((-2, -1, -1, -1, 0, 1)))
    app = {
        "label": source.choice(("a", "b", "é", "", 5, 5.0, "5", True, False, None, ["a"], {"x": 1})),
        "number": source.choice((0, 1, -2, 2.5, 1024, "5", "0.5", "x", True, None)),
    }
    attributes: dict[str, Any] = {"app": {name: value for name, value in app.items() if source.random() < 0.8}}
    if source.random() < 0.5:
        reported = {
            "input_tokens": source.choice((None, 16, 32)),
            "output_tokens": source.choice((None, 1, 8)),
            "cost": source.choice((None, 0.5, 0.25)),
        }
        attributes |= {f"gen_ai.usage.{name}": amount for name, amount in reported.items() if amount is not None}
    elif source.random() < 0.3:
        attributes["ag.metrics.tokens.incremental.total"] = source.choice((3, 64))
        attributes["ag.metrics.costs.incremental.total"] = source.choice((0.125, 2))
    for path in ("ag.meta.response.model", "ag.meta.request.model", "ag.session.id", "ag.user.id"):
        if source.random() < 0.4:
            attributes[path] = source.choice(("gpt-4.1", "claude", "local"))
    start_us = source.randrange(0, 30 * HOUR_US)
    return span(
        number,
        trace=trace,
        parent=parent,
        start_us=start_us,
        end_ns=START_NS + start_us * 1000 + source.choice((0, 1_000_000, 2_500_000, 10**9)),
        status_code=source.choice((0, 1, 2)),
        attributes=attributes,
        resource=Resource({"region": source.choice(("eu", "us", 1)), "service": {"name": source.choice(("a", "b"))}})
        if source.random() < 0.7
        else Resource({}),
        session_id=None,
    )


async def store_corpus(store: ColumnStore, seed: int) -> None:
    """Spans of two projects: some sent again, changed and moved, some in another partition, some deleted, some twice."""
    source = random.Random(seed)
    numbers = list(range(1, SPANS_COUNT + 1))
    first = [random_span(source, number) for number in numbers]
    await store_record(store, first, offset=1)
    await store_record(store, first[:90], offset=1)
    await store_record(store, [random_span(source, number) for number in source.sample(numbers, 60)], offset=2)
    again = [random_span(source, number) for number in source.sample(numbers, 60)]
    await store_record(store, again, partition_id="cluster/spans/1", offset=1, record_ms=source.choice((0, 2)))
    for deleted in first[:20]:
        await delete(store, deleted)
    others = [random_span(source, number) for number in numbers[:50]]
    await store_record(store, others, offset=9, project_id=OTHER_PROJECT_ID)


TIMES = st.integers(-HOUR_US, 31 * HOUR_US).map(lambda at_us: format_us(START_US + at_us))
NUMBER_STATISTICS = ["sum", "avg", "min", "max", "p50", "p90", "p95", "p99", "uniq"]
SUMS = ["ag.metrics.costs.cumulative.total", "ag.metrics.errors.cumulative"]
NUMBERS = ["duration", "tokens", "cost", "app.number", *SUMS]
MEASURES = st.one_of(
    st.sampled_from([{"of": "count"}, {"of": "errors"}]),
    st.fixed_dictionaries(
        {"of": st.sampled_from(NUMBERS), "as": st.lists(st.sampled_from(NUMBER_STATISTICS), min_size=1, unique=True)}
    ),
    st.fixed_dictionaries(
        {
            "of": st.sampled_from(["start_time", "end_time"]),
            "as": st.lists(st.sampled_from(["min", "max", "uniq"]), min_size=1, unique=True),
        }
    ),
    st.fixed_dictionaries(
        {
            "of": st.sampled_from(["trace_id", "span_name", "parent_id", "model", "user", "app.label", REGION]),
            "as": st.just(["uniq"]),
        }
    ),
)
PLACES = [
    "span_name",
    "status_code",
    "trace_id",
    "parent_id",
    "model",
    "service",
    "session",
    "duration",
    "start_time",
    LABEL,
    REGION,
]
ORDERS = st.one_of(
    st.fixed_dictionaries({"of": st.sampled_from(["count", "errors"])}),
    st.fixed_dictionaries({"of": st.sampled_from(NUMBERS), "as": st.sampled_from(NUMBER_STATISTICS)}),
    st.fixed_dictionaries({"of": st.sampled_from(["trace_id", "model"]), "as": st.just("uniq")}),
).flatmap(lambda order: st.sampled_from([order, {**order, "order": "ascending"}, {**order, "order": "descending"}]))
FILTERS = st.sampled_from(
    [
        {"conditions": []},
        {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]},
        {"conditions": [{**LABEL, "operator": "in", "value": ["a", 5]}]},
        {"conditions": [{"field": "parent_id", "operator": "is_not", "value": None}]},
        {"conditions": [{"field": "model", "value": "claude"}, {"field": "cost", "operator": "gt", "value": 0.2}]},
    ]
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "group_by": st.lists(st.sampled_from(PLACES), max_size=3, unique_by=str),
        "measures": st.lists(MEASURES, min_size=1, max_size=5, unique_by=lambda measure: str(measure["of"])),
        "order_by": ORDERS,
        "interval": st.sampled_from(["15m", "1h", "12h", "1d"]),
        "totals": st.booleans(),
        "limit": st.integers(1, 12),
        "filtering": FILTERS,
        "windowing": st.fixed_dictionaries({}, optional={"oldest": TIMES, "newest": TIMES}),
    },
).map(lambda request: {name: value for name, value in request.items() if name != "totals" or request.get("interval")})


def near(value: Any) -> Any:
    """The same response, with doubles that may differ in their last digits."""
    if isinstance(value, dict):
        return {name: member if name == "by" else near(member) for name, member in value.items()}
    if isinstance(value, list):
        return [near(element) for element in value]
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


@pytest.fixture
async def whole(api: Api) -> tuple[Api, ClientGroups]:
    """The API over a corpus, and what a client knows of all of it."""
    await store_corpus(api.store, 3)
    return api, ClientGroups(await api.spans())


@pytest.mark.scaled
@pytest.mark.timeout(3_600)
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(request=REQUESTS)
@example(
    request={
        "group_by": ["model", LABEL],
        "measures": [{"of": "count"}, *({"of": number, "as": NUMBER_STATISTICS} for number in NUMBERS)],
        "order_by": {"of": "tokens", "as": "sum"},
        "limit": 4,
        "interval": "12h",
        "totals": True,
    }
)
@example(
    request={
        "group_by": [REGION],
        "measures": [{"of": "tokens", "as": ["sum", "uniq"]}, {"of": "cost", "as": ["avg", "p90"]}],
        "filtering": {"conditions": [{"field": "parent_id", "operator": "is_not", "value": None}]},
    }
)
async def test_groups_are_those_that_a_client_makes_of_all_spans(
    whole: tuple[Api, ClientGroups], request: dict[str, Any]
) -> None:
    api, client = whole
    part = {name: request[name] for name in ("filtering", "windowing") if name in request}

    expected = client.response(await api.spans(**part), request)

    assert await api.groups(request) == near(expected)


async def test_page_gets_its_histogram_and_its_sessions(api: Api) -> None:
    """The bodies are those of ``query_api/explorer/page``."""
    in_session = {"ag.session.id": "s-1", "ag.metrics.tokens.incremental.total": 5}
    spans = [
        span(1, attributes=in_session),
        span(2, start_us=HOUR_US, status_code=2, attributes={"ag.session.id": "s-1"}),
    ]
    await store_record(api.store, [*spans, span(3, trace=2)])
    session = {"field": "attributes", "key": "ag.session.id"}

    histogram = await api.groups(
        {
            "filtering": {"conditions": []},
            "windowing": {},
            "group_by": [],
            "interval": "1h",
            "measures": [{"of": "count"}, {"of": "errors"}],
        }
    )
    sessions = await api.groups(
        {
            "filtering": {"conditions": [{**session, "operator": "in", "value": ["s-1", "s-2"]}]},
            "windowing": {"oldest": format_us(START_US)},
            "group_by": [session],
            "measures": [
                {"of": "count"},
                {"of": "errors"},
                {"of": "tokens", "as": ["sum"]},
                {"of": "cost", "as": ["sum"]},
                {"of": "trace_id", "as": ["uniq"]},
                {"of": "start_time", "as": ["max"]},
            ],
            "limit": 2,
        }
    )

    first_us = START_US // HOUR_US * HOUR_US
    assert histogram["groups"] == [
        {"by": {}, "values": {"count": 2, "errors": 0}, "at": format_us(first_us)},
        {"by": {}, "values": {"count": 1, "errors": 1}, "at": format_us(first_us + HOUR_US)},
    ]
    values = {"count": 2, "errors": 1, "tokens": {"sum": 5}, "cost": {}, "trace_id": {"uniq": 1}}
    values["start_time"] = {"max": format_us(START_US + HOUR_US)}
    assert sessions == {"count": 1, "groups": [{"by": {"ag.session.id": "s-1"}, "values": values}], "complete": True}


async def test_store_without_spans_has_no_groups(api: Api) -> None:
    assert await api.groups() == {"count": 0, "groups": [], "complete": True}


async def test_usage_is_decided_over_the_whole_trace_before_the_filter(api: Api) -> None:
    used = {"gen_ai.usage.input_tokens": 16, "gen_ai.usage.output_tokens": 1}
    await store_record(api.store, [span(1, attributes=used), span(2, parent=1, attributes=used)])
    agent = {"conditions": [{"field": "parent_id", "value": None}]}

    found = await api.groups(
        {"filtering": agent, "measures": [{"of": "count"}, {"of": "tokens", "as": ["sum", "uniq"]}]}
    )

    assert found["groups"][0]["values"] == {"count": 1, "tokens": {"uniq": 0}}


async def test_fields_and_attributes_of_one_name_are_told_apart(api: Api) -> None:
    attributes = {"cost": 7, "region": "a"}
    await store_record(api.store, [span(1, attributes=attributes, resource=Resource({"region": "eu"}))])
    cost, region = ({"field": "attributes", "key": key} for key in ("cost", "region"))

    found = await api.groups(
        {"group_by": [region, REGION, "cost"], "measures": [{"of": cost, "as": ["max"]}, {"of": "cost", "as": ["max"]}]}
    )

    assert found["groups"] == [
        {
            "by": {"attributes.region": "a", "resource.region": "eu", "cost": None},
            "values": {"attributes.cost": {"max": 7}, "cost": {}},
        }
    ]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"group_by": ["color"]}, "group_by[0].field: 'color' is not a field; allowed: trace_id, "),
        ({"group_by": ["model", "attributes"]}, "group_by[1].key: 'attributes' key is required"),
        ({"group_by": ["events"]}, "group_by[0].field: 'events' has no single value; allowed: trace_id, "),
        ({"group_by": ["model", "model"]}, "group_by[1]: the same value as group_by[0]."),
        ({"measures": [{"of": "count"}, {"of": "cost"}]}, "measures[1].as: 'cost' needs at least one statistic;"),
        ({"measures": [{"of": "errors", "as": ["sum"]}]}, "measures[0].as: 'errors' is a number by itself"),
        ({"measures": [{"of": "trace_id", "as": ["sum"]}]}, "measures[0].as: 'trace_id' has no 'sum'; allowed: uniq."),
        ({"measures": [{"of": "end_time", "as": ["avg"]}]}, "measures[0].as: 'end_time' has no 'avg'; allowed: min, max"),
        ({"order_by": {"of": "model", "as": "max"}}, "order_by.as: 'model' has no 'max'; allowed: uniq."),
        ({"totals": True}, "totals: needs `interval`;"),
        ({"order_by": {"of": "content", "as": "uniq"}}, "order_by.of.field: 'content' has no single value;"),
    ],
)  # fmt: skip
async def test_what_cannot_be_computed_is_refused_with_its_place(
    refusing_api: Api, body: dict[str, Any], detail: str
) -> None:
    assert (await refusing_api.groups(body, status=400))["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"windowing": {"sort": {"by": "cost"}}}, ["windowing", "sort"]),
        ({"windowing": {"limit": 5}}, ["windowing", "limit"]),
        ({"interval": "2m"}, ["interval"]),
        ({"limit": 1_001}, ["limit"]),
        ({"group_by": ["model", "service", "provider", "span_name"]}, ["group_by"]),
        ({"measures": [{"of": "cost", "as": ["median"]}]}, ["measures", 0, "as", 0]),
        ({"order_by": {"as": "sum"}}, ["order_by", "of"]),
    ],
)
async def test_what_does_not_match_the_model_is_422(refusing_api: Api, body: dict[str, Any], loc: list[Any]) -> None:
    [problem] = (await refusing_api.groups(body, status=422))["detail"]

    assert problem["loc"] == ["body", *loc]


async def test_group_has_at_most_two_thousand_buckets(api: Api) -> None:
    starts_us = [minute * 60_000_000 for minute in range(2_001)]
    await store_record(api.store, [span(1 + number, start_us=start) for number, start in enumerate(starts_us)])
    newest = format_us(START_US + starts_us[-1])

    refused = await api.groups({"interval": "1m"}, status=400)
    found = await api.groups({"interval": "1m", "windowing": {"newest": newest}})

    assert refused["detail"].startswith("interval: a group has more than 2000 buckets of 1m; at most 2000 are allowed.")
    assert found["count"] == 2_000


def _with_budget(rows_count: int) -> Settings:
    return Settings(query=PATIENT.model_copy(update={"budget_rows": rows_count}))


async def test_what_exceeds_the_budget_is_about_the_newest_part(store: ColumnStore) -> None:
    """A year of spans, and a budget of rows for a small part of it."""
    await store_year(store, 40_000, rare_every=100)
    context = context_of(store=store, settings=_with_budget(20_000), clock=SystemClock())
    async with serving(context) as client:
        api = Api(client, store)
        found = await api.groups({"group_by": ["span_id"], "interval": "1d", "limit": 1})
        part = await api.spans(windowing={"oldest": found["examined"]["oldest"]})

    assert found["complete"] is False
    assert found["groups"][0]["values"]["count"] + found["others"]["values"]["count"] == len(part) < 40_000
    assert found["others"]["groups_count"] == len(part) - 1
    assert max(span["start_time"] for span in part) < found["examined"]["newest"]


async def test_what_no_budget_suffices_for_is_504(store: ColumnStore) -> None:
    await store_year(store, 5_000, rare_every=100)
    context = context_of(store=store, settings=_with_budget(1_000), clock=SystemClock())
    async with serving(context) as client:
        refused = await Api(client, store).groups(status=504)

    assert "budget" in refused["detail"]


async def test_explanation_has_the_statement(api: Api) -> None:
    await store_record(api.store, [span(1)])

    explanation = (await api.groups({"group_by": ["model"], "explain": True}))["explain"]

    assert [statement["step"] for statement in explanation["statements"]] == ["groups"]
    assert "GROUP BY" in explanation["statements"][0]["sql"]
