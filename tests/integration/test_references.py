"""The index of ``references`` on the engine: what it finds, that it excludes granules, and that old rows are found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from common.clickhouse.store import ColumnStore, Statement
from query_api.filter.parse import FilteringModel, parse
from query_api.filter.sql.compile import compile_filter
from query_api.filter.sql.elements import LOOKED_UP_MAX, REFERENCES
from tests.support.span_corpus import random_span, store_record

QUOTED = 'says "so", \\ and\n{p1:String}'
EVERYTHING = list(range(1, 8))


def of_key(key: Any, **identity: str) -> dict[str, Any]:
    return {**identity, "attributes": {"key": key}}


async def store_references(store: ColumnStore, *references: Sequence[dict[str, Any]], offset: int = 0) -> None:
    """Store one span per list of references, with ids from 1."""
    source = random.Random(1)
    spans = [
        random_span(source, offset + number)._replace(references=list(elements), attributes={})
        for number, elements in enumerate(references)
    ]
    await store_record(store, spans, offset=offset)


def compiled(operator: str, value: Sequence[dict[str, Any]], **options: bool) -> tuple[str, Any]:
    condition = {"field": REFERENCES, "operator": operator, "value": value, "options": options}
    return compile_filter(parse(FilteringModel.model_validate({"conditions": [condition]})))


async def found(store: ColumnStore, operator: str, value: Sequence[dict[str, Any]], **options: bool) -> list[int]:
    """Return the ids of the matching spans, in order."""
    condition, values = compiled(operator, value, **options)
    sql = f"SELECT DISTINCT hex(substring(span_id, 1, 8)) AS id FROM spans WHERE {condition} ORDER BY id"
    rows = await store.select(Statement(sql, values), deadline_s=60.0)
    return [int(row["id"], 16) for row in rows.to_pylist()]


async def test_rows_found_by_the_index_are_checked_again(store: ColumnStore):
    one, two = str(UUID(int=1)), str(UUID(int=2))
    await store_references(
        store,
        [of_key("application", id=one, slug="a"), of_key("application_revision", version="1")],
        [of_key("application", id=two, slug="a.b")],
        [of_key("a", slug="application")],
        [of_key(QUOTED, slug="é-1"), of_key("é", slug="a")],
        [of_key(True, version="2")],
        [of_key({"deep": "a"})],
        [],
    )

    assert await found(store, "in", [{"slug": "a"}]) == [1, 4]
    assert await found(store, "not_in", [{"slug": "a"}]) == [2, 3, 5, 6, 7]
    assert await found(store, "in", [{"id": one}, {"id": two}]) == [1, 2]
    assert await found(store, "in", [{"id": one}, {"slug": "a.b", "attributes.key": "application"}]) == [1, 2]
    assert await found(store, "in", [{"slug": "a", "attributes.key": "application"}]) == [1]
    assert await found(store, "in", [{"slug": "a", "version": "1"}]) == []
    assert await found(store, "in", [{"id": one}, {"version": "1"}], all=True) == [1]
    assert await found(store, "in", [{"attributes.key": QUOTED}]) == [4]
    assert await found(store, "in", [{"attributes.key": "é"}, {"attributes.key": QUOTED}]) == [4]
    assert await found(store, "in", [{"attributes.key": True}]) == [5]
    assert await found(store, "in", [{"attributes.key.deep": "a"}]) == [6]
    assert await found(store, "in", [{"attributes": {"key": "a"}, "slug": "application"}]) == [3]
    assert await found(store, "in", [{"attributes.key": ""}]) == []
    assert await found(store, "in", [{}]) == EVERYTHING[:-1]


async def test_granules_without_the_texts_are_not_read(store: ColumnStore):
    for number in range(3):
        await store_references(store, [of_key("application", slug=f"app-{number}")], offset=number)
    condition, values = compiled("in", [{"slug": "app-1", "attributes.key": "application"}])

    sql = f"EXPLAIN indexes = 1 SELECT span_id FROM spans WHERE {condition}"
    plan = (await store.select(Statement(sql, values), deadline_s=60.0)).to_pylist()

    text = "\n".join(row["explain"].decode() for row in plan)
    index = text[text.index("Name: references_index") :]
    assert 'mode: All; tokens: ["app-1", "application"]' in index
    assert "Granules: 1/3" in index
    assert "hasAllTokens(references" not in text  # the column that replaces it is read from the index


async def test_result_is_the_same_without_the_index(store: ColumnStore):
    await store_references(store, [of_key("application", slug="a-1")], [of_key("application", slug="a")])
    condition, values = compiled("in", [{"slug": "a-1"}])

    sql = f"SELECT countIf({condition}) AS n FROM spans WHERE start_us > 0"
    rows = await store.select(Statement(sql, values), deadline_s=60.0)

    assert rows.to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("count", [LOOKED_UP_MAX, LOOKED_UP_MAX + 1])
async def test_many_references_are_found_with_and_without_the_index(store: ColumnStore, count: int):
    await store_references(store, [of_key("application", slug="wanted")], [of_key("application", slug="other")])
    wanted = [{"slug": f"w{number}"} for number in range(count - 1)]

    assert await found(store, "in", [*wanted, {"slug": "wanted"}]) == [1]
    condition, _ = compiled("in", [*wanted, {"slug": "wanted"}])
    assert ("hasAnyTokens" in condition) == (count <= LOOKED_UP_MAX)
