"""``POST /filters/parse`` over HTTP: the filter that it returns finds what was written, also by the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from clearspan.cli import main
from common.clickhouse.store import ColumnStore
from common.span import Span
from common.times import SystemClock
from tests.support.api import context_of, serving
from tests.support.span_corpus import START_NS, store_record


def a_span(number: int, name: str, **attributes: Any) -> Span:
    ids = number.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    sent = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span(*ids, None, name, 3, START_NS + number, START_NS + number + 1, 0, None, sent)


SPANS = [
    a_span(1, "checkout", ag__session__id="s-1", http__status=500, note="card declined"),
    a_span(2, "pay", ag__session__id="s-1", http__status=200),
    a_span(3, "chat", ag__session__id="s-2", http__status=200, note="a card"),
    a_span(4, "a (b) and c", http__status=404),
]


@pytest.fixture
async def client(store: ColumnStore) -> AsyncIterator[aiohttp.ClientSession]:
    await store_record(store, SPANS, offset=1)
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        yield client


async def ask(client: aiohttp.ClientSession, path: str, body: dict[str, Any], *, status: int = 200) -> dict[str, Any]:
    async with client.post(path, json=body) as response:
        assert response.status == status, await response.text()
        answer: dict[str, Any] = await response.json()
        return answer


async def found(client: aiohttp.ClientSession, text: str) -> list[str]:
    read = await ask(client, "/filters/parse", {"text": text})
    window = {"oldest": "1970-01-01", "order": "ascending"}
    answer = await ask(client, "/spans/query", {"filtering": read["filtering"], "windowing": window})
    return [span["span_name"] for span in answer["spans"]]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("session = s-1 and http.status >= 500", ["checkout"]),
        ("session = s-2 or (http.status >= 404 and not name is checkout)", ["chat", "a (b) and c"]),
        ("session not_exists", ["a (b) and c"]),
        ('name = "a (b) and c"', ["a (b) and c"]),
        ("name in pay, chat", ["pay", "chat"]),
        ("card", ["checkout", "chat"]),
        ('"card declined"', ["checkout"]),
        ("00000000000000000000000000000003", ["chat"]),
        ("0000000000000002", ["pay"]),
    ],
)
async def test_filter_finds_what_was_written(client: aiohttp.ClientSession, text: str, names: list[str]) -> None:
    assert await found(client, text) == names


async def test_answer_has_the_parts_or_the_problem(client: aiohttp.ClientSession) -> None:
    at_most = {"field": "attributes", "key": "http.status", "operator": "lt", "value": 500}
    assert await ask(client, "/filters/parse", {"text": "http.status < 500 and not model exists"}) == {
        "filtering": {
            "operator": "and",
            "conditions": [
                at_most,
                {"operator": "not", "conditions": [{"field": "model", "operator": "exists"}]},
            ],
        },
        "parts": [
            {"text": "http.status < 500", "filtering": at_most},
            {
                "text": "not model exists",
                "filtering": {"operator": "not", "conditions": [{"field": "model", "operator": "exists"}]},
            },
        ],
    }
    searched = await ask(client, "/filters/parse", {"text": "session s-1"})
    assert (searched["searched"], searched["hint"]) == (True, "session = s-1")
    wrong = await ask(client, "/filters/parse", {"text": "cost > 1 and trace_id is nope"})
    assert wrong.keys() == {"problem"}
    problem = wrong["problem"]
    assert (problem["begin"], problem["end"]) == (13, 29)
    assert "trace" in problem["message"]


@pytest.mark.parametrize("body", [{}, {"text": None}, {"text": "x" * 10_001}, {"text": "a", "more": 1}])
async def test_body_without_a_text_is_refused(client: aiohttp.ClientSession, body: dict[str, Any]) -> None:
    await ask(client, "/filters/parse", body, status=422)


async def test_command_line_reads_filters_by_the_api(
    client: aiohttp.ClientSession, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # which only the main thread may call
    options = ["--oldest", "1970-01-01", "--order", "ascending", "--columns", "span_name", "--json"]

    def run(*words: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            main(["query", *words, *options, "--url", str(client._base_url).rstrip("/")])
        return ended.value.code

    assert await asyncio.to_thread(run, "name", "=", "a (b) and c", "or", "session=s-2") == 0
    printed = capsys.readouterr().out.splitlines()  # the server logs there, too
    names = [json.loads(line)["span_name"] for line in printed if line.startswith("{")]
    assert names == ["chat", "a (b) and c"]
    assert await asyncio.to_thread(run, "sesion", "=", "s-1") == 2
    assert "“sesion” is not a field. Did you mean “session”?\n  sesion = s-1\n  ^^^^^^" in capsys.readouterr().err
    assert await asyncio.to_thread(run, "session s-1") == 0
    assert "Did you mean: session = s-1" in capsys.readouterr().err
