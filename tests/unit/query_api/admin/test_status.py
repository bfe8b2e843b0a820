"""The status of an installation of which parts are missing. ``tests/integration/test_admin.py`` has a whole one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn, cast

import pyarrow as pa
import pytest
from pydantic import SecretStr

from common.clickhouse.store import Statement
from common.errors import Unavailable
from common.postgres.pool import Database
from common.settings import IngestSettings, Settings
from query_api.request.limits import Limits
from query_api.request.progress import KnownEndOffsets
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A, KnownKeys, UntouchedStore, context_of
from tests.unit.query_api.conftest import Client


class AwayStore(UntouchedStore):
    """An engine that does not answer."""

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        raise Unavailable("connection refused by 10.0.0.1", public_message="ClickHouse is unavailable.")


class AwayDatabase:
    """A Postgres that does not answer."""

    async def fetch_one(self, sql: str, /, *arguments: object) -> NoReturn:
        raise Unavailable("Postgres is unavailable.")


async def status_of(
    broker: MemoryBroker, aiohttp_client: Client, *, limits: Limits | None = None, query: str = "", **settings: Any
) -> dict[str, Any]:
    clock = ManualClock()
    client = await aiohttp_client(
        context_of(
            broker=broker,
            settings=Settings(auth="off", **settings),
            clock=clock,
            store=AwayStore(),
            ends=KnownEndOffsets(broker.ends("spans"), clock),
            database=cast(Database, AwayDatabase()),
            limits=limits,
        )
    )
    async with client.get(f"/admin/status{query}") as response:
        assert response.status == 200
        answer: dict[str, Any] = await response.json()
    return answer


async def test_missing_parts_say_why_and_the_others_are_present(aiohttp_client: Client) -> None:
    broker = MemoryBroker(partitions=1)

    answer = await status_of(broker, aiohttp_client)

    assert answer["versions"].pop("clearspan")
    assert answer.pop("prices")["as_of"]
    assert answer == {
        "reason": "ClickHouse is unavailable.",
        "partitions": [],
        "dead_letters": {"reason": "ClickHouse is unavailable."},
        "waiting": {"reason": "ClickHouse is unavailable."},
        "settling": {"reason": "Postgres is unavailable."},
        "versions": {
            "reasons": {"clickhouse": "ClickHouse is unavailable.", "postgres": "Postgres is unavailable."},
        },
    }


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# as of {90}", {"as_of": "{90}"}),
        (
            "# as of {91}",
            {
                "as_of": "{91}",
                "warning": "The prices of models are of {91}, 91 days old: costs of newer models are missing, others"
                " may be wrong. `clearspan prices update` takes newer ones.",
            },
        ),
        ("", {"reason": "The file of prices has no line `# as of DATE`."}),
    ],
)
async def test_prices_that_are_older_than_90_days_are_warned_of(
    aiohttp_client: Client, tmp_path: Path, comment: str, expected: dict[str, str]
) -> None:
    today = datetime.fromtimestamp(ManualClock().now_ns() / 1e9, UTC).date()
    days = {f"{{{age}}}": str(today - timedelta(days=age)) for age in (90, 91)}

    def dated(text: str) -> str:
        return reduce(lambda text, age: text.replace(age, days[age]), days, text)

    path = tmp_path / "prices.csv"
    path.write_text(dated(f"{comment}\nprovider,model,input,cached_input,cache_write,output\nme,mine,1,,,2\n"))

    answer = await status_of(MemoryBroker(), aiohttp_client, ingest=IngestSettings(prices_file=path))

    assert answer["prices"] == {name: dated(text) for name, text in expected.items()}


async def test_prices_that_cannot_be_read_say_why(aiohttp_client: Client, tmp_path: Path) -> None:
    settings = IngestSettings(prices_file=tmp_path / "nowhere.csv")

    answer = await status_of(MemoryBroker(), aiohttp_client, ingest=settings)

    assert "nowhere.csv cannot be read" in answer["prices"]["reason"]


async def test_instrumentations_of_a_project_are_a_part(aiohttp_client: Client) -> None:
    answer = await status_of(MemoryBroker(), aiohttp_client, query=f"?project={PROJECT_A}")

    assert answer["instrumentations"] == {"reason": "ClickHouse is unavailable."}


async def test_slow_part_is_left_out(aiohttp_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(*_: object, **__: object) -> NoReturn:
        await asyncio.sleep(30)
        raise AssertionError

    monkeypatch.setattr(AwayDatabase, "fetch_one", wait)

    answer = await status_of(MemoryBroker(), aiohttp_client, limits=Limits(status_part_s=0.05))

    assert answer["versions"]["reasons"]["postgres"] == "No answer within 0.05 s."


@pytest.mark.parametrize(
    ("authorization", "expected"), [("Access the-admin-key", 200), ("ApiKey key", 401), ("Access key", 401), ("x", 401)]
)
async def test_only_the_administrator_sees_the_status(
    aiohttp_client: Client, authorization: str, expected: int
) -> None:
    context = context_of(
        settings=Settings(auth="on", admin_key=SecretStr("the-admin-key")),
        keys=KnownKeys({"key": PROJECT_A}),
        store=AwayStore(),
        database=cast(Database, AwayDatabase()),
    )
    client = await aiohttp_client(context)

    async with client.get("/admin/status", headers={"Authorization": authorization}) as response:
        assert response.status == expected
