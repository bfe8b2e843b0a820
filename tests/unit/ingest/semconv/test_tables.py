"""The tables as data: every row can be described, has a place in ``ag``, and is distinct."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from common.span import SPAN_TYPES
from ingest.semconv import vocabulary
from ingest.semconv.conventions import CONVENTIONS
from ingest.semconv.converters import RESERVED_META
from ingest.semconv.rows import ALL, Convention, Row

ROWS = [row for convention in CONVENTIONS for row in convention.rows]
PLACES = {
    "type.span",
    "data",
    "data.inputs",
    "data.inputs.documents",
    "data.inputs.messages_ref",
    "data.inputs.query",
    "data.inputs.records",
    "data.inputs.system_instructions_ref",
    "data.outputs",
    "data.outputs.documents",
    "data.outputs.messages_ref",
    "data.outputs.records",
    "session.id",
    "user.id",
    "exception",
    "tags",
    "meta",
    "unsupported.agent.id",
    "unsupported.agent.name",
    "unsupported.agent.version",
}
PREFIXES = ("data.parameters.", "meta.", "metrics.tokens.", "metrics.costs.")


def test_conventions_are_in_order_of_precedence() -> None:
    assert [convention.name for convention in CONVENTIONS] == [
        "opentelemetry",
        "openllmetry",
        "laminar",
        "openinference",
        "genai",
        "pydantic-ai",
        "vercel",
        "logfire",
        "langfuse",
        "litellm",
        "langsmith",
        "adk",
        "claude-code",
        "claude-code-events",
        "codex",
        "mlflow",
        "spring-ai",
    ]


def test_rows_have_a_target_and_a_description() -> None:
    for row in ROWS:
        place = row.target.removesuffix(ALL)

        assert place in PLACES or place.startswith(PREFIXES), row
        assert row.reading.says, row
        assert all(source and not source.startswith("ag.") for source in row.sources), row
        assert not any(source.endswith(ALL) for source in row.sources[:-1]), row
        if place.startswith("meta."):
            assert place.split(".")[1] in RESERVED_META, f"{row}: users' own names would take its place"


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda convention: convention.name)
def test_no_row_occurs_twice(convention: Convention) -> None:
    rows = Counter((row.sources, row.target, row.reading.says) for row in convention.rows)

    assert [row for row, count in rows.items() if count > 1] == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.target == "type.span"], ids=lambda row: row.source)
def test_mapped_kinds_are_span_types(row: Row) -> None:
    kinds = re.findall("→ `([^`]*)`", row.reading.says) or re.findall("^`([^`]*)`", row.reading.says)

    assert kinds
    assert set(kinds) <= set(SPAN_TYPES)


@pytest.mark.parametrize("words", [vocabulary.PROVIDERS, vocabulary.FINISH_REASONS, vocabulary.ROLES])
def test_normalized_words_are_mapped_to_themselves(words: dict[str, str]) -> None:
    assert {word: words.get(word, word) for word in words.values()} == {word: word for word in words.values()}
