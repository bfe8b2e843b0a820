"""Full-text search means the same in Python and on the engine: ``content_matches`` over responses, and the SQL over the table."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from common.clickhouse.connect import open_store
from common.clickhouse.select import ATTRIBUTES_COLUMN, Select, Table
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Event, Span
from common.times import SystemClock
from query_api.filter.matches import content_matches
from query_api.filter.sql.expressions import Parameters, content_condition
from query_api.filter.text_search import parse_content
from query_api.spans.project_spans import ProjectSpans
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, random_span, store_record

SEED = 20_261_121
SPANS_COUNT = 300
EXAMPLES_COUNT = 30

WORDS = (
    *("a", "B", "hello", "HELLO", "hellohello", "5", "05", "or", "null", "true", "nan"),
    *("Straße", "STRASSE", "straẞe", "é", "e\u0301", "É", "naïve", "\u0301"),
    *("K", "k", "\u212a", "ſ", "s", "S", "ς", "Σ", "σ", "İ", "ı", "i", "I", "ǅ", "ǆ", "ﬀ", "ff", "ꭰ", "Ꭰ"),
    *("日本", "語", "ไทย", "हिन्दी", "٣٤", "x²", "x2", "Ⅳ", "ⅳ", "½", "𝐀", "𞤀", "𞤢", "\u200d", "\ufe0f"),
)
SEPARATORS = (
    " ",
    " ",
    " ",
    "  ",
    "-",
    "_",
    "'",
    '"',
    "—",
    "“",
    "”",
    "\u00a0",
    "\u3000",
    "、",
    "😀",
    "Ⓐ",
    "\n",
    "\\",
    "%",
    "",
)


def random_text(source: random.Random) -> str:
    return "".join(source.choice(WORDS) + source.choice(SEPARATORS) for _ in range(source.randrange(6)))


def random_texts(source: random.Random) -> Any:
    kind = source.random()
    if kind < 0.7:
        return random_text(source)
    if kind < 0.85:
        return [random_text(source), source.choice((5, True, None)), {source.choice(WORDS): random_text(source)}]
    return {source.choice(WORDS): {"b": random_text(source)}}


def random_events(source: random.Random) -> tuple[Event, ...]:
    return tuple(
        Event(
            random_text(source),
            START_NS,
            {random_text(source): random_texts(source) for _ in range(source.randrange(3))},
        )
        for _ in range(source.randrange(3))
    )


def span_of_texts(source: random.Random, number: int) -> Span:
    attributes = {source.choice(WORDS): random_texts(source) for _ in range(source.randrange(4))}
    events = random_events(source) if source.random() < 0.3 else ()
    return random_span(source, number)._replace(attributes=attributes, events=events)


class Corpus:
    """Stored spans: as responses contain them, and a way to find matches with the engine."""

    def __init__(self, runner: asyncio.Runner, spans: ProjectSpans) -> None:
        self._runner = runner
        self._spans = spans
        rows = self._select(["span_id", ATTRIBUTES_COLUMN, "events"], "1", {})
        self.answers = {
            row["span_id"]: {
                "attributes": orjson.loads(row["attributes_json"]),
                "events": orjson.loads(row["events"] or b"[]"),
            }
            for row in rows
        }

    def found(self, text: str, *, negated: bool = False) -> set[bytes]:
        parameters = Parameters()
        condition = content_condition(text, parameters)
        rows = self._select(["span_id"], f"NOT {condition}" if negated else condition, parameters.values)
        return {row["span_id"] for row in rows}

    def _select(self, columns: list[str], condition: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        query = Select(DEFAULT_PROJECT_ID, Table.SPANS, columns, where=[condition], parameters=parameters)
        return list(self._runner.run(self._spans.select(query)).to_pylist())


@pytest.fixture(scope="module")
def corpus(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> Iterator[Corpus]:
    source = random.Random(SEED)
    spans = [span_of_texts(source, number) for number in range(SPANS_COUNT)]
    with asyncio.Runner() as runner:
        store = open_store(chdb_settings(), data_dir=chdb_dir)
        runner.run(store_record(store, spans))
        runner.run(store_record(store, spans[:50], project_id=OTHER_PROJECT_ID))
        yield Corpus(runner, ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=3600.0))
        runner.run(store.close())


WORD = st.sampled_from(WORDS) | st.text(min_size=1, max_size=2)
SEPARATOR = st.sampled_from(SEPARATORS)
CHUNK = st.tuples(WORD, SEPARATOR).map("".join)
QUOTED = st.lists(CHUNK, min_size=1, max_size=3).map(lambda chunks: f'"{"".join(chunks)}" ')
ASKED = st.tuples(st.sampled_from(["", "", " -"]), CHUNK | QUOTED).map("".join)
ASKING = st.lists(ASKED, min_size=1, max_size=3).map("".join)


def has_a_word(text: str) -> bool:
    try:
        parse_content(text)
    except ValueError:
        return False
    return True


@pytest.mark.timeout(3_600)
@settings(max_examples=max(EXAMPLES_COUNT, settings().max_examples))
@given(ASKING.filter(has_a_word))
@example("-hello")
@example('-"hello hello"')
@example('"a a" a -"b k"')
@example("\u212a -ſ")
@example("invocation")
@example("\0")
@example("a\0b")
@example("{p1:String} ') OR 1 = 1 --")
def test_engine_and_python_find_the_same_content(corpus: Corpus, text: str) -> None:
    if not has_a_word(text):
        return
    content = parse_content(text)

    meant = {span_id for span_id, response in corpus.answers.items() if content_matches(content, response)}

    event("none" if not meant else "all" if len(meant) == SPANS_COUNT else "some")
    assert corpus.found(text) == meant
    assert corpus.found(text, negated=True) == corpus.answers.keys() - meant


def test_corpus_is_complete_and_belongs_to_one_project(corpus: Corpus) -> None:
    assert len(corpus.answers) == SPANS_COUNT
