"""What an explanation shows of statements, with an engine that explains none of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from common.clickhouse.select import Select, Table
from common.clickhouse.store import Statement
from common.errors import ErrorCode, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from query_api.explain.explain import SQL_CHARS_MAX, STATEMENTS_SHOWN_MAX, TEXT_CHARS_MAX, explained
from query_api.spans.project_spans import ExecutedStatement, ProjectSpans
from tests.fakes.clock import ManualClock
from tests.support.api import UntouchedStore

SHOWN_SQL = "SELECT 1\nFROM spans\nWHERE project_id = {project_id:UUID}"


class AwayStore(UntouchedStore):
    """Counts what it is asked and answers nothing."""

    def __init__(self) -> None:
        self.selects_count = 0

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        self.selects_count += 1
        raise Unavailable("ClickHouse is unavailable.")


@pytest.fixture
def store() -> AwayStore:
    return AwayStore()


async def _explained(store: AwayStore, *ran: ExecutedStatement) -> dict[str, Any]:
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=ManualClock(), budget_s=15.0, is_recorded=True)
    spans._ran = list(ran)
    member: dict[str, Any] = orjson.loads(await explained(spans))
    return member


def _ran(column: str = "1", *, failure: ErrorCode | None = None, **parameters: Any) -> ExecutedStatement:
    query = Select(DEFAULT_PROJECT_ID, Table.SPANS, [column], parameters=parameters)
    return ExecutedStatement("candidates", query, query.statement(), started_s=0.0, elapsed_ms=1.25, failure=failure)


async def test_first_statements_are_returned_and_all_are_counted(store: AwayStore) -> None:
    member = await _explained(store, *[_ran()] * (STATEMENTS_SHOWN_MAX + 1))

    assert member["statements_count"] == STATEMENTS_SHOWN_MAX + 1
    assert len(member["statements"]) == STATEMENTS_SHOWN_MAX


async def test_unreachable_engine_is_asked_once(store: AwayStore) -> None:
    member = await _explained(store, *[_ran()] * 30)

    assert store.selects_count == 1
    assert member["incomplete"] == "The engine did not explain everything (unavailable)."
    assert {"of_project", "hint"}.isdisjoint(member)


async def test_estimate_is_not_explained(store: AwayStore) -> None:
    member = await _explained(store, replace(_ran(), select=None))

    assert (store.selects_count, "incomplete" in member) == (0, False)


@pytest.mark.parametrize(("length", "shown"), [(0, ""), (1, "… and 1 more characters")])
async def test_long_texts_are_marked_as_cut(store: AwayStore, length: int, shown: str) -> None:
    text = "x" * (TEXT_CHARS_MAX + length)

    [statement] = (await _explained(store, _ran(text=text, texts=(text,))))["statements"]

    cut = "x" * TEXT_CHARS_MAX + shown
    assert statement["parameters"] == {"project_id": str(DEFAULT_PROJECT_ID), "text": cut, "texts": [cut]}


async def test_long_statement_is_marked_as_cut(store: AwayStore) -> None:
    [short, cut] = (await _explained(store, _ran(), _ran("1" * (SQL_CHARS_MAX + 1))))["statements"]

    assert short["sql"] == SHOWN_SQL
    assert cut["sql"].endswith(f"… and {len(SHOWN_SQL):,} more characters")
    assert len(cut["sql"].partition("…")[0]) == SQL_CHARS_MAX


async def test_window_holds_only_moments(store: AwayStore) -> None:
    moments = _ran(oldest_us=0, newest_us=10**18, interval_us=60_000_000, starts_us=[1, 2], limit=5)

    [with_times, without] = (await _explained(store, moments, _ran(interval_us=1)))["statements"]

    assert with_times["window"] == {"oldest": "1970-01-01T00:00:00Z", "newest": "9999-12-31T23:59:59.999999Z"}
    assert "window" not in without


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (ErrorCode.DEADLINE_EXCEEDED, "It did not end within its part of the budget."),
        (ErrorCode.UNAVAILABLE, "It failed (unavailable)."),
    ],
)
async def test_failed_statement_has_its_failure(store: AwayStore, code: ErrorCode, said: str) -> None:
    [failed, ended] = (await _explained(store, _ran(failure=code), _ran()))["statements"]

    assert failed["failure"] == said
    assert "failure" not in ended
