"""Filters on ``service.name`` of the resource use a separate column and index."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from common.span import Resource, Span
from query_api.filter.parse import FilteringModel, parse
from query_api.filter.sql.compile import compile_filter
from tests.support.span_corpus import START_NS, store_record
from tests.support.span_pages import SpanPages, ids_of

SPANS_COUNT = 30_000
RARE = 20_000
NUMBERED = 25_000
GRANULES_COUNT = SPANS_COUNT // 512


def span(number: int) -> Span:
    """Nearly all spans have one service; one span has another, and the service name of one is a number."""
    names: dict[int, Any] = {RARE: "rare", NUMBERED: 5, SPANS_COUNT: "rare"}
    ids, at_ns = number.to_bytes(8, "big") * 2, START_NS + number * 1_000
    resource = Resource({"service": {"name": names.get(number, "usual")}})
    return Span(ids, ids, None, "s", 1, at_ns, at_ns, 0, None, {}, resource=resource)


def id_of(number: int) -> tuple[str, str]:
    return f"{number:016x}" * 2, f"{number:016x}"


async def test_rare_service_is_found_by_its_index(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    store = open_store(chdb_settings(), data_dir=chdb_dir)
    await store_record(store, [span(number) for number in range(1, SPANS_COUNT)])
    await store_record(store, [span(SPANS_COUNT)], offset=1)
    pages = SpanPages.over(store)
    found = [
        ids_of(await pages.page(filtering={"conditions": [service(*operands)]}, windowing={"order": "ascending"}))
        for operands in (("is", "rare"), ("in", ["rare", 5]), ("is", 5), ("is", "5"), ("in", ["nowhere"]))
    ]
    plans = [await plan_of(store, service(*operands)) for operands in (("is", "rare"), ("in", ["rare", "nowhere"]))]
    await store.close()

    rare, numbered = [id_of(RARE), id_of(SPANS_COUNT)], [id_of(NUMBERED)]
    assert found == [rare, sorted([*rare, *numbered]), numbered, [], []]
    for plan in plans:
        left = re.search(r"Name: service_name_index.*?Granules: ([0-9]+)/", plan, re.DOTALL)
        assert left is not None
        assert int(left[1]) < GRANULES_COUNT / 2


def service(operator: str, value: Any) -> dict[str, Any]:
    return {"field": "resource", "key": "service.name", "operator": operator, "value": value}


async def plan_of(store: ColumnStore, condition: dict[str, Any]) -> str:
    compiled = compile_filter(parse(FilteringModel.model_validate({"conditions": [condition]})))
    statement = Statement(f"EXPLAIN indexes = 1 SELECT span_id FROM spans WHERE {compiled.sql}", compiled.parameters)
    lines = (await store.select(statement, deadline_s=60.0))["explain"].to_pylist()
    return "\n".join(line if isinstance(line, str) else line.decode() for line in lines)
