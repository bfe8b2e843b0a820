"""The member ``explain`` of a response: which statements ran, what they read and out of how much, and a hint in words.

Explaining runs statements of its own, within the budget and the project of the request. If the budget ends, the
member says so, and the rest of the response does not change.

With authentication on, the tables hold rows of other projects, and the plan of a statement depends on them: which
parts and granules exist, how many rows a granule at the border of two projects has, and even which indexes are listed
(contract §2). So the engine is not asked for a plan then. The member shows the statements, how long they took, how
many rows the project itself has, and what follows from the filter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, TypeAlias

import orjson
from pydantic import Field

from common.clickhouse.select import Select, Table
from common.errors import ErrorCode, ServiceError
from common.times import format_us, nearest_formattable_us
from query_api.explain.hint import TableRead, hint, static_hint, table_reads
from query_api.filter.language import Node
from query_api.spans.project_spans import ExecutedStatement, ProjectSpans

Json: TypeAlias = dict[str, Any]

Explain: TypeAlias = Annotated[
    bool | None, Field(description="Whether the response explains which statements ran and what they read.")
]
"""The member of a request that asks for an explanation."""

Explanation: TypeAlias = Annotated[
    Json | None, Field(description="The statements that ran and what they read, if the request set `explain`.")
]
"""The member of a response."""

STATEMENTS_SHOWN_MAX: Final = 100
STATEMENTS_EXPLAINED_MAX: Final = 20
"""Explaining one statement runs two more."""

SQL_CHARS_MAX: Final = 20_000
VALUES_SHOWN_MAX: Final = 20
"""Elements of a list that are quoted: a page may have ten thousand ids."""

TEXT_CHARS_MAX: Final = 1_000
SEARCH_STEPS: Final = frozenset({"candidates", "statement"})
"""The steps that the hint is about. The others fetch what these have found."""

_TABLES: Final = (Table.SPANS, Table.VERSIONS)
_LENGTHS: Final = frozenset({"interval_us"})
"""Parameters in microseconds that are not moments."""

_BUDGET_SPENT: Final = "The budget of the query was spent before everything could be explained."


@dataclass(frozen=True, slots=True)
class TableSize:
    """The project's part of a table: rows of every version, and, unless it shares the table, granules and parts."""

    rows: int
    granules: int | None = None
    parts: int | None = None


@dataclass(frozen=True, slots=True)
class _Explained:
    """A statement, and what the engine says about it: ``None`` if it was not asked, or did not answer."""

    executed: ExecutedStatement
    reads: Sequence[TableRead] | None = None
    granules_read: int | None = None
    rows_read_max: int | None = None


async def explained(spans: ProjectSpans, filtering: Node | None = None) -> bytes:
    """Return the explanation of the statements of ``spans`` as JSON. Never fails. The hint is about ``filtering``.

    The members are ``statements_count``, ``statements``, and, where known, ``of_project``, ``hint``, ``incomplete``.
    """
    executed = spans.ran
    engine = _Engine(spans.unrecorded())
    statements: list[_Explained] = []
    incomplete: str | None = None
    try:
        if spans.has_neighbors:
            engine.of_project["spans"] = TableSize(rows=await engine.own_rows())
        else:
            for statement in executed[:STATEMENTS_EXPLAINED_MAX]:
                statements.append(await engine.explain(statement))  # noqa: PERF401 - what is explained is kept
            if len(executed) > STATEMENTS_EXPLAINED_MAX:
                incomplete = f"Only the first {STATEMENTS_EXPLAINED_MAX} of {len(executed)} statements are explained."
    except ServiceError as error:
        is_spent = error.code is ErrorCode.DEADLINE_EXCEEDED
        incomplete = _BUDGET_SPENT if is_spent else f"The engine did not explain everything ({error.code})."
    statements += [_Explained(statement) for statement in executed[len(statements) : STATEMENTS_SHOWN_MAX]]
    member = {
        "statements_count": len(executed),
        "statements": [_statement_json(statement) for statement in statements],
        "of_project": {table: _present(asdict(size)) for table, size in engine.of_project.items()} or None,
        "hint": static_hint(filtering) if spans.has_neighbors else _hint(statements, filtering),
        "incomplete": incomplete,
    }
    return orjson.dumps(_present(member), default=str)


class _Engine:
    """Asks the engine about statements, and remembers the sizes of the tables that they read."""

    def __init__(self, spans: ProjectSpans) -> None:
        self._spans = spans
        self.of_project: dict[str, TableSize] = {}

    async def explain(self, executed: ExecutedStatement) -> _Explained:
        """Return the statement with what it reads. A statement that failed is not run again."""
        if executed.select is None:
            return _Explained(executed, (), 0, 0) if executed.failure is None else _Explained(executed, ())
        reads = await self._reads(executed.select)
        if executed.failure is not None:
            return _Explained(executed, reads)
        rows_count = await self._spans.rows_read(executed.select, settings=executed.statement.settings)
        return _Explained(executed, reads, *_whole_granules(rows_count, reads, self.of_project))

    async def own_rows(self) -> int:
        """Count the rows of the project; above some ten thousand the count is approximate.

        Rows at one place count once: a span that is sent again, or stored twice.
        """
        rows = "uniq(start_us, span_id, trace_id, partition_id) AS rows"
        counted = await self._spans.select(Select(self._spans.project_id, Table.SPANS, [rows]))
        rows_count: int = counted.column("rows")[0].as_py()
        return rows_count

    async def _reads(self, select: Select) -> list[TableRead]:
        plan = await self._plan(select)
        for read in table_reads(plan, of_project={}):
            if read.table in _TABLES and read.table not in self.of_project:
                self.of_project[read.table] = await self._size(Table(read.table))
        return table_reads(plan, of_project={table: size.granules or 0 for table, size in self.of_project.items()})

    async def _size(self, table: Table) -> TableSize:
        counted = await self._spans.select(Select(self._spans.project_id, table, ["count() AS rows"]))
        if not (rows := counted.column("rows").to_pylist()[0]):
            return TableSize(0, 0, 0)  # a granule may begin before the rows of a project and end after them
        plan = await self._plan(Select(self._spans.project_id, table, ["project_id"]))
        reads = table_reads(plan, of_project={})
        return TableSize(rows, sum(read.granules for read in reads), sum(read.parts for read in reads))

    async def _plan(self, select: Select) -> bytes:
        plan = await self._spans.plan(select)
        lines = plan.column("explain").to_pylist()
        return b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)


def _whole_granules(
    rows_count: int, reads: Sequence[TableRead], of_project: Mapping[str, TableSize]
) -> tuple[int, int]:
    """Return at most how many of the remaining granules were read, and how many rows of the project these can hold."""
    sizes = [size for read in reads if (size := of_project.get(read.table)) is not None and size.rows]
    rows_of_granule = min((size.rows / (size.granules or 1) for size in sizes), default=1.0)
    granules_count = min(sum(read.granules for read in reads), math.ceil(rows_count / rows_of_granule))
    return granules_count, min(sum(size.rows for size in sizes), math.ceil(granules_count * rows_of_granule))


def _hint(statements: Sequence[_Explained], filtering: Node | None) -> str | None:
    searches = [
        statement for statement in statements if statement.executed.step in SEARCH_STEPS and statement.reads is not None
    ]
    if not searches:
        return None
    reads = [read for statement in searches for read in statement.reads or () if read.table == "spans"]
    known = [statement.granules_read for statement in searches if statement.granules_read is not None]
    return hint(reads, filtering, granules_read=sum(known) if len(known) == len(searches) else None)


def _statement_json(statement: _Explained) -> Json:
    parameters = statement.executed.statement.parameters
    members = {
        "step": statement.executed.step,
        "window": _window(parameters),
        "sql": _shortened(statement.executed.statement.sql, SQL_CHARS_MAX),
        "parameters": {name: _shortened_value(value) for name, value in parameters.items()},
        "elapsed_ms": round(statement.executed.elapsed_ms, 3),
        "failure": _failure(statement.executed.failure),
        "granules_read": statement.granules_read,
        "rows_read_max": statement.rows_read_max,
        "reads": [_read_json(read) for read in statement.reads] if statement.reads is not None else None,
    }
    return _present(members)


def _read_json(read: TableRead) -> Json:
    indexes = [_present(asdict(use)) for use in read.indexes]
    return {**_present(asdict(read)), "indexes": indexes}


def _present(members: Json) -> Json:
    return {name: value for name, value in members.items() if value is not None}


def _window(parameters: Mapping[str, Any]) -> Json | None:
    """Return the times among the values: the bounds of the scan, and where it continues."""
    times = {name: value for name, value in parameters.items() if name.endswith("_us") and name not in _LENGTHS}
    moments = {
        name.removesuffix("_us"): format_us(nearest_formattable_us(value))
        for name, value in times.items()
        if isinstance(value, int)
    }
    return moments or None


def _failure(code: ErrorCode | None) -> str | None:
    if code is None:
        return None
    is_spent = code is ErrorCode.DEADLINE_EXCEEDED
    return "It did not end within its part of the budget." if is_spent else f"It failed ({code})."


def _shortened_value(value: Any) -> Any:
    if isinstance(value, str | bytes):
        return _shortened(value.hex() if isinstance(value, bytes) else value, TEXT_CHARS_MAX)
    if isinstance(value, list | tuple):
        more = len(value) - VALUES_SHOWN_MAX
        return [*map(_shortened_value, value[:VALUES_SHOWN_MAX]), *([f"… and {more:,} more"] if more > 0 else [])]
    return value


def _shortened(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}… and {len(text) - chars_max:,} more characters"
