"""The computed column ``content`` and its index: the same words as in Python, and the index answers for words."""

from __future__ import annotations

import random
from typing import Any

from common.clickhouse.select import COMPUTED_COLUMNS
from common.clickhouse.store import ColumnStore, Statement
from common.span import Event
from query_api.filter.sql.expressions import Parameters, content_condition
from query_api.filter.text_search import words_of
from tests.support.span_corpus import START_NS, random_span, store_record

ASSIGNED = [*range(1, 0xD800), *range(0xE000, 0x34000), *range(0xE0000, 0xE1000)]
"""All assigned code points; later ones are private or unassigned."""

CODE_POINTS_PER_TEXT = 4096

WITH_CONTENT = f"WITH {COMPUTED_COLUMNS['content']} AS content"


async def select(store: ColumnStore, sql: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    rows = await store.select(Statement(sql, parameters or {}), deadline_s=60.0)
    return list(rows.to_pylist())


async def store_texts(store: ColumnStore, *texts: str, events: tuple[Event, ...] = (), offset: int = 0) -> None:
    """Store one span per text, with ids from 1."""
    source = random.Random(1)
    spans = [
        random_span(source, offset + number)._replace(attributes={"text": text}, events=events)
        for number, text in enumerate(texts)
    ]
    await store_record(store, spans, offset=offset)


async def found(store: ColumnStore, text: str) -> list[int]:
    """Return the ids of the matching spans, in order."""
    parameters = Parameters()
    condition = content_condition(text, parameters)
    sql = f"{WITH_CONTENT} SELECT DISTINCT hex(substring(span_id, 1, 8)) AS id FROM spans WHERE {condition} ORDER BY id"
    return [int(row["id"], 16) for row in await select(store, sql, parameters.values)]


async def test_engine_and_python_find_the_same_words_of_every_code_point(store: ColumnStore):
    texts = [
        "|".join(f"a{chr(code)}b" for code in ASSIGNED[first : first + CODE_POINTS_PER_TEXT])
        for first in range(0, len(ASSIGNED), CODE_POINTS_PER_TEXT)
    ]
    await store_texts(store, *texts)

    words = "tokens(arrayFirst(text -> startsWith(text, 'a'), content))"
    rows = await select(store, f"{WITH_CONTENT} SELECT {words} AS words FROM spans ORDER BY span_id")

    assert len(rows) == len(texts)
    for row, text in zip(rows, texts, strict=True):
        assert [word.decode() for word in row["words"]] == list(words_of(text))


async def test_index_answers_for_words(store: ColumnStore):
    await store_texts(store, "a wolf", "a sheep")
    parameters = Parameters()
    condition = content_condition('wolf "bad sheep" -dog', parameters)

    query = f"{WITH_CONTENT} SELECT span_id FROM spans WHERE {condition}"
    plan = await select(store, f"EXPLAIN indexes = 1 {query}", parameters.values)

    text = "\n".join(row["explain"].decode() for row in plan)
    assert "Name: words_index" in text
    assert "hasAllTokens(content" not in text  # the column that replaces it is read from the index
    assert "__text_index_words_index_hasAllTokens" in text
    assert "__text_index_words_index_hasAnyTokens" in text


async def test_texts_of_events_are_taken_from_their_json(store: ColumnStore):
    attributes = {
        'key: "quoted"': 'says: "so", \\ and\nü\x01 / end:',
        "nested": {"key": ["in", {"list": "an array"}, 5, True, None, []]},
        "empty": "",
    }
    await store_texts(store, "", events=(Event('name: "1"', START_NS, attributes), Event("second", START_NS, {})))

    [row] = await select(store, f"{WITH_CONTENT} SELECT content FROM spans")

    texts = [text.decode() for text in row["content"]]
    assert texts[-6:] == ['name: "1"', 'says: "so", \\ and\nü\x01 / end:', "in", "an array", "", "second"]


async def test_content_at_the_value_limit_is_accepted(store: ColumnStore):
    word, many = "w" * 65_536, " ".join(f"{number:x}" for number in range(13_000))
    await store_texts(store, word, many, "another")

    assert await found(store, word) == [1]
    assert await found(store, many) == [2]
    assert await found(store, f'"{many}"') == [2]
    assert await found(store, " ".join(f'-"{number:x} {number + 1:x}"' for number in range(4_000))) == [1, 3]
