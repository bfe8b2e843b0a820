"""Every example in ``docs/query-language.md`` finds what the page says, on the spans of the page, over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import pytest_asyncio

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.codec import span_json
from common.limits import SpanLimits
from common.settings import ClickHouseSettings
from common.times import SystemClock
from query_api.filter.language import FIELDS, Operator
from tests.strategies import NOW_NS
from tests.support.api import context_of, serving
from tests.support.shell_pages import check_commands, stack_of_a_page
from tests.support.span_corpus import store_record

PAGE = (Path(__file__).parents[2] / "docs/query-language.md").read_text()
BLOCKS = re.findall(r"^```json\n(.*?)^```\n(?:→ (.+?)\n(?:\n|\Z))?", PAGE, re.DOTALL | re.MULTILINE)
WRITTEN = re.findall(r"^```text\n(.*?)\n```\n→ (.+?)\n", PAGE, re.DOTALL | re.MULTILINE)
SPANS = BLOCKS[0][0]
EXAMPLES = BLOCKS[1:]
[COMMAND] = re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[aiohttp.ClientSession]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    decoded = span_json.decode(SPANS.encode(), limits=SpanLimits(), now_ns=NOW_NS)
    assert not decoded.rejections.in_full
    await store_record(store, decoded.spans)
    async with serving(context_of(store=store, clock=SystemClock())) as session:
        yield session
    await store.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_command_finds_its_span(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    with stack_of_a_page(str(client._base_url).rstrip("/"), tmp_path / "data") as environment:
        [output] = await check_commands([(COMMAND, None)], environment=environment)

    assert _written(200, orjson.loads(output)) == "checkout"


@pytest.mark.asyncio(loop_scope="module")
async def test_examples_find_what_the_page_says(client: aiohttp.ClientSession) -> None:
    for example, outcome in EXAMPLES:
        filtering = orjson.loads(example)
        whole = filtering if "conditions" in filtering else {"conditions": [filtering]}

        async with client.post("/spans/query", json={"filtering": whole}) as response:
            body = await response.json()

        assert _written(response.status, body) == unescape(outcome.replace("\n", " ")), example


@pytest.mark.asyncio(loop_scope="module")
async def test_written_filters_find_what_the_page_says(client: aiohttp.ClientSession) -> None:
    assert len(WRITTEN) == 7
    for text, outcome in WRITTEN:
        async with client.post("/filters/parse", json={"text": text}) as response:
            read = await response.json()
        async with client.post("/spans/query", json={"filtering": read["filtering"]}) as response:
            assert _written(response.status, await response.json()) == outcome, text


def _written(status: int, body: dict[str, Any]) -> str:
    """Return a response as the page writes it: the names in the order of time, or the error."""
    if status != 200:
        return f"{status} {body['detail']}"
    names = [span["span_name"].replace("\n", "\\n") for span in reversed(body["spans"])]
    return ", ".join(names) or "nothing"


def test_every_field_and_every_operator_has_an_example() -> None:
    named = {name for example, _ in EXAMPLES for name in re.findall(r'"(?:field|operator)": "(\w+)"', example)} | {"is"}

    never_present = {"updated_at", "deleted_at", "updated_by_id", "deleted_by_id"}
    assert set(Operator) <= named
    assert set(FIELDS) - never_present - {"span_kind", "agent_id", "created_at"} <= named
    assert all(f"`{name}`" in PAGE for name in FIELDS)
