"""ClickHouse and Postgres with TLS and client certificates, and with several hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore, Statement
from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.migrate import migrate
from common.postgres.pool import open_database
from common.settings import ClickHouseSettings, PostgresSettings
from tests.support.certificates import Authority
from tests.support.clickhouse import USER, clickhouse_server
from tests.support.faulty_proxy import faulty_proxy
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.postgres_tls import postgres_over_tls
from tests.support.stores import opened_store

PASSWORD = "p%41@ss:/?#word 'with' $signs"
WITHIN_S = 60.0
ONE = Statement("SELECT 1 AS one")


async def ask(settings: ClickHouseSettings, statement: Statement = ONE) -> Any:
    """Return the first value of the first row."""
    async with opened_store(settings, data_dir=Path()) as store:
        return await first_value(store, statement)


async def first_value(store: ColumnStore, statement: Statement) -> Any:
    found = await store.select(statement, deadline_s=WITHIN_S)
    return found.column(0)[0].as_py()


async def eventually(attempt: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await attempt():  # noqa: ASYNC110 - it is another process that is waited for
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def clickhouse(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Members of settings for an engine with TLS that asks for a certificate and a password."""
    certificates = (authority.issue("clickhouse"), authority.file)
    client = authority.issue("client", password=PASSWORD)
    data = tmp_path_factory.mktemp("clickhouse") / "data"
    with (
        clickhouse_server(data, password=PASSWORD) as server,
        faulty_proxy(f"http://127.0.0.1:{server.port}", certificates=certificates) as proxy,
    ):
        tls = {"ca_file": authority.file, "certificate_file": client, "key_password": PASSWORD}
        yield {
            "interface": "https",
            "port": proxy.port,
            "database": "default",
            "username": USER,
            "password": PASSWORD,
            "tls": tls,
        }


async def test_engine_with_tls_a_client_certificate_and_a_password(clickhouse: dict[str, Any]) -> None:
    settings = ClickHouseSettings.model_validate(clickhouse)

    assert await ask(settings) == 1
    assert PASSWORD not in f"{settings!r} {settings.model_dump()}"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"tls": {}}, "is not trusted: .+; see CLEARSPAN_CLICKHOUSE__TLS__CA_FILE"),
        ({"tls": {"ca_file": True}}, "see CLEARSPAN_CLICKHOUSE__.+ CLEARSPAN_CLICKHOUSE__TLS__CERTIFICATE_FILE"),
        ({"password": "wrong"}, "See CLEARSPAN_CLICKHOUSE__USERNAME and CLEARSPAN_CLICKHOUSE__PASSWORD"),
        ({"interface": "http", "tls": {}}, "see CLEARSPAN_CLICKHOUSE__INTERFACE"),
        ({"host": "127.0.0.9"}, r"127\.0\.0\.9: .*Connect"),
    ],
    ids=["authority", "certificate", "password", "interface", "host"],
)
async def test_engine_that_cannot_be_used_is_explained(
    clickhouse: dict[str, Any], authority: Authority, members: dict[str, Any], reason: str
) -> None:
    if members.get("tls") == {"ca_file": True}:
        members = {"tls": {"ca_file": authority.file}}

    with pytest.raises(Unavailable, match=reason) as raised:
        await ask(ClickHouseSettings.model_validate(clickhouse | members))

    assert PASSWORD not in raised.value.detail
    assert raised.value.public_message == "ClickHouse is unavailable."


async def test_next_host_is_used_when_one_fails(tmp_path: Path) -> None:
    port = free_port()
    hosts = "127.0.0.4, 127.0.0.2, 127.0.0.3"
    settings = ClickHouseSettings.model_validate({"host": hosts, "port": port, "database": "default"})
    here = Statement("SELECT count() FROM system.tables WHERE name = 'second'")
    store = open_store(settings, data_dir=tmp_path)

    async def is_second() -> bool:
        try:
            return bool(await first_value(store, here) == 1)
        except Unavailable:
            return False

    with clickhouse_server(tmp_path / "second", host="127.0.0.3", port=port):
        with clickhouse_server(tmp_path / "first", host="127.0.0.2", port=port) as first:
            at_start = await first_value(store, here)
            alone = open_store(settings.model_copy(update={"host": "127.0.0.3"}), data_dir=tmp_path)
            await alone.execute(Statement("CREATE TABLE second (a Int8) ENGINE = Memory"), deadline_s=WITHIN_S)
            await alone.close()
            before = await first_value(store, here)
            first.stop()
        await eventually(is_second)
        after = [await first_value(store, here) for _ in range(3)]
    await store.close()

    assert (at_start, before, after) == (0, 0, [1, 1, 1])


async def test_quorum_and_consistency_reach_the_engine(chdb_dir: Path) -> None:
    members = {"insert_quorum": "2", "insert_quorum_parallel": "off", "select_sequential_consistency": "on"}
    settings = ClickHouseSettings.model_validate({"interface": "chdb", "database": "default", **members})
    names = ["insert_quorum", "insert_quorum_parallel", "select_sequential_consistency"]
    asked = Statement(f"SELECT [{', '.join(f'toString(getSetting({name!r}))' for name in names)}] AS asked")
    async with opened_store(settings, data_dir=chdb_dir) as store:
        found = await first_value(store, asked)
    async with opened_store(ClickHouseSettings(interface="chdb", database="default"), data_dir=chdb_dir) as store:
        by_default = await first_value(store, asked)

    assert [text.decode() for text in found] == ["2", "false", "1"]
    assert [text.decode() for text in by_default] == ["0", "true", "0"]


@pytest.mark.parametrize(
    "members",
    [
        {"select_sequential_consistency": "on"},
        {"select_sequential_consistency": "on", "insert_quorum": "1", "insert_quorum_parallel": "off"},
        {"select_sequential_consistency": "on", "insert_quorum": "auto"},
        {"insert_quorum": "0"},
        {"insert_quorum": "most"},
        {"tls": {"check_hostname": "off"}},
    ],
)
def test_consistency_that_would_have_no_effect_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Input should be off unless|should be auto, a number from 1 to 99|no effect"):
        ClickHouseSettings.model_validate(members)


def _socket(settings: PostgresSettings) -> tuple[Path, str]:
    """Return the Unix socket of a server, and the name of the database."""
    parts = urlsplit(settings.dsn.get_secret_value())
    return Path(parse_qs(parts.query)["host"][0]) / ".s.PGSQL.5432", parts.path


async def test_postgres_with_tls_and_a_client_certificate(
    postgres_settings: PostgresSettings, authority: Authority
) -> None:
    socket, name = _socket(postgres_settings)
    client = authority.issue("postgres-client", password=PASSWORD)
    certificate = authority.issue("postgres")
    async with postgres_over_tls(socket, certificate=certificate, authority=authority.file) as (proxy, port):
        tls = {"ca_file": authority.file, "certificate_file": client, "key_password": PASSWORD}
        members = {"dsn": f"postgresql://postgres@127.0.0.1:{port}{name}", "timeout_s": WITHIN_S}
        secured = PostgresSettings.model_validate({**members, "tls": tls})
        await migrate(secured, default_project_id=DEFAULT_PROJECT_ID)
        async with open_database(secured) as database:
            rows = await database.fetch_all("SELECT id FROM projects")
        with pytest.raises(Unavailable, match=r"is not trusted: .+; see CLEARSPAN_POSTGRES__TLS__CA_FILE"):
            await migrate(
                PostgresSettings.model_validate({**members, "tls": {"check_hostname": "off"}}),
                default_project_id=DEFAULT_PROJECT_ID,
            )

    assert [row["id"] for row in rows] == [DEFAULT_PROJECT_ID]
    assert set(proxy.users) == {"postgres-client"}


async def _execute(server: PostgresSettings, *statements: str) -> None:
    connection = await asyncpg.connect(server.dsn.get_secret_value())
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def _connection_is(server: PostgresSettings, value: str) -> bool:
    connection = await asyncpg.connect(server.dsn.get_secret_value())
    shown = await connection.fetchval("SHOW default_transaction_read_only")
    await connection.close()
    return bool(shown == value)


async def test_postgres_host_that_can_be_written_to_is_used(
    postgres: PostgresServer, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The first host is down, the second becomes a standby, then the third one is the primary."""
    certificate, client = authority.issue("postgres-2"), authority.issue("postgres-client-2")
    with postgres_server(tmp_path_factory.mktemp("postgres-2") / "data") as other:
        servers = [await each.fresh_database() for each in (other, postgres)]
        (first, _), (second, _) = map(_socket, servers)
        for server in servers:
            await _execute(server, "CREATE DATABASE both_hosts")
        async with (
            postgres_over_tls(first, certificate=certificate, authority=authority.file) as (_, port),
            postgres_over_tls(second, certificate=certificate, authority=authority.file) as (_, second_port),
        ):
            hosts = f"127.0.0.1:{free_port()},127.0.0.1:{port},127.0.0.1:{second_port}"
            tls = {"ca_file": authority.file, "certificate_file": client}
            dsn = f"postgresql://postgres@{hosts}/both_hosts"
            settings = PostgresSettings.model_validate({"dsn": dsn, "tls": tls, "timeout_s": WITHIN_S})
            async with open_database(settings) as database:
                await database.fetch_all("CREATE TABLE at_first (a int)")
                await _execute(
                    servers[0], "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"
                )
                await eventually(lambda: _connection_is(servers[0], "on"))

                async def is_written() -> bool:
                    try:
                        await database.fetch_all("CREATE TABLE at_second (a int)")
                    except Unavailable:
                        return False
                    return True

                await eventually(is_written)
                tables = await database.fetch_all("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")

    assert [row["tablename"] for row in tables] == ["at_second"]
