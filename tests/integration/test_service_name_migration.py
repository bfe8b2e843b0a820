"""A database from before `service.name` had a column and an index, under the program of today."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from common.span import Resource, Span
from query_api.filter.models import FilteringModel
from query_api.filter.parse import parse
from query_api.filter.sql.compile import compile_filter
from tests.support.older_tables import apply_again, tables_before
from tests.support.span_corpus import START_NS, store_record
from tests.support.span_pages import SpanPages, ids_of

SPANS_COUNT = 30_000
RARE = 20_000
NUMBERED = 25_000
GRANULES_COUNT = SPANS_COUNT // 512


def span(number: int) -> Span:
    """One service for nearly all spans; one span has a service of its own, and one has a number for a name."""
    names: dict[int, Any] = {RARE: "rare", NUMBERED: 5, SPANS_COUNT: "rare"}
    ids, at_ns = number.to_bytes(8, "big") * 2, START_NS + number * 1_000
    resource = Resource({"service": {"name": names.get(number, "usual")}})
    return Span(ids, ids, None, "s", 1, at_ns, at_ns, 0, None, {}, resource=resource)


def id_of(number: int) -> tuple[str, str]:
    return f"{number:016x}" * 2, f"{number:016x}"


@pytest.mark.parametrize("is_applied_twice", [False, True])
async def test_services_stored_before_are_found_by_the_index(
    chdb_dir: Path, chdb_empty_settings: Callable[[], ClickHouseSettings], tmp_path: Path, *, is_applied_twice: bool
) -> None:
    settings = chdb_empty_settings()
    store = await tables_before(9, settings, data_dir=chdb_dir, folder=tmp_path)
    await store_record(store, [span(number) for number in range(1, SPANS_COUNT)])

    applied = await migrate(settings, data_dir=chdb_dir)
    if is_applied_twice:
        await apply_again(store, "0009_service_name.sql")
    await store_record(store, [span(SPANS_COUNT)], offset=1)
    pages = SpanPages.over(store)
    found = [
        ids_of(await pages.page(filtering={"conditions": [service(*asked)]}, windowing={"order": "ascending"}))
        for asked in (("is", "rare"), ("in", ["rare", 5]), ("is", 5), ("is", "5"), ("in", ["nowhere"]))
    ]
    await until_all_parts_have_it(store)
    plans = [await plan_of(store, service(*asked)) for asked in (("is", "rare"), ("in", ["rare", "nowhere"]))]
    await store.close()

    assert applied[0] == "0009_service_name"
    rare, numbered = [id_of(RARE), id_of(SPANS_COUNT)], [id_of(NUMBERED)]
    assert found == [rare, sorted([*rare, *numbered]), numbered, [], []]
    for plan in plans:
        left = re.search(r"Name: service_name_index.*?Granules: ([0-9]+)/", plan, re.DOTALL)
        assert left is not None
        assert int(left[1]) < GRANULES_COUNT / 2


async def until_all_parts_have_it(store: ColumnStore) -> None:
    """Wait for the background work of the migration."""
    undone = Statement(
        "SELECT count() AS undone FROM system.mutations WHERE database = currentDatabase() AND NOT is_done"
    )
    for _ in range(300):
        if not (await store.select(undone, deadline_s=10.0))["undone"][0].as_py():
            return
        await asyncio.sleep(0.1)
    pytest.fail("the mutations did not end within 30 s")


def service(operator: str, value: Any) -> dict[str, Any]:
    return {"field": "resource", "key": "service.name", "operator": operator, "value": value}


async def plan_of(store: ColumnStore, condition: dict[str, Any]) -> str:
    compiled = compile_filter(parse(FilteringModel.model_validate({"conditions": [condition]})))
    statement = Statement(f"EXPLAIN indexes = 1 SELECT span_id FROM spans WHERE {compiled.sql}", compiled.parameters)
    lines = (await store.select(statement, deadline_s=10.0))["explain"].to_pylist()
    return "\n".join(line if isinstance(line, str) else line.decode() for line in lines)
