"""``GET /prices/unknown``: models that were used without a price, over the real engine and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import aiohttp
import pytest

from clearspan.cli import main
from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID
from common.span import Span
from common.times import SystemClock, format_us
from tests.support.api import KnownKeys, context_of, serving
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, store_record

START_US = START_NS // 1000
MINUTE_US = 60_000_000


def a_call(number: int, model: str, *, minute: int, tokens: int = 10, **attributes: Any) -> Span:
    start_ns = START_NS + minute * MINUTE_US * 1_000
    sent = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": tokens,
        **{name.replace("__", "."): value for name, value in attributes.items()},
    }
    ids = number.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    return Span(*ids, None, f"chat {model}", 3, start_ns, start_ns + 1_000, 0, None, sent)


SPANS = [
    a_call(1, "mine-1", minute=0, gen_ai__provider__name="acme"),
    a_call(2, "mine-1", minute=5, tokens=30, gen_ai__provider__name="acme", gen_ai__response__model="mine-1-b"),
    a_call(3, "mine-1", minute=9, tokens=7, gen_ai__provider__name="acme"),
    a_call(4, "mine-1", minute=8),
    a_call(5, "llama3", minute=2, gen_ai__provider__name="ollama"),
    a_call(6, "gpt-4o-mini", minute=20),
    a_call(7, "mine-2", minute=20, gen_ai__usage__cost=0.5),
    a_call(8, "mine-3", minute=20, tokens=0),
]


@pytest.fixture
async def client(store: ColumnStore) -> AsyncIterator[aiohttp.ClientSession]:
    await store_record(store, SPANS, offset=1)
    await store_record(store, [a_call(9, "theirs", minute=30)], offset=2, project_id=OTHER_PROJECT_ID)
    keys = KnownKeys({"own": DEFAULT_PROJECT_ID, "other": OTHER_PROJECT_ID})
    async with serving(context_of(store=store, clock=SystemClock(), keys=keys)) as client:
        yield client


async def unknown(
    client: aiohttp.ClientSession,
    query: Mapping[str, str] = MappingProxyType({}),
    *,
    key: str = "own",
    status: int = 200,
) -> Any:
    headers = {"Authorization": f"ApiKey {key}"}
    async with client.get("/prices/unknown", params=query, headers=headers) as response:
        assert response.status == status, await response.text()
        return await response.json()


def seen(first: int, last: int) -> dict[str, str]:
    return {
        "first_seen": format_us(START_US + first * MINUTE_US),
        "last_seen": format_us(START_US + last * MINUTE_US),
    }


async def test_models_without_a_price_are_listed_newest_first(client: aiohttp.ClientSession) -> None:
    assert await unknown(client) == {
        "count": 4,
        "models": [
            {"provider": "acme", "model": "mine-1", "calls": 2, "tokens": 17, **seen(0, 9)},
            {"model": "mine-1", "calls": 1, "tokens": 10, **seen(8, 8)},
            {"provider": "acme", "model": "mine-1-b", "calls": 1, "tokens": 30, **seen(5, 5)},
            {"provider": "ollama", "model": "llama3", "calls": 1, "tokens": 10, **seen(2, 2)},
        ],
        "complete": True,
    }


async def test_window_and_limit_choose_models(client: aiohttp.ClientSession) -> None:
    window = {"oldest": format_us(START_US + 2 * MINUTE_US), "newest": format_us(START_US + 9 * MINUTE_US)}

    answer = await unknown(client, {**window, "limit": "2"})

    assert [(model["model"], model["calls"]) for model in answer["models"]] == [("mine-1", 1), ("mine-1-b", 1)]
    assert answer["others_count"] == 1
    assert (await unknown(client, {"newest": format_us(START_US)}))["models"] == []


async def test_project_sees_only_its_models(client: aiohttp.ClientSession) -> None:
    assert [model["model"] for model in (await unknown(client, key="other"))["models"]] == ["theirs"]


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "1001"}, {"oldest": "soon"}, {"model": "x"}])
async def test_wrong_parameter_is_rejected(client: aiohttp.ClientSession, query: dict[str, str]) -> None:
    assert (await unknown(client, query, status=422))["detail"]


async def test_command_prints_them(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_URL", str(client._base_url).rstrip("/"))
    monkeypatch.setenv("CLEARSPAN_KEY", "own")

    def run(*arguments: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            main(["prices", "unknown", *arguments])
        return ended.value.code

    monkeypatch.setattr("signal.signal", lambda *_: None)  # which only the main thread may call
    assert await asyncio.to_thread(run, "--limit", "2", "--wide") == 0
    printed = capsys.readouterr()
    rows = [line.split()[:4] for line in printed.out.splitlines() if "mine-1" in line]  # the server logs there, too
    assert rows == [
        ["acme", "mine-1", "2", "17"],
        ["mine-1", "1", "10", format_us(START_US + 8 * MINUTE_US)[:10]],
    ]
    assert "and 2 more models; --limit shows more." in printed.err
