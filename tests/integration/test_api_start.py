"""The API process from its first moment: what it needs, what it waits for, what it rejects."""

from __future__ import annotations

import asyncio
from contextlib import closing
from socket import socket
from typing import Any
from uuid import uuid4

import aiohttp
import pyarrow as pa
import pytest

from common.clickhouse.store import Statement
from common.errors import NotMigrated
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.keys import Keys, KeyWanted
from common.postgres.migrate import migrate
from common.postgres.pool import open_database
from common.settings import Encoding, InvalidSettings, KafkaSettings, PostgresSettings, Settings, TopicSettings
from common.times import SystemClock
from query_api.http.app import open_api
from tests.fakes.kafka import MemoryBroker
from tests.support.api import UntouchedStore, status_of

NOBODY = KafkaSettings(bootstrap="127.0.0.1:1", request_timeout_s=0.5)


class ReadyStore(UntouchedStore):
    """A store that is available but not migrated; nothing may write to it."""

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """The API reads from the start how far spans are stored."""
        raise NotMigrated("ClickHouse")


async def test_api_becomes_ready_after_migrate(postgres_settings: PostgresSettings) -> None:
    settings = Settings(api_port=0, otlp_http_port=0, otlp_grpc_port=0, postgres=postgres_settings, kafka=NOBODY)
    async with (
        open_api(settings, store=ReadyStore(), publisher=MemoryBroker().publisher()) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
        open_database(postgres_settings) as database,
    ):
        lives = await client.get("/livez")
        refused = await client.get("/otlp/v1/traces")
        missing = await _missing(client)

        await migrate(postgres_settings, default_project_id=DEFAULT_PROJECT_ID)
        key = await Keys(database, SystemClock()).create(DEFAULT_PROJECT_ID, KeyWanted("test"))
        async with asyncio.timeout(120):
            while "postgres" in await _missing(client):  # noqa: ASYNC110 - a client has no other way to know
                await asyncio.sleep(0.05)
        without_key = await client.get("/otlp/v1/traces")
        with_key = await client.get("/otlp/v1/traces", headers={"Authorization": f"ApiKey {key.text}"})

    assert (lives.status, refused.status) == (200, 503)
    assert missing.keys() == {"clickhouse", "kafka", "postgres"}
    assert all("Run `clearspan migrate` to create them" in missing[system] for system in ("clickhouse", "postgres"))
    assert (without_key.status, with_key.status) == (401, 200)


async def test_default_project_is_missing_until_migrate_creates_it(
    postgres_settings: PostgresSettings,
) -> None:
    another = uuid4()
    await migrate(postgres_settings, default_project_id=DEFAULT_PROJECT_ID)
    settings = Settings(
        auth="off",
        api_port=0,
        otlp_http_port=0,
        otlp_grpc_port=0,
        postgres=postgres_settings,
        kafka=NOBODY,
        default_project_id=another,
    )
    async with (
        open_api(settings, store=ReadyStore(), publisher=MemoryBroker().publisher()) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        async with asyncio.timeout(120):
            while "Starting" in (message := (await _missing(client))["postgres"]):  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.05)
        await migrate(postgres_settings, default_project_id=another)
        async with asyncio.timeout(120):
            while "postgres" in await _missing(client):  # noqa: ASYNC110 - a client has no other way to know
                await asyncio.sleep(0.05)

    assert message.startswith(f"CLEARSPAN_DEFAULT_PROJECT_ID names the project {another}, which does not exist")


async def test_api_listens_without_postgres() -> None:
    away = PostgresSettings.model_validate({"dsn": "postgresql://nobody@127.0.0.1:1/none", "timeout_s": 0.5})
    settings = Settings(auth="off", api_port=0, otlp_http_port=0, otlp_grpc_port=0, postgres=away, kafka=NOBODY)
    async with (
        open_api(settings, store=ReadyStore()) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        assert "postgres" in await _missing(client)
        assert await status_of(client.get("/openapi.json")) == 200


async def test_used_port_is_reported_with_its_setting(postgres_settings: PostgresSettings) -> None:
    with closing(socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings(
            api_port=taken.getsockname()[1],
            otlp_http_port=0,
            otlp_grpc_port=0,
            postgres=postgres_settings,
            kafka=NOBODY,
        )

        with pytest.raises(InvalidSettings, match="CLEARSPAN_API_PORT"):
            async with open_api(settings, store=ReadyStore()):
                pass


async def test_open_address_without_authentication_is_rejected() -> None:
    with pytest.raises(InvalidSettings, match="CLEARSPAN_AUTH=off"):
        async with open_api(Settings(auth="off", api_host="0.0.0.0", api_port=0, otlp_http_port=0, otlp_grpc_port=0)):
            pass


@pytest.mark.parametrize(
    ("topics", "unread"),
    [({"mine"}, "INTAKE_TOPIC is spans and CLEARSPAN_KAFKA__OTLP_TOPIC"), ({"spans"}, "OTLP_TOPIC")],
)
async def test_intake_topic_that_is_not_read_is_rejected(topics: set[str], unread: str) -> None:
    """Otherwise spans would be acknowledged with 202 and stay in a topic that no worker reads."""
    kafka = KafkaSettings(topics={topic: TopicSettings(encoding=Encoding.SPAN_JSON) for topic in topics})

    with pytest.raises(
        InvalidSettings, match=f"^CLEARSPAN_KAFKA__{unread} is otlp_spans, which is not in CLEARSPAN_KAFKA__TOPICS"
    ):
        async with open_api(Settings(auth="off", api_port=0, otlp_http_port=0, otlp_grpc_port=0, kafka=kafka)):
            pass


async def _missing(client: aiohttp.ClientSession) -> dict[str, Any]:
    found: dict[str, Any] = (await (await client.get("/readyz")).json()).get("waiting_for", {})
    return found
