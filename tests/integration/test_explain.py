"""The member ``explain`` over the real engine: it is true, within the budget, and reveals no other project."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from multidict import CIMultiDict

from common.clickhouse.migrate import migrate
from common.clickhouse.select import Select, Table
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, InvalidStatement
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import SystemClock
from query_api.explain.explain import STATEMENTS_EXPLAINED_MAX, VALUES_SHOWN_MAX, explained
from query_api.explain.hint import INDEXED_FIELDS
from query_api.filter.language import EVERYTHING, Condition, Operator
from query_api.pages.spans import SpansQuery
from query_api.queries.saved import query_spans
from query_api.request.json_body import read_body
from query_api.request.route import Request
from query_api.spans.project_spans import ProjectSpans
from tests.fakes.faulty_store import Fault, FaultyStore
from tests.support.api import KnownKeys, context_of
from tests.support.feed import settle
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, store_record
from tests.support.stores import opened_store

COPIES_COUNT = 20_000
COPIES = f"""
INSERT INTO spans SELECT * REPLACE
(
    start_us + (n + 1) * 1000000 AS start_us,
    CAST(unhex(repeat(leftPad(hex(n + 2), 16, '0'), 2)), 'FixedString(16)') AS span_id,
    version + (n + 1) * 131072 AS version,
    mapApply((path, leaf) -> (path, if(path = 'number', concat('n', toString(n)), leaf)), leaves) AS leaves
)
FROM spans ARRAY JOIN range({COPIES_COUNT}) AS n
"""
ALL_STARTS = Select(DEFAULT_PROJECT_ID, Table.SPANS, ["start_us"])
ONE_START = replace(ALL_STARTS, limit=1)


@pytest.fixture(scope="module")
def filled(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    """A database with twenty thousand spans of each of two projects, a second apart, in one part."""
    configured = chdb_settings()

    async def fill() -> None:
        async with _opened(configured, chdb_dir) as store:
            for project_id in (DEFAULT_PROJECT_ID, OTHER_PROJECT_ID):
                await store_record(store, [_span(0)], project_id=project_id)
            await store.execute(Statement(COPIES), deadline_s=60.0)
            await _merge(store)

    asyncio.run(fill())
    return configured


@pytest.fixture
async def store(filled: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    async with opened_store(filled, data_dir=chdb_dir) as store:
        yield store


@asynccontextmanager
async def _opened(configured: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    await migrate(configured, data_dir=chdb_dir)
    async with opened_store(configured, data_dir=chdb_dir) as store:
        yield store


async def _merge(store: ColumnStore) -> None:
    for table in ("spans", "span_versions"):
        await store.execute(Statement(f"OPTIMIZE TABLE {table} FINAL"), deadline_s=60.0)


def _span(number: int) -> Span:
    start_ns = START_NS + number * 1_000_000_000
    return Span(
        trace_id=(1).to_bytes(16, "big"),
        span_id=(1 + abs(number)).to_bytes(8, "big") * 2,
        parent_id=None,
        start_ns=start_ns,
        end_ns=start_ns + 1_000,
        name="common",
        kind=1,
        status_code=0,
        status_message=None,
        attributes={"number": number},
    )


async def _explain(
    store: ColumnStore, project_id: UUID = DEFAULT_PROJECT_ID, *, keys: KnownKeys | None = None, **body: Any
) -> dict[str, Any]:
    member: dict[str, Any] = (await _query(store, project_id, keys=keys, explain=True, **body))["explain"]
    return member


async def _query(
    store: ColumnStore, project_id: UUID = DEFAULT_PROJECT_ID, *, keys: KnownKeys | None = None, **body: Any
) -> dict[str, Any]:
    context = context_of(store=store, clock=SystemClock(), keys=keys)
    model = read_body(SpansQuery, orjson.dumps(body), content_type=None, required=False)
    response = await query_spans(Request(context, project_id, {}, None, model, CIMultiDict()))
    found: dict[str, Any] = orjson.loads(response.body)
    return found


def _where(field: str, operator: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"field": field, "operator": operator, "value": value, **more}]}


async def test_response_has_no_explain_member_by_default(store: ColumnStore) -> None:
    for body in ({}, {"explain": False}, {"explain": None}):
        assert "explain" not in await _query(store, **body)


async def test_explain_does_not_change_the_result(store: ColumnStore) -> None:
    filtering = _where("attributes", "is", 7, key="number")

    response = await _query(store, filtering=filtering, explain=True)
    del response["explain"]

    assert response == await _query(store, filtering=filtering)


async def test_explain_returns_each_statement_as_it_ran(store: ColumnStore) -> None:
    member = await _explain(store, filtering=_where("span_name", "is", "common"), windowing={"limit": 1})

    assert member["statements_count"] == len(member["statements"])
    steps = [statement["step"] for statement in member["statements"]]
    assert steps[0] == "candidates"
    assert {"latest versions", "rows"} <= set(steps)
    for statement in member["statements"]:
        assert statement["elapsed_ms"] > 0
        assert statement["sql"].count("project_id = {project_id:UUID}") == statement["sql"].count("FROM span")
        assert statement["parameters"]["project_id"] == str(DEFAULT_PROJECT_ID)
        await store.select(Statement(statement["sql"], statement["parameters"]), deadline_s=60.0)


async def test_hint_names_an_index_that_excluded_granules(store: ColumnStore) -> None:
    member = await _explain(store, filtering=_where("attributes", "is", 7, key="number"))

    [read] = member["statements"][0]["reads"]
    primary, *others = read["indexes"]
    [index] = [other for other in others if other["name"] == "leaf_pairs_index"]
    assert primary["granules_before"] == index["granules_before"] == member["of_project"]["spans"]["granules"]
    assert 0 < index["granules_after"] == read["granules"] < index["granules_before"]
    assert index["type"] == "text"
    assert "number" in index["condition"]
    left = f"{index['granules_after']} of {index['granules_before']} granules"
    assert member["hint"] == f"The index on attributes left {left}."


async def test_hint_says_what_would_help_a_condition_without_index(store: ColumnStore) -> None:
    hint = (await _explain(store, filtering=_where("status_message", "is", "never")))["hint"]

    assert "Every span of the window was read: no condition could use an index." in hint
    assert "No index holds status_message." in hint


@pytest.mark.parametrize(
    ("field", "value", "index"),
    [
        ("trace_id", "f" * 32, "trace_id_index"),
        ("span_id", "f" * 16, "span_id_index"),
        ("parent_id", "f" * 16, "parent_id_index"),
        ("span_name", "never", "name_index"),
        ("session_id", "never", "session_id_index"),
        ("user_id", "never", "user_id_index"),
        ("agent_id", "never", "agent_id_index"),
        ("resource", "never", "service_name_index"),
    ],
)
@pytest.mark.parametrize("operator", ["is", "in"])
async def test_index_excludes_every_granule_for_an_absent_value(
    store: ColumnStore, field: str, value: str, index: str, operator: str
) -> None:
    values = [value, value[:-1] + "e"] if operator == "in" else value
    key = {"key": "service.name"} if field == "resource" else {}
    member = await _explain(store, filtering=_where(field, operator, values, **key))

    [read] = member["statements"][0]["reads"]
    assert {index["name"]: index["granules_after"] for index in read["indexes"]}[index] == 0
    indexed = "`service.name` of the resource" if field == "resource" else field
    assert member["hint"] == f"The index on {indexed} left 0 of 40 granules."


@pytest.mark.parametrize(("operator", "value"), [("gt", 1), ("contains", "a"), ("lte", "a"), ("btwn", [1, 2])])
async def test_index_on_paths_narrows_a_comparison(store: ColumnStore, operator: str, value: object) -> None:
    left = {}
    for key in ("nowhere", "number"):
        member = await _explain(store, filtering=_where("attributes", operator, value, key=key))
        [read] = member["statements"][0]["reads"]
        left[key] = {index["name"]: index["granules_after"] for index in read["indexes"]}["leaf_paths_index"]

    assert left["nowhere"] == 0 < left["number"]


async def test_full_page_reads_no_more_granules(store: ColumnStore) -> None:
    member = await _explain(store, windowing={"limit": 5})

    granules = member["of_project"]["spans"]["granules"]
    granules_read = member["statements"][0]["granules_read"]
    assert 0 < granules_read < granules
    assert member["hint"] == (
        f"Spans were read in order until the page was full: {granules_read} of {granules} granules."
    )


async def test_bound_is_returned_as_time_and_narrows_the_primary_key(store: ColumnStore) -> None:
    member = await _explain(store, windowing={"oldest": "2026-05-28T20:26:40Z", "newest": "2026-05-28T20:26:50Z"})

    search = member["statements"][0]
    assert search["window"] == {"oldest": "2026-05-28T20:26:40Z", "newest": "2026-05-28T20:26:50Z"}
    assert search["reads"][0]["indexes"][0]["granules_after"] == 1


@pytest.mark.parametrize("bound", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00"])
async def test_bound_beyond_the_calendar_is_returned_as_its_end(store: ColumnStore, bound: str) -> None:
    statements = (await _explain(store, windowing={"newest": bound, "limit": 1}))["statements"]

    assert statements[0]["window"]["newest"] == f"{bound[:-6]}Z"


async def test_project_without_spans_reads_nothing(store: ColumnStore) -> None:
    member = await _explain(store, UUID(int=99))

    assert member["hint"] == "Nothing was read: there are no spans in the window."


async def test_counts_do_not_depend_on_other_projects(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    """Ten spans alone, and the same ten next to spans of other projects: one granule each, without counting other rows."""
    member = {}
    for others_count in (0, 300):
        async with _opened(chdb_settings(), chdb_dir) as own:
            await store_record(own, [_span(number) for number in range(10)])
            others = [_span(number) for number in range(others_count)]
            if others:
                await store_record(own, others, project_id=OTHER_PROJECT_ID)
            await _merge(own)
            member[others_count] = await _explain(own, filtering=_where("span_name", "is", "common"))

    assert _without_times(member[0]) == _without_times(member[300])
    assert member[0]["of_project"]["spans"] == {"rows": 10, "granules": 1, "parts": 1}
    assert str(OTHER_PROJECT_ID) not in str(member)


def _without_times(member: dict[str, Any]) -> dict[str, Any]:
    return {**member, "statements": [{**statement, "elapsed_ms": 0} for statement in member["statements"]]}


BELOW_ID, PROJECT_ID, ABOVE_ID = (UUID(int=number) for number in (0x11, 0x12, 0x13))
"""Projects in the order of the tables: the one in the middle shares a granule with both others."""

QUESTIONS: dict[str, dict[str, Any]] = {
    "everything": {},
    "indexed": {"filtering": _where("attributes", "is", 7, key="number")},
    "not indexed": {"filtering": _where("status_message", "is", "never")},
    "window with spans": {"windowing": {"oldest": "2026-05-28T20:26:39Z", "newest": "2026-05-28T20:26:45Z"}},
    "window beside": {"windowing": {"oldest": "2026-05-28T20:27:00Z", "newest": "2026-05-28T20:28:00Z"}},
    "month without spans": {"windowing": {"oldest": "2026-02-01T00:00:00Z", "newest": "2026-03-01T00:00:00Z"}},
    "feed": {"filtering": _where("attributes", "is", 7, key="number"), "windowing": {"by": "created_at"}},
}


@pytest.mark.parametrize("own_count", [0, 3], ids=["without spans", "with spans"])
async def test_explanation_does_not_depend_on_rows_of_other_projects(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], own_count: int
) -> None:
    """Neighbors may have any number of spans at any time, on one side or both, merged with this project's or not."""
    worlds: list[dict[str, Any]] = []
    for neighbors in ([], [(BELOW_ID, 0, 0)], [(BELOW_ID, 0, 0), (ABOVE_ID, 0, 700)], [(ABOVE_ID, -9_000_000, 7)]):
        async with _opened(chdb_settings(), chdb_dir) as store:
            if own_count:
                await store_record(store, [_span(number) for number in range(own_count)], project_id=PROJECT_ID)
                await settle(store, offset=0)
            for project_id, first, count in neighbors:
                spans = [_span(number) for number in range(first, first + count + 1)]
                await store_record(store, spans, project_id=project_id, offset=5)
            if len(neighbors) != 1:
                await _merge(store)
            worlds.append(
                {
                    name: _without_times(await _explain(store, PROJECT_ID, keys=KnownKeys({}), **body))
                    for name, body in QUESTIONS.items()
                }
            )

    assert worlds[1:] == worlds[:1] * (len(worlds) - 1)
    assert worlds[0]["everything"]["of_project"] == {"spans": {"rows": own_count}}
    assert "The index on attributes can be used." in worlds[0]["indexed"]["hint"]
    assert not any("reads" in statement for statement in worlds[0]["indexed"]["statements"])


@pytest.mark.parametrize("keys", [KnownKeys({}), None], ids=["authentication on", "authentication off"])
async def test_empty_project_between_two_others_is_explained(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], keys: KnownKeys | None
) -> None:
    """The engine has to read the granule that the neighbors share."""
    async with _opened(chdb_settings(), chdb_dir) as store:
        for project_id in (BELOW_ID, ABOVE_ID):
            await store_record(store, [_span(0)], project_id=project_id)
        await _merge(store)
        member = await _explain(store, PROJECT_ID, keys=keys)

    assert member["of_project"]["spans"]["rows"] == 0
    if keys is None:
        assert member["hint"] == "Nothing was read: there are no spans in the window."
        assert member["statements"][0]["granules_read"] == 0


@pytest.mark.parametrize(
    "filtering",
    [
        _where("attributes", "is", 7, key="number"),
        _where("attributes", "gt", 7, key="number"),
        _where("attributes", "contains", "7", key="number"),
        _where("attributes", "in", ["one", "two"], key="number"),
        _where("attributes", "is", {"a": 1}, key="number"),
        _where("content", "contains", "common"),
        _where("span_name", "in", ["common"]),
        _where("trace_id", "is", "f" * 32),
        _where("references", "in", [{"slug": "a"}]),
        _where("resource", "is", "checkout", key="service.name"),
        {"operator": "or", **_where("span_name", "is", "common")},
    ],
    ids=str,
)
async def test_engine_uses_the_indexes_of_the_static_hint(store: ColumnStore, filtering: dict[str, Any]) -> None:
    said = (await _explain(store, keys=KnownKeys({}), filtering=filtering))["hint"]
    [read] = (await _explain(store, filtering=filtering))["statements"][0]["reads"]

    usable = re.findall(r"The index on (.+?) can be used\.", said)
    assert usable
    assert set(usable) <= {INDEXED_FIELDS.get(index["name"]) for index in read["indexes"]}


async def test_hostile_value_is_returned_and_never_becomes_sql(store: ColumnStore) -> None:
    value = "x') OR 1 -- {of_project} \""

    member = await _explain(store, filtering=_where("span_name", "is", value))

    assert value not in member["statements"][0]["sql"]
    assert any(value in shown for shown in member["statements"][0]["parameters"].values())


async def test_long_lists_are_marked_as_cut(store: ColumnStore) -> None:
    spans = _recording(store)
    values = {"starts": list(range(VALUES_SHOWN_MAX + 2))}
    await spans.select(replace(ALL_STARTS, where=["start_us IN ({starts:Array(Int64)})"], parameters=values))

    [statement] = orjson.loads(await explained(spans))["statements"]

    assert statement["parameters"]["starts"] == [*range(VALUES_SHOWN_MAX), "… and 2 more"]


async def test_statements_beyond_the_limit_are_returned_without_plan(store: ColumnStore) -> None:
    spans = _recording(store)
    for _ in range(STATEMENTS_EXPLAINED_MAX + 1):
        await spans.select(ONE_START)

    member = orjson.loads(await explained(spans))

    assert member["statements_count"] == STATEMENTS_EXPLAINED_MAX + 1
    assert ["reads" in statement for statement in member["statements"]] == [True] * STATEMENTS_EXPLAINED_MAX + [False]
    assert member["incomplete"] == "Only the first 20 of 21 statements are explained."


async def test_explaining_is_not_itself_explained(store: ColumnStore) -> None:
    spans = _recording(store)
    await spans.select(ONE_START)

    await explained(spans)

    assert len(spans.ran) == 1


async def test_engine_failure_while_explaining_keeps_the_result(store: ColumnStore) -> None:
    faulty = FaultyStore(store)
    spans = _recording(faulty)
    await spans.select(ONE_START)
    await spans.select(replace(ALL_STARTS, limit=2))
    faulty.select_faults.append(Fault(InvalidStatement("the engine's own words")))

    member = orjson.loads(await explained(spans))

    assert member["incomplete"] == "The engine did not explain everything (internal)."
    assert [statement["sql"][-7:] for statement in member["statements"]] == ["LIMIT 1", "LIMIT 2"]
    assert not any("reads" in statement for statement in member["statements"])


async def test_explaining_shares_the_budget_of_the_query(store: ColumnStore) -> None:
    faulty = FaultyStore(store)
    spans = _recording(faulty)
    await spans.select(ONE_START)
    spans._ends_s = 0.0

    member = orjson.loads(await explained(spans))

    assert member["incomplete"] == "The budget of the query was spent before everything could be explained."
    assert "hint" not in member


async def test_unfinished_statement_is_planned_but_not_run_again(store: ColumnStore) -> None:
    faulty = FaultyStore(store)
    spans = _recording(faulty)
    faulty.select_faults.append(Fault(DeadlineExceeded("max rows: 5, current rows: 8192")))
    with pytest.raises(DeadlineExceeded):
        await spans.select(ONE_START, step="candidates")

    [statement] = orjson.loads(await explained(spans))["statements"]

    assert statement["failure"] == "It did not end within its part of the budget."
    assert statement["reads"]
    assert "granules_read" not in statement


async def test_hint_says_that_negations_have_no_index(store: ColumnStore) -> None:
    filtering = _where("attributes", "is_not", 7, key="number")

    hint = (await _explain(store, filtering=filtering))["hint"]

    assert "`not` (and `is_not`, `not_in`, `has_not`, `not_exists`) cannot use an index" in hint


async def test_scan_without_filter_has_a_hint(store: ColumnStore) -> None:
    spans = _recording(store)
    await spans.select(ALL_STARTS)

    assert orjson.loads(await explained(spans, EVERYTHING))["hint"] == (
        "Every span of the window was read: there is no condition."
    )
    assert "`gt`" in orjson.loads(await explained(spans, Condition("attributes", Operator.GT, 1, ("a",))))["hint"]


def _recording(store: ColumnStore | FaultyStore) -> ProjectSpans:
    return ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=15.0, is_recorded=True)


async def test_statements_are_ordered_by_their_start(store: ColumnStore) -> None:
    spans = _recording(store)
    slow = spans.select(replace(ONE_START, columns=["start_us", "sleep(0.2)"]), step="slow")
    beginning = asyncio.create_task(slow)
    await asyncio.sleep(0.05)
    await spans.select(ONE_START, step="quick")
    await beginning

    assert [statement.step for statement in spans.ran] == ["slow", "quick"]
