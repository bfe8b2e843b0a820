"""What summaries of traces say of their conversations, attributes and scores, over the real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore
from common.score import Score, ScoreSource
from common.settings import ClickHouseSettings
from tests.integration.test_traces import Traces, span, traces_over

Json = dict[str, Any]
WIDE = ("leaves", "attributes_template", "events", "resource")


@pytest.fixture(scope="module")
def database(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    configured = chdb_settings()
    asyncio.run(migrate(configured, data_dir=chdb_dir))
    return configured


@pytest.fixture
async def store(database: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    store = open_store(database, data_dir=chdb_dir)
    yield store
    await store.close()


async def summaries(api: Traces, *, status: int = 200, **body: Any) -> Json:
    page: Json = await api.call("POST", "/traces/summaries/query", status=status, json=body)
    return page


def chat(*messages: tuple[str, Any], answer: Any = None) -> Json:
    """Attributes of a model call."""
    inputs = [{"role": role, "content": content} for role, content in messages]
    outputs = {} if answer is None else {"ag.data.outputs": {"messages": [{"role": "assistant", "content": answer}]}}
    return {"ag.type.span": "chat", "ag.data.inputs": {"messages": inputs}, **outputs}


async def texts_of(api: Traces, *spans: Any) -> tuple[str | None, str | None]:
    """Question and answer of the newest of the traces."""
    await api.ingest(*spans)
    [summary] = (await summaries(api, include_texts=True, windowing={"limit": 1}))["summaries"]
    return summary.get("question"), summary.get("answer")


@pytest.mark.parametrize(
    ("root", "texts"),
    [
        ({"ag.data.inputs": {"question": "Why?", "k": 3}, "ag.data.outputs": {"answer": "So."}}, ("Why?", "So.")),
        ({"ag.data.inputs": {"k": 3}, "ag.data.outputs": "So."}, (None, "So.")),
        (chat(("system", "Be kind."), ("user", "Hi"), ("user", "Why?"), answer="So."), ("Why?", "So.")),
        (chat(("user", [{"type": "text", "text": "Why?"}, {"type": "text", "text": "now"}])), ("Why?", None)),
        (chat(("user", "a  long\n line"), answer="x" * 300), ("a long line", "x" * 200 + "…")),
        (chat(("system", "Be kind.")), (None, None)),
        ({}, (None, None)),
    ],
)
async def test_question_and_answer_are_those_of_the_root(
    store: ColumnStore, root: Json, texts: tuple[str | None, str | None]
) -> None:
    async with traces_over(store) as api:
        assert await texts_of(api, span(1, attributes=root)) == texts


async def test_last_model_call_speaks_for_a_root_without_texts(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        texts = await texts_of(
            api,
            span(1, attributes={"ag.data.inputs": {"k": 3}}),
            span(2, parent=1, at=1, attributes=chat(("user", "First?"), answer="One.")),
            span(3, parent=1, at=2, attributes=chat(("user", "Second?"), ("tool", "4"), answer="Two.")),
            span(4, parent=1, at=3, attributes={"ag.data.inputs": {"of": "a tool"}}),
        )
        both = await texts_of(
            api,
            span(5, trace=2, at=9, attributes={"ag.data.inputs": {"question": "Mine?"}}),
            span(6, trace=2, at=10, parent=5, attributes=chat(("user", "Its?"), answer="Its.")),
        )

    assert texts == ("Second?", "Two.")
    assert both == ("Mine?", "Its.")


async def test_texts_of_each_trace_are_its_own(store: ColumnStore) -> None:
    """Also of traces without a model call before, between and after those with one."""
    async with traces_over(store) as api:
        for number in range(1, 8):
            attributes = {} if number % 3 == 1 else chat(("user", f"Question {number}?"))
            await api.ingest(
                span(2 * number, trace=number, at=10 * number),
                span(2 * number + 1, trace=number, at=10 * number + 1, parent=2 * number, attributes=attributes),
            )
        page = await summaries(api, include_texts=True, windowing={"order": "ascending"})

    questions = [summary.get("question") for summary in page["summaries"]]
    assert questions == [None if number % 3 == 1 else f"Question {number}?" for number in range(1, 8)]


async def test_attributes_are_those_of_the_root_or_of_the_last_model_call(store: ColumnStore) -> None:
    paths = ["tenant", "retries", "cached", "http.route", "ag.meta.request.model", "nothing", "empty"]
    async with traces_over(store) as api:
        await api.ingest(
            span(1, attributes={"tenant": "acme", "retries": 2, "cached": False, "http.route": "/ask", "empty": {}}),
            span(
                2, parent=1, at=1, attributes={**chat(("user", "Hi")), "tenant": "other", "ag.meta.request.model": "m"}
            ),
        )
        [summary] = (await summaries(api, include_attributes=paths))["summaries"]

    assert summary["attributes"] == {
        "tenant": "acme", "retries": 2, "cached": False, "http.route": "/ask", "ag.meta.request.model": "m",
    }  # fmt: skip
    assert "question" not in summary


async def test_score_of_a_trace_is_the_highest_of_its_spans(store: ColumnStore) -> None:
    def scores(relevance: float, tone: str) -> tuple[Score, ...]:
        source = ScoreSource("event")
        values = Score("relevance", relevance, None, None, source, 1_000)
        return values, Score("tone", None, tone, None, source, 1_000)

    async with traces_over(store) as api:
        await api.ingest(
            span(1, scores=scores(relevance=0.2, tone="kind")),
            span(2, parent=1, at=1, scores=scores(relevance=0.9, tone="curt")),
            span(3, trace=2, at=2),
        )
        page = await summaries(api, windowing={"order": "ascending"})

    assert [summary.get("scores") for summary in page["summaries"]] == [
        [{"name": "relevance", "value": 0.9}, {"name": "tone", "label": "kind"}],
        None,
    ]


async def test_texts_cost_one_statement(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        await api.ingest(*(span(number, trace=number) for number in range(1, 4)))
        without = await summaries(api, explain=True)
        page = await summaries(api, include_texts=True, include_attributes=["a"], explain=True)

    assert len(page["explain"]["statements"]) == len(without["explain"]["statements"]) + 1


async def test_texts_of_too_many_traces_or_attributes_are_refused(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        many = await summaries(api, include_texts=True, windowing={"limit": 1_001}, status=400)
        await summaries(api, include_texts=True, windowing={"limit": 1_000})
        attributes = await summaries(api, include_attributes=[str(number) for number in range(21)], status=422)

    assert many["detail"] == "windowing.limit: a page with texts or attributes has at most 1,000 traces."
    assert attributes["detail"][0]["loc"] == ["body", "include_attributes"]
