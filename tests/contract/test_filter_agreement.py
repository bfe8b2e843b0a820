"""The two interpreters of a filter agree: ``matches`` over answers, and the SQL over the table, on a real engine."""

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
from common.clickhouse.migrate import migrate
from common.clock import SystemClock
from common.filter.ast import EVERYTHING, GroupOperator, Node
from common.filter.fields import FIELDS, LEGAL_OPERATORS, SUPPORTED_KINDS, SUPPORTED_OPERATORS, Kind
from common.filter.matches import matches
from common.filter.models import FilteringModel
from common.filter.parse import parse
from common.project import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from query_api.spans.compile import compile_filter
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.search import Window, find_page
from tests.support.span_corpus import (
    KEYS,
    NUMBERS,
    OTHER_PROJECT_ID,
    SCALARS,
    SEGMENTS,
    START_NS,
    TEXTS,
    random_span,
    store_record,
)

SEED = 20_260_101
SPANS_COUNT = 400
LIMIT = 10_000
EXAMPLES_COUNT = 400
"""Each is asked of every span of the corpus."""


class Corpus:
    """Stored spans: as answers show them, and a way to ask the engine for those that match."""

    def __init__(self, runner: asyncio.Runner, spans: ProjectSpans) -> None:
        self._runner = runner
        self._spans = spans
        self.answers = self._ask(EVERYTHING)

    def found(self, node: Node) -> set[tuple[str, str]]:
        return {_id(answer) for answer in self._ask(node)}

    def _ask(self, node: Node) -> list[dict[str, Any]]:
        page = find_page(self._spans, compile_filter(node), Window(), limit=LIMIT, bytes_max=1 << 30)
        return [orjson.loads(span.json) for span in self._runner.run(page).spans]


@pytest.fixture(scope="module")
def corpus(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> Iterator[Corpus]:
    configured = chdb_settings()
    source = random.Random(SEED)
    spans = [random_span(source, number) for number in range(SPANS_COUNT)]
    with asyncio.Runner() as runner:
        runner.run(migrate(configured, data_dir=chdb_dir))
        store = open_store(configured, data_dir=chdb_dir)
        for offset in range(0, SPANS_COUNT, 100):
            runner.run(store_record(store, spans[offset : offset + 100], offset=offset))
        runner.run(store_record(store, spans[:50], project_id=OTHER_PROJECT_ID))
        project = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=3600.0)
        yield Corpus(runner, project)
        runner.run(store.close())


def _id(answer: dict[str, Any]) -> tuple[str, str]:
    return answer["trace_id"], answer["span_id"]


PATHS = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=4).map(".".join) | st.sampled_from(
    [
        "ag",
        "ag.type",
        "ag.type.trace",
        "ag.type.span",
        "ag.data",
        "ag.data.outputs",
        "ag.metrics",
        "ag.metrics.tokens",
        "ag.metrics.duration.cumulative",
        "ag.metrics.tokens.incremental.total",
        "ag.metrics.errors.incremental",
        "ag.metrics.tokens.cumulative",
        "ag.metrics.tokens.cumulative.total",
        "ag.metrics.tokens.cumulative.other",
        "ag.metrics.tokens.cumulative.total.below",
        "ag.metrics.costs.cumulative",
        "ag.metrics.costs.cumulative.prompt",
        "ag.metrics.errors.cumulative",
        "ag.metrics.errors.cumulative.",
        "attributes.a",
        "attributes.0.0",
        "name",
        "version",
        "a\0b",
        "nowhere",
    ]
)
NUMBER = st.sampled_from(NUMBERS) | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.sampled_from(TEXTS) | st.text(max_size=3)
SCALAR = st.sampled_from(SCALARS) | NUMBER | TEXT
VALUE = st.recursive(
    SCALAR | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=5,
)
TIME = st.sampled_from(
    [
        "2026-05-28T20:26:40Z",
        "2026-05-28T20:26:41",
        "2026-05-28T22:26:42.000001+02:00",
        "2026-05-28",
        1780000000,
        1780000000123,
        "1780000000123456",
        START_NS,
        START_NS + 1_123_456_789,
    ]
)
SPAN_ID = st.integers(1, SPANS_COUNT).map(lambda number: f"{number:016x}") | st.just("0x0000000000000002")
TRACE_ID = st.integers(1, 40).map(lambda number: f"{number:02X}" * 16)
ORDERED = ("eq", "neq", "gt", "gte", "lt", "lte")


def _scalar_of(kind: Kind, values: tuple[str, ...]) -> st.SearchStrategy[Any]:
    match kind:
        case Kind.TRACE_ID:
            return TRACE_ID
        case Kind.SPAN_ID:
            return SPAN_ID
        case Kind.ENUM:
            return st.sampled_from(values)
        case Kind.TIME:
            return TIME
        case Kind.UUID:
            return st.uuids().map(str)
        case _:
            return SCALAR


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    json_field = st.sampled_from(["attributes", "attributes", "resource", "scope"]).map(FIELDS.__getitem__)
    any_field = st.sampled_from([field for field in FIELDS.values() if field.kind in SUPPORTED_KINDS])
    field = draw(json_field | any_field)
    legal = [name for name in SUPPORTED_OPERATORS if name in LEGAL_OPERATORS[field.kind]]
    operator = str(draw(st.sampled_from(legal)))
    condition: dict[str, Any] = {"field": field.name, "operator": operator}
    if field.kind is Kind.JSON:
        condition["key"] = draw(PATHS)
    scalar = _scalar_of(field.kind, field.values)
    if operator in ("is", "is_not"):
        nothing = st.nothing() if field.is_required else st.none()
        condition["value"] = draw(VALUE if field.kind is Kind.JSON else scalar | nothing)
    elif operator in ORDERED:
        condition["value"] = draw(TIME if field.kind is Kind.TIME else NUMBER | TEXT)
    elif operator == "btwn":
        ends = TIME if field.kind is Kind.TIME else draw(st.sampled_from([NUMBER, TEXT]))
        condition["value"] = draw(st.lists(ends, min_size=2, max_size=2))
    elif operator in ("in", "not_in"):
        condition["value"] = draw(st.lists(scalar, max_size=4))
        condition["options"] = {"all": draw(st.booleans())}
    return condition


SUM = st.sampled_from([0, 1, 2, 3, 5, 6, 7, 0.5, 5.5, 10, "5", None])
SUMS = st.dictionaries(st.sampled_from(["prompt", "completion", "total", "other"]), SUM, max_size=2)
CUMULATIVE = st.fixed_dictionaries({"cumulative": SUMS})


@st.composite
def sum_conditions(draw: st.DrawFn) -> dict[str, Any]:
    """Conditions that a root's sums decide."""
    metric = draw(st.sampled_from(["tokens", "costs", "errors"]))
    amount = "" if metric == "errors" else draw(st.sampled_from([".prompt", ".completion", ".total", ".other"]))
    number = SUM.filter(lambda value: value is not None)
    key, operator, value = draw(
        st.tuples(st.just(f"ag.metrics.{metric}.cumulative{amount}"), st.sampled_from(ORDERED), number)
        | st.tuples(st.just(f"ag.metrics.{metric}.cumulative{amount}"), st.sampled_from(["is", "is_not"]), SUM)
        | st.tuples(
            st.just(f"ag.metrics.{metric}.cumulative{amount}"), st.just("in"), st.lists(number, min_size=1, max_size=3)
        )
        | st.tuples(st.just(f"ag.metrics.{metric}.cumulative"), st.just("is"), SUMS)
        | st.tuples(st.just(f"ag.metrics.{metric}"), st.just("is"), CUMULATIVE)
        | st.tuples(st.just("ag"), st.just("is"), CUMULATIVE.map(lambda sums: {"metrics": {metric: sums}}))
    )
    return {"field": "attributes", "key": key, "operator": operator, "value": value}


FILTERS = st.recursive(
    conditions() | sum_conditions(),
    lambda inner: st.fixed_dictionaries(
        {"operator": st.sampled_from([str(name) for name in GroupOperator]), "conditions": st.lists(inner, max_size=3)}
    ),
    max_leaves=4,
)


def of_attributes(key: str, operator: str, value: Any = None) -> dict[str, Any]:
    return {"field": "attributes", "key": key, "operator": operator, "value": value}


@pytest.mark.timeout(600)
@settings(max_examples=max(EXAMPLES_COUNT, settings().max_examples))
@given(FILTERS)
@example(of_attributes("a", "eq", 2.0**53))
@example(of_attributes("a", "is", 2.0**64))
@example(of_attributes("a", "in", [1e20, "100000000000000000000"]))
@example(of_attributes("a", "is", [1e20]))
@example(of_attributes("a", "is", {"0": None}))
@example(of_attributes("a.0.1", "exists"))
@example({"operator": "not", "conditions": [of_attributes("nowhere", "neq", 1)]})
@example({"field": "parent_id"})
@example({"field": "span_name", "operator": "in", "value": ["\0", "a"]})
@example(of_attributes("a", "is", "\0"))
@example(of_attributes("a", "is_not", {"\0": None, "a.b": "x"}))
@example(of_attributes("a", "in", ["\0", "x" * 70]))
def test_the_engine_finds_what_the_filter_means(corpus: Corpus, filtering: dict[str, Any]) -> None:
    whole = filtering if "conditions" in filtering else {"conditions": [filtering]}
    node = parse(FilteringModel.model_validate(whole))

    meant = {_id(answer) for answer in corpus.answers if matches(node, answer)}

    event("none" if not meant else "all" if len(meant) == SPANS_COUNT else "some")
    assert corpus.found(node) == meant


def test_the_corpus_is_whole_and_of_one_project(corpus: Corpus) -> None:
    assert len(corpus.answers) == SPANS_COUNT
