"""The SQL of each shape of filter as golden files, which are also executed.

``pytest --rewrite-golden`` rewrites them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.select import COMPUTED_COLUMNS, Select
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.times import SystemClock
from query_api.filter.parse import FilteringModel, parse
from query_api.filter.sql.compile import compile_filter
from query_api.pages.page import CANDIDATE_COLUMNS, candidates_of_window
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.versions import Position
from query_api.spans.window import Window
from query_api.spans.windowing import Order

FOLDER = Path(__file__).parents[1] / "golden/sql"
TRACE = "0123456789abcdef0123456789abcdef"
REFERENCE = "019d952f-5945-71b1-b8cb-d6d8e675c18d"


def attribute(operator: str, value: Any = None, *, key: str = "a.b", field: str = "attributes") -> dict[str, Any]:
    return {"field": field, "key": key, "operator": operator, "value": value}


FILTERS: dict[str, list[dict[str, Any]]] = {
    "everything": [],
    "trace_id_is": [{"field": "trace_id", "value": TRACE}],
    "span_id_in": [{"field": "span_id", "operator": "in", "value": ["00000000000000ab", "00000000000000cd"]}],
    "parent_id_is_null": [{"field": "parent_id"}],
    "enum_in": [{"field": "span_kind", "operator": "in", "value": ["SPAN_KIND_SERVER", "SPAN_KIND_CLIENT"]}],
    "name_is_not": [{"field": "span_name", "operator": "is_not", "value": "x' OR 1 = 1 --"}],
    "nullable_text_is": [{"field": "session_id", "value": "s"}],
    "text_order": [{"field": "user_id", "operator": "gte", "value": "m"}],
    "time_btwn": [{"field": "start_time", "operator": "btwn", "value": ["2024-05-01", "2024-05-02"]}],
    "never_present": [{"field": "updated_at", "operator": "gt", "value": "2024-05-01"}],
    "attribute_is_text": [attribute("is", "{x:String}")],
    "attribute_is_text_with_equals_sign": [attribute("is", "x=y")],
    "attribute_is_object": [attribute("is", {"x": 1, "y": {"z": [True, None]}, "w": None})],
    "attribute_is_array_by_index": [attribute("is", ["x", {"y": 1}], key="a.0.b")],
    "attribute_eq_number": [attribute("eq", 5)],
    "attribute_in": [attribute("in", ["x", 1])],
    "attribute_exists": [attribute("not_exists")],
    "attribute_root_sum": [attribute("gt", 100, key="ag.metrics.tokens.cumulative.total")],
    "resource_is": [attribute("is", "checkout", key="attributes.service.name", field="resource")],
    "resource_service_in": [attribute("in", ["checkout", 5], key="service.name", field="resource")],
    "resource_in_by_index": [attribute("in", [1, "x"], key="attributes.a.0", field="resource")],
    "name_contains": [{"field": "span_name", "operator": "contains", "value": "50% {x:String}"}],
    "name_contains_long_text": [{"field": "span_name", "operator": "contains", "value": "é" * 65}],
    "name_startswith_with_case": [
        {"field": "span_name", "operator": "startswith", "value": "Request", "options": {"case_sensitive": True}}
    ],
    "nullable_text_like": [{"field": "session_id", "operator": "like", "value": r"50\%_%"}],
    "time_startswith": [{"field": "start_time", "operator": "startswith", "value": "2024-05-01T12"}],
    "attribute_matches": [attribute("matches", "tr.e|^5$")],
    "attribute_contains_exactly": [
        {**attribute("contains", "x"), "options": {"case_sensitive": True, "exact_match": True}}
    ],
    "attribute_has": [attribute("has", "x")],
    "attribute_has_object": [attribute("has", {"x": 1})],
    "attribute_root_sum_startswith": [attribute("startswith", 1, key="ag.metrics.tokens.cumulative.total")],
    "resource_endswith": [attribute("endswith", 5, key="attributes.a", field="resource")],
    "resource_has": [attribute("has_not", "x", key="attributes", field="resource")],
    "references_in": [
        {"field": "references", "operator": "in", "value": [{"id": REFERENCE}, {"slug": "a", "version": 1}]}
    ],
    "references_all": [
        {
            "field": "references",
            "operator": "in",
            "value": [{"id": REFERENCE}, {"attributes": {"key": "application"}}],
            "options": {"all": True},
        }
    ],
    "events_has": [{"field": "events", "operator": "has", "key": "attributes.exception.message", "value": "it's"}],
    "links_exist": [{"field": "links", "operator": "exists"}, {"field": "hashes", "operator": "not_in", "value": [{}]}],
    "content_contains": [{"field": "content", "operator": "contains", "value": 'Checkout "card declined" -retry'}],
    "duration_gt": [{"field": "duration", "operator": "gt", "value": 250}],
    "duration_contains": [{"field": "duration", "operator": "contains", "value": "5"}],
    "service_is": [{"field": "service", "value": "checkout"}],
    "model_is": [{"field": "model", "value": "gpt-4.1"}],
    "model_exists": [{"field": "model", "operator": "exists"}],
    "provider_like": [{"field": "provider", "operator": "like", "value": "open%"}],
    "session_is": [{"field": "session", "value": "s-1"}],
    "tokens_btwn": [{"field": "tokens", "operator": "btwn", "value": [100, 200]}],
    "cost_in": [{"field": "cost", "operator": "in", "value": [0.5, "0.5"]}],
    "groups": [
        {"operator": "or", "conditions": [attribute("is", 1), {"field": "span_name", "value": "x"}]},
        {"operator": "nor", "conditions": [attribute("is", 2), {"operator": "not"}]},
    ],
}
WINDOWS = {
    "window_descending": Window(newest_us=2, oldest_us=1, rate_percent=50),
    "window_ascending": Window(order=Order.ASCENDING, newest_us=2, oldest_us=1),
    "window_descending_after": Window(newest_us=2, oldest_us=1, after=Position(2, b"\x01" * 16, b"\x02" * 16)),
    "window_ascending_after": Window(
        order=Order.ASCENDING, newest_us=2, oldest_us=1, after=Position(2, b"\x01" * 16, b"\x02" * 16)
    ),
}
STATEMENTS = {
    **{name: (conditions, Window()) for name, conditions in FILTERS.items()},
    **{name: ([], window) for name, window in WINDOWS.items()},
}


class Engine:
    """A store that executes statements on empty tables."""

    def __init__(self, runner: asyncio.Runner, spans: ProjectSpans) -> None:
        self._runner = runner
        self._spans = spans

    def rows_count(self, query: Select) -> int:
        count: int = self._runner.run(self._spans.select(query)).num_rows
        return count


@pytest.fixture(scope="module")
def engine(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> Iterator[Engine]:
    configured = chdb_settings()
    with asyncio.Runner() as runner:
        runner.run(migrate(configured, data_dir=chdb_dir))
        store = open_store(configured, data_dir=chdb_dir)
        yield Engine(runner, ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=600.0))
        runner.run(store.close())


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_equals_its_golden_file_and_executes(
    name: str, engine: Engine, request: pytest.FixtureRequest
) -> None:
    conditions, window = STATEMENTS[name]
    matching = compile_filter(parse(FilteringModel.model_validate({"conditions": conditions})))
    order = Position._fields
    query = candidates_of_window(DEFAULT_PROJECT_ID, CANDIDATE_COLUMNS, matching, window, count=10, order_by=order)
    sql = str(query)
    for expression in COMPUTED_COLUMNS.values():
        sql = sql.replace(f"{expression} AS", "… AS")
    text = _with_values(sql, dict(query.parameters)) + "\n"
    golden = FOLDER / f"{name}.sql"
    if request.config.getoption("--rewrite-golden"):
        golden.write_text(text)

    assert text == golden.read_text()
    assert engine.rows_count(query) == 0


def test_every_golden_file_has_a_statement() -> None:
    assert {path.stem for path in FOLDER.glob("*.sql")} == set(STATEMENTS)


def test_user_text_never_becomes_sql() -> None:
    hostile = 'it\'s \\ {p1:String} %(x)s `q` "d"; --'
    conditions = [
        attribute("is", {hostile: [hostile]}, key=hostile),
        {"field": "span_name", "value": hostile},
        attribute("has", hostile),
        {"field": "span_name", "operator": "like", "value": hostile},
        {"field": "events", "operator": "in", "value": [{"name": hostile, f"attributes.{hostile}": hostile}]},
        {"field": "content", "operator": "contains", "value": hostile},
    ]
    matching = compile_filter(parse(FilteringModel.model_validate({"conditions": conditions})))

    assert "it's" not in matching.sql
    assert 'd"; --' not in matching.sql


def _with_values(sql: str, parameters: dict[str, Any]) -> str:
    values = "".join(f"-- {name} = {orjson.dumps(value).decode()}\n" for name, value in parameters.items())
    return f"{values}{sql}"
