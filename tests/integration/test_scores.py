"""Scores in queries: filters, rankings, groups, facets and traces (contract §3.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.score import EVENT_SOURCE, SCORES_MAX, Score, ScoreSource
from common.settings import ClickHouseSettings
from common.span import Event, Span
from common.times import SystemClock
from tests.support.api import context_of, serving
from tests.support.span_corpus import START_NS, store_record

JUDGE = ScoreSource("annotation", b"a" * 16, b"b" * 16, "judge")
HARD_NAME = 'a.b "c" \\ é'


def score(
    value: float | None,
    label: str | None = None,
    *,
    name: str = "Relevance",
    at_us: int = 0,
    source: Any = EVENT_SOURCE,
) -> Score:
    return Score(name, value, label, None, source, START_NS + at_us * 1_000)


def span(number: int, *scores: Score, trace: int = 0, events: tuple[Event, ...] = ()) -> Span:
    ids = (trace or number).to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    start_ns = START_NS + number * 1_000_000
    return Span(*ids, None, f"s{number}", 1, start_ns, start_ns + 1_000, 0, None, {}, events, scores=scores)


SPANS = [
    span(1, score(0.2, "bad"), score(1, "true", name="ok")),
    span(2, score(0.9, "good"), score(0, "false", name="ok")),
    span(3, score(0.7, "good", at_us=5), score(0.1, "bad", source=JUDGE)),  # the newest counts
    span(4, score(None, "good"), score(3, name=HARD_NAME)),
    span(5),
    span(6, score(5), trace=1),
]


@pytest.fixture
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[Callable[..., Any]]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    await store_record(store, SPANS)
    async with serving(context_of(store=store, clock=SystemClock())) as client:

        async def ask(path: str, *, status: int = 200, **body: Any) -> Any:
            return await answer_of(client, path, body, status=status)

        yield ask
    await store.close()


async def answer_of(client: aiohttp.ClientSession, path: str, body: dict[str, Any], status: int = 200) -> Any:
    async with client.post(path, json=body) as response:
        text = await response.text()
        assert response.status == status, text
        return await response.json()


def of_scores(operator: str, value: Any = None, key: str | None = "Relevance") -> dict[str, Any]:
    condition = {"field": "scores", "operator": operator, "value": value, **({} if key is None else {"key": key})}
    return {"conditions": [condition]}


async def names(api: Callable[..., Any], filtering: dict[str, Any], **windowing: Any) -> list[str]:
    page = await api("/spans/query", filtering=filtering, windowing={"order": "ascending", **windowing})
    return [each["span_name"] for each in page["spans"]]


async def test_conditions_are_on_the_newest_score_of_a_name(api: Callable[..., Any]) -> None:
    for filtering, found in (
        (of_scores("gt", 0.5), ["s2", "s3", "s6"]),
        (of_scores("is", "good"), ["s4"]),
        (of_scores("is_not", 0.7), ["s1", "s2", "s4", "s5", "s6"]),
        (of_scores("is", 1, key="ok"), ["s1"]),
        (of_scores("in", [0.2, 5]), ["s1", "s6"]),
        (of_scores("btwn", [0.2, 0.7]), ["s1", "s3"]),
        (of_scores("contains", "OO"), ["s4"]),
        (of_scores("exists", key=HARD_NAME), ["s4"]),
        (of_scores("exists", key="a"), []),
        (of_scores("exists", key=None), ["s1", "s2", "s3", "s4", "s6"]),
        (of_scores("not_exists", key=None), ["s5"]),
        (of_scores("is", key=HARD_NAME), ["s1", "s2", "s3", "s5", "s6"]),
        (of_scores("exists", key="\0"), []),
    ):
        assert await names(api, filtering) == found, filtering


async def test_scores_without_a_name_can_only_exist(api: Callable[..., Any]) -> None:
    answer = await api("/spans/query", filtering=of_scores("gt", 1, key=None), status=400)

    assert answer["detail"] == (
        "filtering.conditions[0].key: 'scores' needs the name of a score as key;"
        " without one allowed: exists, not_exists."
    )


async def test_trace_matches_by_a_score_of_any_span(api: Callable[..., Any]) -> None:
    page = await api("/traces/query", filtering=of_scores("gt", 4))

    [trace] = page["traces"]
    assert trace["trace_id"].endswith("1")
    assert len(trace["spans"]) == 2


async def test_spans_and_traces_are_ranked_by_a_score(api: Callable[..., Any]) -> None:
    by = {"field": "scores", "key": "Relevance"}

    assert await names(api, {}, sort={"by": by}) == ["s6", "s2", "s3", "s1"]
    assert await names(api, {}, sort={"by": by, "order": "ascending"}, limit=2) == ["s1", "s3"]
    traces = await api("/traces/query", windowing={"sort": {"by": by}})
    assert [int(trace["trace_id"], 16) for trace in traces["traces"]] == [1, 2, 3]


async def test_groups_are_by_label_and_measures_of_values(api: Callable[..., Any]) -> None:
    by = {"field": "scores", "key": "Relevance"}
    answer = await api(
        "/spans/groups/query",
        group_by=[by],
        measures=[{"of": "count"}, {"of": by, "as": ["avg", "max", "uniq"]}],
        order_by={"of": by, "as": "max"},
    )

    assert [(group["by"]["Relevance"], group["values"]) for group in answer["groups"]] == [
        (5, {"count": 1, "Relevance": {"avg": 5, "max": 5, "uniq": 1}}),
        ("good", {"count": 3, "Relevance": {"avg": 0.8, "max": 0.9, "uniq": 3}}),
        ("bad", {"count": 1, "Relevance": {"avg": 0.2, "max": 0.2, "uniq": 1}}),
        (None, {"count": 1, "Relevance": {"uniq": 0}}),
    ]
    refused = await api("/spans/groups/query", group_by=["scores"], status=400)
    assert refused["detail"] == "group_by[0].key: 'scores' needs the name of a score as key."


async def test_facets_list_names_and_values_of_scores(api: Callable[..., Any]) -> None:
    listed = await api("/spans/facets/query")
    of_values = await api("/spans/facets/query", keys=[{"field": "scores", "key": "Relevance"}])
    none = await api("/spans/facets/query", filtering=of_scores("not_exists", key=None))

    assert listed["scores"] == [
        {"name": "Relevance", "types": ["string", "number"], "count": 5},
        {"name": "ok", "types": ["number"], "count": 2},
        {"name": HARD_NAME, "types": ["number"], "count": 1},
    ]
    assert "scores" not in none
    [facet] = of_values["facets"]
    assert {(each["value"], each["count"]) for each in facet["values"]} == {
        (value, 1) for value in (0.2, 0.9, 0.7, 5, "good")
    }


async def test_span_shows_the_newest_of_many_scores(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    said = (
        {"gen_ai.evaluation.name": f"n{number}", "gen_ai.evaluation.score.value": number} for number in range(10_000)
    )
    events = tuple(
        Event("gen_ai.evaluation.result", START_NS + number * 1_000, each) for number, each in enumerate(said)
    )
    await store_record(store, [span(1, events=events)])
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        page = await answer_of(client, "/spans/query", {"filtering": of_scores("is", 9_999, key="n9999")})
    await store.close()

    [shown] = page["spans"]
    assert len(shown["scores"]) == SCORES_MAX
    assert shown["scores"][0]["name"] == "n9999"
    assert shown["dropped_scores_count"] == 10_000 - SCORES_MAX
    assert len(shown["events"]) == 10_000
