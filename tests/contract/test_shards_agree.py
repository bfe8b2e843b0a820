"""Tables that are divided among two shards answer as one engine does (ADR 0037).

A case is one random request, or one change followed by requests. Both engines have the same spans, some of them sent
again, changed, and from another partition.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from query_api.retention.rules import KeepRules
from tests.support.cases import case
from tests.support.clickhouse_cluster import ClickHouseCluster
from tests.support.filters import FILTERS
from tests.support.retention import PARTITIONS as RETENTION_PARTITIONS
from tests.support.retention import expected_versions, retention_world, visible_versions
from tests.support.scale import few_and_many, rest_is_long
from tests.support.span_corpus import START_NS, random_span
from tests.support.span_pages import SpanPages
from tests.support.two_apis import PARTITIONS, SPANS_COUNT, Answers, TwoApis, two_apis

SEED: Final = 20_261_127
FEW: Final = 2
MANY: Final = 500

MIDDLE_US: Final = START_NS // 1_000 + 2_500_000
"""Of the starts of the spans: with two epochs that meet here, most traces are on both shards."""

NUMBERS: Final = ("duration", "tokens", "cost")
STATISTICS: Final = ("sum", "avg", "min", "max", "p50", "p90", "p99", "uniq")
PLACES: Final = (
    *("span_name", "status_code", "trace_id", "parent_id", "model", "service", "session", "provider"),
    {"field": "attributes", "key": "a"},
)
LIMITS: Final = st.sampled_from([40, 80, 200])
ORDERS: Final = st.sampled_from(["ascending", "descending"])
GROUPS: Final = st.fixed_dictionaries(
    {"group_by": st.lists(st.sampled_from(PLACES), max_size=2, unique_by=str)},
    optional={
        "measures": st.lists(
            st.fixed_dictionaries(
                {"of": st.sampled_from(NUMBERS), "as": st.lists(st.sampled_from(STATISTICS), min_size=1, unique=True)}
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda measure: str(measure["of"]),
        ),
        "interval": st.sampled_from(["1m", "1h"]),
        "limit": st.integers(1, 12),
        "filtering": FILTERS,
    },
)
RANKED: Final = st.fixed_dictionaries({"by": st.sampled_from(NUMBERS), "order": ORDERS})


@pytest.fixture(scope="module", params=rest_is_long(["", f"1,2@{MIDDLE_US}"]), ids=["one epoch", "two epochs"])
def apis(
    clickhouse_shards: ClickHouseCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TwoApis]:
    seed = int(request.config.getoption("--hypothesis-seed") or SEED)
    number = 1 + len(request.param)
    one = clickhouse_shards.nodes[0].settings(database=f"agree_one_{number}")
    divided = clickhouse_shards.settings(database=f"agree_divided_{number}", shard_epochs=request.param)
    with two_apis(one, divided, tmp_path_factory.mktemp("unused"), seed=seed) as opened:
        yield opened


cases_of: Final = pytest.mark.parametrize("cases", few_and_many(FEW, MANY))
pytestmark = pytest.mark.timeout(3_600)


def drawn(cases: int) -> settings:
    phases = [Phase.explicit, Phase.reuse, Phase.generate]  # a request takes too long to look for a smaller one
    return settings(max_examples=cases, phases=phases, suppress_health_check=list(HealthCheck))


def near(value: Any) -> Any:
    """The same response, with doubles that may differ in their last digits."""
    if isinstance(value, dict):
        return {name: near(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(near, value))
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


def agree(answers: Answers) -> None:
    assert answers.divided == near(answers.one)


def whole(filtering: dict[str, Any]) -> dict[str, Any]:
    return {"filtering": filtering if "conditions" in filtering else {"conditions": [filtering]}}


@cases_of
def test_pages_of_spans(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @given(FILTERS, LIMITS, ORDERS)
    def check(filtering: dict[str, Any], limit: int, order: str) -> None:
        agree(apis.walks("/spans/query", whole(filtering), {"limit": limit, "order": order}, items="spans"))

    check()


@cases_of
def test_pages_of_traces(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @given(FILTERS, LIMITS, ORDERS, st.sampled_from(["/traces/query", "/traces/summaries/query"]))
    def check(filtering: dict[str, Any], limit: int, order: str, path: str) -> None:
        items = "summaries" if "summaries" in path else "traces"
        agree(apis.walks(path, whole(filtering), {"limit": limit // 4, "order": order}, items=items))

    check()


@cases_of
def test_feed(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @given(FILTERS, LIMITS)
    def check(filtering: dict[str, Any], limit: int) -> None:
        agree(apis.walks("/spans/query", whole(filtering), {"limit": limit, "by": "created_at"}, items="spans"))

    check()


@cases_of
def test_groups(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @example({"group_by": ["model"], "measures": [{"of": "cost", "as": ["sum"]}, {"of": "tokens", "as": ["p50"]}]})
    @given(GROUPS)
    def check(body: dict[str, Any]) -> None:
        agree(apis.ask("POST", "/spans/groups/query", body))

    check()


@cases_of
def test_rankings_facets_sessions_and_statistics(apis: TwoApis, cases: int) -> None:
    asked: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
        st.tuples(
            st.sampled_from(["/spans/query", "/traces/query"]), RANKED.map(lambda by: {"windowing": {"sort": by}})
        ),
        st.tuples(st.just("/spans/facets/query"), st.sampled_from([{}, {"keys": [{"field": "span_name"}]}])),
        st.tuples(st.sampled_from(["/spans/sessions/query", "/spans/users/query"]), st.just({})),
        st.tuples(st.just("/tracing/spans/analytics"), st.just({})),
    )

    @drawn(cases)
    @given(asked, FILTERS)
    def check(request: tuple[str, dict[str, Any]], filtering: dict[str, Any]) -> None:
        path, body = request
        agree(apis.ask("POST", path, {**body, **whole(filtering)}))

    check()


@cases_of
def test_deletions_and_spans_that_are_sent_again(apis: TwoApis, cases: int) -> None:
    source = random.Random(SEED)
    for number in range(cases):
        with case("change", number):
            trace_id = (bytes([1 + source.randrange(37)]) * 16).hex()
            agree(apis.ask("DELETE", f"/traces/{trace_id}"))
            again = [random_span(source, source.randrange(SPANS_COUNT)) for _ in range(source.randrange(1, 12))]
            apis.send(again, partition_id=source.choice(PARTITIONS))
            agree(apis.walks("/spans/query", {}, {"limit": 200}, items="spans"))
            agree(apis.ask("POST", "/spans/groups/query", {"group_by": ["trace_id"], "limit": 40}))
            agree(apis.ask("GET", f"/traces/{trace_id}"))


@cases_of
async def test_retention(divided: ColumnStore, database: Database, cases: int) -> None:
    source = random.Random(SEED)
    async with retention_world(divided, database) as world:
        world.limits = replace(world.limits, chunk_versions=5)
        with world.freeing_at_once():
            for number in range(cases):
                with case("run", number):
                    for _ in range(source.randrange(1, 4)):
                        partition_id = source.choice(RETENTION_PARTITIONS)
                        await world.send(world.random_spans(source), partition_id=partition_id)
                    await world.run(KeepRules(source.choice((None, 2.0, 5.0)), source.choice((2_000, 8_000, 20_000))))
                    pages = await SpanPages.over(divided, project_id=world.project_id).pages(windowing={"limit": 50})
                    assert visible_versions(pages) == expected_versions(world.model)
