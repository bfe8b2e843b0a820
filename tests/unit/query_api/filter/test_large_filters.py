"""Filters with many values are parsed and compiled in a thread."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from common.errors import InvalidFilter
from query_api.filter.parse import FilteringModel, parse, parse_filter
from query_api.filter.sql.compile import compile_filter, compile_node


def filter_of(*conditions: dict[str, Any]) -> FilteringModel:
    return FilteringModel.model_validate({"operator": "or", "conditions": [{"conditions": [*conditions]}]})


def slugs(count: int) -> dict[str, Any]:
    values = [{"slug": f"s{number}"} for number in range(count)]
    return {"field": "references", "operator": "in", "value": values}


def words(count: int) -> dict[str, Any]:
    return {"field": "content", "operator": "contains", "value": "flavourful " * count}


@pytest.mark.parametrize("condition", [slugs(5_000), words(3_000)])
async def test_large_filter_does_not_block_other_requests(condition: dict[str, Any]) -> None:
    model = filter_of(condition)

    reading = asyncio.create_task(parse_filter(model))
    await asyncio.sleep(0)
    assert not reading.done()
    compiling = asyncio.create_task(compile_node(await reading, now_us=0))
    await asyncio.sleep(0)
    assert not compiling.done()

    assert await reading == parse(model)
    assert await compiling == compile_filter(parse(model))


async def test_usual_filter_needs_no_thread() -> None:
    model = filter_of({"field": "span_name", "value": "a"}, slugs(10))

    reading = asyncio.create_task(parse_filter(model))
    await asyncio.sleep(0)

    assert reading.done()
    assert await compile_node(await reading, now_us=0) == compile_filter(parse(model))


async def test_error_in_a_large_filter_has_its_path() -> None:
    with pytest.raises(InvalidFilter, match=r"^filter\.conditions\[0\]\.conditions\[1\]"):
        await parse_filter(filter_of(slugs(5_000), {"field": "nowhere"}), path="filter")
