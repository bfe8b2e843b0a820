"""The two interpreters of a filter agree: ``matches`` over responses, and the SQL over the table, on a real engine.

A case is one random filter, evaluated on each span of a corpus. An example of hypothesis is several cases, which the engine
evaluates in one statement, and the first of them again as a ``WHERE``, which uses indexes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from math import isfinite
from pathlib import Path
from string import ascii_letters
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from common.clickhouse.leaves import typed_text
from common.json_values import number_text
from common.paths import value_at
from common.settings import ClickHouseSettings
from common.times import parse_time_ns
from query_api.filter.language import FIELDS, SETTLING_REASONS, SHORTHANDS, SUMS_MAX, Kind, Node, Operator
from query_api.filter.matches import number_of, score_value, shorthand_value
from query_api.filter.parse import FilteringModel, parse, parse_place, resolve_times
from query_api.filter.sql.compile import compile_filter
from query_api.filter.sql.expressions import Parameters, text_condition, visible_number
from query_api.filter.sql.values import OPERATION_TEXT, read_typed, value_of
from query_api.filter.text_search import FOLDING, TextOperator, TextSearch, fold, text_of
from tests.support.cases import case
from tests.support.filter_corpus import FilterCorpus, filter_corpus
from tests.support.filters import FILTERS, NOW_US
from tests.support.scale import few_and_many, rest_is_long
from tests.support.span_corpus import SCORE_NAMES

SEED = 20_260_101
"""Seed of the spans; ``--hypothesis-seed`` replaces it."""

SPANS_COUNT = 160
FILTERS_AT_ONCE = 10
CASES = (60, 250)
"""Random filters in `make test`, and in `make test-long`. Each run draws others; a disagreement that was found stays in
``COUNTEREXAMPLES``."""

STATEMENT_CHARACTERS_MAX = 250_000
"""Deadline of a filter near its limits: the engine takes seconds for a megabyte, before it reads a row."""


@pytest.fixture(scope="module")
def corpus(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], request: pytest.FixtureRequest
) -> Iterator[FilterCorpus]:
    seed = int(request.config.getoption("--hypothesis-seed") or SEED)
    with filter_corpus(chdb_settings(), chdb_dir, seed=seed, spans_count=SPANS_COUNT) as stored:
        yield stored


def parsed(filtering: dict[str, Any]) -> Node:
    whole = filtering if "conditions" in filtering else {"conditions": [filtering]}
    return resolve_times(parse(FilteringModel.model_validate(whole)), now_us=NOW_US)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("cases", few_and_many(*CASES))
def test_engine_and_python_find_the_same_spans(corpus: FilterCorpus, cases: int) -> None:
    @settings(max_examples=cases // FILTERS_AT_ONCE)
    @given(st.lists(FILTERS, min_size=FILTERS_AT_ONCE, max_size=FILTERS_AT_ONCE))
    def agree(filterings: list[dict[str, Any]]) -> None:
        nodes = [parsed(filtering) for filtering in filterings]
        meant = [corpus.meant(node) for node in nodes]

        for spans in meant:
            event("none" if not spans else "all" if len(spans) == SPANS_COUNT else "some")
        assert corpus.verdicts(nodes) == meant
        assert corpus.found(nodes[0]) == meant[0]

    agree()


def of_attributes(key: str, operator: str, value: Any = None, **options: bool) -> dict[str, Any]:
    return {"field": "attributes", "key": key, "operator": operator, "value": value, "options": options or None}


def of_service(operator: str, value: Any, key: str = "service.name", **options: bool) -> dict[str, Any]:
    return {"field": "resource", "key": key, "operator": operator, "value": value, "options": options or None}


def of_score(name: str, *operators: str, value: Any) -> Iterator[dict[str, Any]]:
    for operator in operators:
        yield {"field": "scores", "key": name, "operator": operator, "value": value}


COUNTEREXAMPLES: list[dict[str, Any]] = [
    *({"field": "settled", "value": reason} for reason in (*SETTLING_REASONS, None)),
    *({"field": "settled", "operator": operator} for operator in ("exists", "not_exists")),
    *({"field": "settled", "operator": "in", "value": values} for values in ([], ["complete"], [*SETTLING_REASONS])),
    {"field": "settled", "operator": "not_in", "value": ["incomplete"]},
    {"field": "settled", "operator": "in", "value": [*SETTLING_REASONS], "options": {"all": True}},
    *(of_service("is", value) for value in ("", "a", "\0", 5, ["a"], None)),
    *(of_service("in", values) for values in (["a", "é", 5], ["", "x"], ["\0"], [5, True], [])),
    *(of_service("in", values, all=True) for values in (["a"], ["a", "é"], ["", "a"])),
    *(of_service(operator, "a") for operator in ("eq", "neq", "has", "contains", "exists", "is_not")),
    of_service("is", "a", "attributes.service.name"),
    of_service("is", {"name": "a"}, "service"),
    of_service("exists", None, "name"),
    {"field": "scope", "key": "name", "value": "a"},
    {"field": "scope", "key": "attributes.name", "operator": "exists"},
    {"field": "scope", "key": "version", "value": "1"},
    {"field": "scope", "key": "dropped_attributes_count", "operator": "gte", "value": 1},
    {"field": "resource", "key": "schema_url", "value": "a"},
    of_attributes("a", "eq", 2.0**53),
    of_attributes("a", "is", 2.0**64),
    of_attributes("a", "in", [1e20, "100000000000000000000"]),
    of_attributes("a", "is", [1e20]),
    of_attributes("a", "is", {"0": None}),
    of_attributes("a.0.1", "exists"),
    {"operator": "not", "conditions": [of_attributes("nowhere", "neq", 1)]},
    {"field": "parent_id"},
    {"field": "span_name", "operator": "in", "value": ["\0", "a"]},
    of_attributes("a", "is", "\0"),
    of_attributes("a", "is_not", {"\0": None, "a.b": "x"}),
    of_attributes("a", "in", ["\0", "x" * 70]),
    {"field": "span_name", "operator": "contains", "value": "X" * 70},
    {"field": "resource", "key": "attributes.a", "operator": "contains", "value": "e+"},
    {"field": "resource", "key": "attributes.b", "operator": "endswith", "value": "e-6"},
    {"field": "scope", "key": "attributes.a", "operator": "like", "value": "1.2345678901234568E+20"},
    {"field": "start_time", "operator": "endswith", "value": ".000001Z"},
    {"field": "start_time", "value": "now"},
    {"field": "start_time", "operator": "not_in", "value": ["-2s", "now"]},
    {"field": "end_time", "operator": "btwn", "value": ["-1s", "2026-05-28T20:26:42"]},
    *({"field": "start_time", "operator": name, "value": "-1s"} for name in ("eq", "neq", "gt", "gte", "lt", "lte")),
    of_attributes("a", "has", "a"),
    of_attributes("a.0.1.2.3.4.5.6.7.8.9", "has", "a"),
    of_attributes("a", "has", {"a": ["x"]}),
    of_attributes("a", "is", ["x", ["Ab b"]]),
    of_attributes("a", "in", ["É", "a b", "x"]),
    of_attributes("a", "in", ["x", "a"], all=True),
    of_attributes("a", "in", ["x", "!"]),
    of_attributes("a", "in", ["x", "a"]),
    of_attributes("a.0", "has", "a"),
    {"field": "resource", "key": "attributes.a.1", "operator": "exists"},
    of_attributes("ag.type.trace", "in", ["annotation", "x"]),
    of_attributes("ag.exception.message", "in", ["a.b", "5", "a\nB"]),
    of_attributes("ag.exception.message", "eq", "5"),
    {"field": "references", "operator": "in", "value": [{"attributes": {"key": key}} for key in ("é", "application")]},
    {"field": "events", "operator": "in", "value": [{"attributes": {"a": {"10": ""}}}]},
    {"field": "events", "operator": "in", "value": [{"attributes.a": {"10": ""}}]},
    {"field": "links", "operator": "in", "value": [{"attributes": {"key": "a"}}, {"attributes": {"key": 5.0}}]},
    {"field": "events", "operator": "in", "value": [{"attributes.a": {"a": 1}}, {"attributes.a.a": {"b": "x"}}]},
    {"field": "scope", "key": "attributes.a", "operator": "startswith", "value": "-9.3"},
    of_attributes("ag.metrics.tokens.cumulative", "has", "total"),
    *({"field": "duration", "operator": name, "value": value} for name, value in (("eq", 1000), ("gt", 0), ("is", 0))),
    *({"field": "duration", "operator": "in", "value": values} for values in ([0.001], [1000, "0"], [True], [])),
    {"field": "duration", "operator": "endswith", "value": ".001"},
    *({"field": name, "operator": "exists"} for name in SHORTHANDS),
    *({"field": name, "operator": "neq", "value": 5} for name in SHORTHANDS),
    {"field": "model", "operator": "is_not", "value": "gpt-4.1"},
    {"field": "model", "operator": "not_in", "value": ["gpt-4.1", "a"], "options": {"all": True}},
    *({"field": "scores", "operator": name} for name in ("exists", "not_exists")),
    *of_score("a", "exists", "is_not", value=None),
    *of_score("a.b", "is", "eq", "neq", "gt", "lte", "contains", "has", value=5),
    *of_score("a", "is", "eq", "neq", "gt", "lte", "contains", "has", value="a"),
    *of_score('a"b', "in", "not_in", value=["a", 5.0, True, 2**64 - 1]),
    *of_score("é x", "in", "is", value=[]),
    *of_score("a\0b", "not_exists", value=None),
    {"field": "scores", "key": "a", "operator": "in", "value": [1, "a"], "options": {"all": True}},
    {"field": "scores", "key": "x" * 70, "operator": "btwn", "value": [-1, 5]},
    {"field": "events", "operator": "has", "key": "attributes.a.a", "value": 2**64 - 1},
    {"field": "events", "operator": "has", "key": "attributes.exception.message", "value": "a\nB"},
    {
        "field": "references",
        "operator": "in",
        "value": [{"slug": "a"}, {"slug": "checkout.v2"}],
        "options": {"all": True},
    },
]
"""Filters on which the two disagreed, or nearly did."""


def test_former_disagreements_agree(corpus: FilterCorpus) -> None:
    nodes = [parsed(filtering) for filtering in COUNTEREXAMPLES]

    for start in range(0, len(nodes), FILTERS_AT_ONCE):
        some = slice(start, start + FILTERS_AT_ONCE)
        verdicts = corpus.verdicts(nodes[some])
        for filtering, node, verdict in zip(COUNTEREXAMPLES[some], nodes[some], verdicts, strict=True):
            assert corpus.found(node) == corpus.meant(node) == verdict, filtering


def test_corpus_is_complete_and_belongs_to_one_project(corpus: FilterCorpus) -> None:
    assert len(corpus.answers) == SPANS_COUNT


LONG_FORMS = {
    "service": ("resource", "service.name"),
    "provider": ("attributes", "ag.meta.system"),
    "session": ("attributes", "ag.session.id"),
    "user": ("attributes", "ag.user.id"),
    "tokens": ("attributes", "ag.metrics.tokens.incremental.total"),
    "cost": ("attributes", "ag.metrics.costs.incremental.total"),
}


@pytest.mark.parametrize("name", LONG_FORMS)
def test_shorthand_means_its_long_form(corpus: FilterCorpus, name: str) -> None:
    field, key = LONG_FORMS[name]
    value = 5 if name in ("tokens", "cost") else "a"
    for operator in ("is", "eq", "gt", "contains", "matches", "exists", "is_not"):
        rest = {"operator": operator, "value": None if operator == "exists" else value}

        short, long = corpus.verdicts([parsed({"field": name, **rest}), parsed({"field": field, "key": key, **rest})])

        assert short == long != set(), operator


def test_model_is_that_of_the_response_else_that_of_the_request(corpus: FilterCorpus) -> None:
    def model_of(answer: dict[str, Any]) -> Any:
        meta = answer["attributes"]["ag"].get("meta", {})
        models = [meta.get(name, {}).get("model") for name in ("response", "request")]
        return next((model for model in models if model is not None), None)

    wanted = {
        (answer["trace_id"], answer["span_id"]) for answer in corpus.answers if model_of(answer) == "gpt-4.1-mini"
    }

    assert corpus.found(parsed({"field": "model", "value": "gpt-4.1-mini"})) == wanted != set()


OPERATIONS = {
    "Cycle 6656572c-54a3-4861-aca0-4792e13006a9": "Cycle *",
    "Crew_B10A803E-AD94-4AA5-B2C8-85E62AC08A32.kickoff": "Crew_*.kickoff",
    "send w_df973edd-b860-4df9-9b60-a5e0d70669d7.(df973edd-b860-4df9-9b60-a5e0d70669d7)-T": "send w_*.(*)-T",
    "run 5b8efff798038103d269b633813fc60c": "run *",
    "call 0123456789abcdef then é": "call * then é",
    "GET /orders/1234567": "GET /orders/*",
    "6656572c-54a3-4861-aca0-4792e13006a99": "*9",
    "chat gpt-4o-mini-2024-07-18": "chat gpt-4o-mini-2024-07-18",
    "GET /orders/12345": "GET /orders/12345",
    "facade deadbeef": "facade deadbeef",
    "": "",
}
"""Name of a span → its operation."""


def test_operation_is_the_name_without_ids(corpus: FilterCorpus) -> None:
    parameters = Parameters()
    operations = f"arrayMap(name -> {OPERATION_TEXT}, {parameters.texts(list(OPERATIONS))}) AS operations"

    row, *_ = corpus.rows([operations], "1", parameters.values)

    assert [text.decode() for text in row["operations"]] == list(OPERATIONS.values())
    assert {name: shorthand_value("operation", {"span_name": name}) for name in OPERATIONS} == OPERATIONS


WITHOUT_VALUE = (Kind.JSON, Kind.SCORES, Kind.ELEMENTS, Kind.CONTENT)
PLACES = [
    *((field.name, None) for field in FIELDS.values() if field.kind not in WITHOUT_VALUE),
    *(("scores", name) for name in SCORE_NAMES),
    *(("attributes", key) for key in ("a", "a.b", "0", "a\0b", "ag.type.span", "ag.data", "é")),
    *((field, key) for field in ("resource", "scope") for key in ("service.name", "a", "name", "schema_url", "a.1")),
]


def test_value_of_a_place_is_what_responses_show(corpus: FilterCorpus) -> None:
    parameters = Parameters()
    places = [parse_place(field, key, path="by") for field, key in PLACES]
    columns = [
        f"{expression} AS found{index}_{name}"
        for index, place in enumerate(places)
        for name, expression in value_of(place, parameters)._asdict().items()
    ]
    rows = corpus.rows(["trace_id", "span_id", *columns], "1", parameters.values)

    row_of = {(row["trace_id"].hex(), row["span_id"][8:].hex()): row for row in rows}
    assert len(row_of) == SPANS_COUNT
    for answer, (index, (field, key)) in product(corpus.answers, enumerate(PLACES)):
        row, path = row_of[answer["trace_id"], answer["span_id"]], places[index].path
        with case(field, key):
            shown = shown_at(field, path, answer)
            scalar = None if isinstance(shown, list | dict) else shown
            typed, text = ("", "") if scalar is None else (typed_text(scalar), text_of(scalar))
            assert row[f"found{index}_typed"].decode() == typed
            assert row[f"found{index}_text"].decode() == text
            assert row[f"found{index}_is_absent"] == (scalar is None)
            assert row[f"found{index}_number"] == number_shown(FIELDS[field].kind, scalar)
            assert read_typed(typed) == scalar


def shown_at(field: str, path: tuple[str, ...], answer: dict[str, Any]) -> Any:
    if field == "scores":
        return score_value(answer.get("scores", []), *path)
    return shorthand_value(field, answer) if field in SHORTHANDS else value_at(answer.get(field), path)


def number_shown(kind: Kind, scalar: Any) -> float | None:
    if kind is Kind.TIME:
        return None if scalar is None else parse_time_ns(scalar) // 1000
    number = None if kind in (Kind.TRACE_ID, Kind.SPAN_ID, Kind.ENUM, Kind.UUID) else number_of(scalar)
    return float(number) if number is not None and isfinite(float(number)) else None


CASED = sorted({letter for code in FOLDING for letter in (chr(code), chr(FOLDING[code]))} | set(ascii_letters))
"""Every letter that equals another one without case."""


@pytest.mark.parametrize("step", rest_is_long([10, 1]))
def test_engine_folds_the_same_letters(corpus: FilterCorpus, step: int) -> None:
    cased = CASED[::step]
    of_one_fold: dict[str, list[str]] = {}
    for letter in cased:
        of_one_fold.setdefault(fold(letter), []).append(letter)

    for start in range(0, len(cased), 300):
        letters = cased[start : start + 300]
        places = [
            f"extractAll({{letters:String}}, {{p{index}:String}}) AS found{index}" for index in range(len(letters))
        ]
        patterns = {f"p{index}": f"(?i-s){letter}" for index, letter in enumerate(letters)}
        one = "(trace_id, span_id) IN (SELECT min((trace_id, span_id)) FROM spans)"
        [row] = corpus.rows(places, one, {**patterns, "letters": "".join(cased)})
        found = [[letter.decode() for letter in row[f"found{index}"]] for index in range(len(letters))]
        assert found == [of_one_fold[fold(letter)] for letter in letters]


def test_numbers_in_json_documents_are_shown_as_in_responses(corpus: FilterCorpus) -> None:
    powers = [
        sign * digits * 10.0**power
        for sign in (1, -1)
        for digits in (1, 9.3, 1.2345678901234567)
        for power in range(-9, 25)
    ]
    numbers = [
        int(number) if number.is_integer() and -(2.0**63) <= number < 2.0**64 else number
        for number in [*powers, 2.0**64, -(2.0**63)]
    ]
    sql = f"arrayMap(number -> {visible_number('number')}, JSONExtractArrayRaw({{numbers:String}}))"

    [row, *_] = corpus.rows([f"{sql} AS shown"], "1", {"numbers": json.dumps(numbers)})

    assert [text.decode() for text in row["shown"]] == list(map(number_text, numbers))


def test_long_literal_is_folded_like_a_short_one(corpus: FilterCorpus) -> None:
    parameters = Parameters()
    search = TextSearch(Operator.CONTAINS, "".join(map(fold, CASED)), is_exact=True)
    sql = text_condition(parameters.text("".join(CASED)), search, parameters)

    [row, *_] = corpus.rows([f"{sql} AS verdict"], "1", parameters.values)

    assert row["verdict"] == 1


@pytest.mark.parametrize("operator", [Operator.CONTAINS, Operator.STARTSWITH, Operator.ENDSWITH])
@pytest.mark.parametrize("is_exact", [False, True])
@pytest.mark.parametrize(
    "text",
    ["É" + "\u212a" * 70, "È" + "\u212a" * 70, "ΣÉ" + "k" * 70, "é" + "K" * 69 + "Ʞ", "é" + "K" * 70 + "Ǆ"],
    ids=["the same", "another first letter", "after a letter", "another last letter", "before a letter"],
)
def test_only_letters_of_a_long_literal_are_folded(
    corpus: FilterCorpus, operator: TextOperator, text: str, is_exact: bool
) -> None:
    parameters = Parameters()
    search = TextSearch(operator, "é" + "k" * 70, is_exact=is_exact)
    sql = text_condition(parameters.text(text), search, parameters)

    [row, *_] = corpus.rows([f"{sql} AS verdict"], "1", parameters.values)

    assert bool(row["verdict"]) is search.holds(text)


def test_attributes_under_or_use_the_index(corpus: FilterCorpus) -> None:
    conditions = [of_attributes(key, "is", value) for key, value in (("a", "x"), ("b", 5), ("ag.type.span", "llm"))]
    compiled = compile_filter(parsed({"operator": "or", "conditions": conditions}))

    plan = corpus.plan(compiled)

    lines = "\n".join(str(line) for row in plan for line in row.values())
    assert "leaf_pairs_index" in lines
    assert 'mode: Any; tokens: ["a=sx", "ag.type.span=sllm", "b=n5"]' in lines.replace("\\", "")


@pytest.mark.parametrize(
    ("condition", "tokens"),
    [
        (of_attributes("a", "eq", "x"), ['["a=sx"]']),
        (of_attributes("a", "in", ["Ab cde", "x"]), ['["a=sAb cde", "a=sx"]', '["cde", "x"]']),
        (of_attributes("a", "in", ["Ab cde", "x"], all=True), ['["cde", "x"]']),
        (of_attributes("a", "is", ["Ab cde", {"b": "x"}]), ['["cde", "x"]']),
        (of_attributes("a", "has", {"b": "x"}), ['["x"]']),
        (of_attributes("a", "is", "a text of eighteen"), ['["a", "eighteen", "of", "text"]']),
        (of_attributes("a", "is", "id 81d4 of some long text"), ['["81d4", "long", "some", "text"]']),
        (of_attributes("a", "in", ["short", "a text of eighteen"]), ['["a=sshort"]', '["eighteen", "short"]']),
        (
            {"field": "model", "value": "gpt-4.1"},
            ['["ag.meta.request.model=sgpt-4.1", "ag.meta.response.model=sgpt-4.1"]'],
        ),
    ],
)
def test_texts_of_attributes_use_indexes(corpus: FilterCorpus, condition: dict[str, Any], tokens: list[str]) -> None:
    compiled = compile_filter(parsed(condition))

    plan = corpus.plan(compiled)

    lines = "\n".join(str(line) for row in plan for line in row.values()).replace("\\", "")
    assert all(f"tokens: {token}" in lines for token in tokens), lines


@pytest.mark.long
def test_engine_accepts_a_filter_near_every_limit(corpus: FilterCorpus) -> None:
    deep: Any = "x"
    for _ in range(20):
        deep = [deep]
    conditions = [
        *(of_attributes("a.0.1.2.3.4.5.6.7.8", "has", str(number)) for number in range(25)),
        of_attributes("a", "is", deep),
        *(of_attributes("a", "in", [f"{number} {suffix}" for suffix in range(1_000)]) for number in range(8)),
        *(of_attributes("ag.metrics.costs.cumulative.total", "gt", number) for number in range(SUMS_MAX)),
        *({"field": "scope", "key": f"attributes.{number}", "operator": "like", "value": "_"} for number in range(60)),
    ]
    node = parsed({"operator": "or", "conditions": conditions})

    assert len(compile_filter(node).sql) < STATEMENT_CHARACTERS_MAX
    assert corpus.found(node) == corpus.meant(node)


def test_ten_thousand_elements_are_one_set(corpus: FilterCorpus) -> None:
    pairs = [{"trace_id": f"{number:032x}", "span_id": f"{number:016x}"} for number in range(1, 5_000)]
    ids = [{"trace_id": "01" * 16}, *({"trace_id": f"{number:032x}"} for number in range(1, 5_000))]
    node = parsed({"field": "links", "operator": "in", "value": pairs + ids})

    assert corpus.found(node) == corpus.meant(node) == corpus.verdicts([node])[0] != set()
