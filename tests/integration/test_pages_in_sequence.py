"""Pages of the docs with commands or requests, followed one after the other on one stack, in both orders."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson
import pytest
from pydantic import SecretStr

from common.postgres.keys import Keys
from common.postgres.pool import Database
from common.settings import ClickHouseSettings, PostgresSettings, Settings
from common.times import SystemClock
from tests.support.api import context_of, serving
from tests.support.http_pages import PageReader, exchanges
from tests.support.shell_pages import DOCS, ROOT, api_of_a_page, blocks, check_commands, commands, stack_of_a_page

ADMIN_KEY = "the-key-of-the-admin"
FOLLOWED = {
    "command-line.md",
    "query-language.md",
    "export.md",
    "prices.md",
    "variants.md",
    "saved-queries.md",
    "projects-and-keys.md",
}
"""Pages of commands that need only an API. Others need more, or delete what is stored: a test of their own names them."""

WITH_KEYS = {"projects-and-keys.md"}
"""Pages that follow commands on a stack with authentication."""

INDEX = re.findall(r"\(([a-z-]+\.md)\)", (DOCS / "README.md").read_text())
REQUESTS = {"analytics.md": None, "explain-and-freshness.md": 2}
"""Pages of requests, and how many of their requests run here. The others depend on what else is stored."""

COMMANDS = [page for page in INDEX if page in FOLLOWED]
PAGES = [page for page in INDEX if page in COMMANDS or page in REQUESTS]


@dataclass(frozen=True)
class Stack:
    """What the pages assume: an API without keys, one with keys, and a directory."""

    address: str
    address_with_keys: str
    postgres_dsn: str
    directory: Path

    async def follow(self, page: str) -> None:
        """Run the commands of a page in a new shell, or send its requests, and compare with the output on the page."""
        if page in REQUESTS:
            await self._ask(page)
            return
        if page == "query-language.md":
            await self._send(orjson.loads(next(text for kind, text in blocks(page) if kind == "json")))
        address = self.address_with_keys if page in WITH_KEYS else self.address
        with stack_of_a_page(address, self.directory / "data", postgres=self.postgres_dsn) as environment:
            environment["CLEARSPAN_ADMIN_KEY"] = ADMIN_KEY
            printed = await check_commands(
                _with_outputs(page), environment=environment, prelude=f'cd "{self.directory}"\n'
            )
        if page == "query-language.md":
            assert [span["span_name"] for span in orjson.loads(printed[0])["spans"]] == ["checkout"]

    async def _ask(self, page: str) -> None:
        async with aiohttp.ClientSession(self.address) as client:
            reader = PageReader(client)
            for request, shown in exchanges(page)[: REQUESTS[page]]:
                await reader.check(request, shown)

    async def _send(self, spans: object) -> None:
        async with aiohttp.ClientSession(self.address) as client:
            async with client.post("/tracing/spans/ingest", json=spans) as response:
                assert response.status == 202, await response.text()
                wait = {"X-Clearspan-Wait-For": response.headers["X-Clearspan-Coordinates"]}
            async with client.post("/spans/query", json={}, headers=wait) as response:
                assert response.status == 200, await response.text()


def _with_outputs(page: str) -> Sequence[tuple[str, object]]:
    """Return the commands of a page with their output; the query language page shows spans instead."""
    return [(text, None) for text, _ in commands(page)] if page == "query-language.md" else commands(page)


@pytest.fixture
async def stack(
    database: Database,
    database_settings: PostgresSettings,
    chdb_dir: Path,
    chdb_settings: Callable[[], ClickHouseSettings],
    tmp_path: Path,
) -> AsyncIterator[Stack]:
    settings = Settings(auth="on", admin_key=SecretStr(ADMIN_KEY))
    with_keys = context_of(settings=settings, keys=Keys(database, SystemClock()), database=database)
    async with api_of_a_page(database, chdb_settings(), data_dir=chdb_dir) as address, serving(with_keys) as client:
        yield Stack(address, str(client._base_url).rstrip("/"), database_settings.dsn.get_secret_value(), tmp_path)


def test_every_page_with_commands_is_followed() -> None:
    with_commands = {page for page in INDEX if any(kind == "bash" for kind, _ in blocks(page))}
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))

    assert {page for page in with_commands - FOLLOWED if page not in tests} == set()
    assert set(PAGES) == {*FOLLOWED, *REQUESTS}


@pytest.mark.long
@pytest.mark.parametrize("is_reversed", [False, True], ids=["in the order of the index", "backwards"])
async def test_pages_followed_in_sequence_print_what_they_show(stack: Stack, *, is_reversed: bool) -> None:
    for page in reversed(PAGES) if is_reversed else PAGES:
        await stack.follow(page)
