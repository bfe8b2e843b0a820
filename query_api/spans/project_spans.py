"""The tables of spans, and the only way to them: each statement has its project and the time budget of a request.

No other file names the tables: a statement reads the rows of one project (contract §2). ``read_from`` writes the FROM
of a statement with the condition on the project, and ``require_project`` rejects a statement that names a table in any
other way. ``queries.sql`` holds the statements whose text is fixed. ``tests/architecture/test_project_tables.py``
checks the source for the same. (The engine's ``additional_table_filters`` would need no text, but makes a statement 1.3
ms slower: the engine analyses every column of the table again.)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import UUID

import pyarrow as pa

from common.clickhouse.computed_columns import with_computed_columns
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, ErrorCode, ServiceError
from common.fair_share import current_tenant
from common.named_sql import load_named_sql
from common.span import Metrics
from common.times import Clock
from query_api.filter.sql.sums import usage_of
from query_api.request.route import Request

OF_PROJECT: Final = "{of_project}"
"""The placeholder of the condition on the project; ``ProjectSpans`` fills it when it runs the statement."""

SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
"""The fixed statements by name. Words in braces without a type are filled by the caller."""


class Table(StrEnum):
    """A table of spans."""

    SPANS = "spans"
    VERSIONS = "span_versions"
    ARRIVALS = "span_arrivals"


_END_OF_SOURCE: Final = r"(?=\s+(?:AND|WHERE|GROUP|ORDER|LIMIT|SETTINGS)\b|\s*\)|\s*$)"
_NAMED_WITH_PROJECT: Final = re.compile(
    rf"\s+(?:\(|(?:{'|'.join(Table)})(?:\s+FINAL)?\s+(?:PRE)?WHERE\s+{re.escape(OF_PROJECT)}{_END_OF_SOURCE})"
)
"""What may follow FROM or JOIN: a subquery, or a table and its project, and nothing that widens it."""

_NAMED_QUERY: Final = re.compile(rf"\s+(\w+){_END_OF_SOURCE}")
_DEFINED_QUERY: Final = re.compile(r"\b(\w+) AS\s*\(\s*SELECT\b")


def read_from(table: Table, *where: str, prewhere: Sequence[str] = (), final: bool = False) -> str:
    """Write ``FROM table …`` with the condition on the project and all of these conditions.

    ``prewhere`` is evaluated first, together with the project, before the columns of ``where`` are read. ``final``:
    merged rows only.
    """
    first = [OF_PROJECT, *prewhere]
    name = f"FROM {table} FINAL" if final else f"FROM {table}"
    if len(first) == 1:
        return f"{name}\nWHERE {_all_of([*first, *where])}"
    rest = f"\nWHERE {_all_of(where)}" if where else ""
    return f"{name}\nPREWHERE {_all_of(first)}{rest}"


def require_project(sql: str) -> None:
    """Raise ``ValueError`` if the statement names a table without its project, or reads no table."""
    sources = [after for keyword in ("FROM", "JOIN") for after in sql.split(keyword)[1:]]
    others = [source for source in sources if not _NAMED_WITH_PROJECT.match(source)]
    if OF_PROJECT not in sql or (others and not _are_defined(others, sql)):
        raise ValueError("The statement reads a table without its project.")


def _are_defined(sources: Iterable[str], sql: str) -> bool:
    """Whether each of these texts after FROM or JOIN begins with the name of a query in a WITH clause of ``sql``."""
    defined = set(_DEFINED_QUERY.findall(sql)).difference(Table)
    names = map(_NAMED_QUERY.match, sources)
    return all(name is not None and name[1] in defined for name in names)


def _all_of(conditions: Iterable[str]) -> str:
    return "\n    AND ".join(f"({condition})" if " OR " in condition else condition for condition in conditions)


ANY_NUMBER: Final = 2**62
"""Rows: no budget."""

EngineSettings: TypeAlias = Mapping[str, str | int | float]

_CONDITION: Final = "project_id = {project_id:UUID}"
NO_SETTINGS: Final[EngineSettings] = {}
STOPPING_EARLY: Final[EngineSettings] = {"read_in_order_use_buffering": 0}
"""For a statement that reads in the order of the table until it has enough rows. By default each part is read ahead of
the merge that puts the parts in order: of a million spans in eight parts, 160,000 rows for 67 matches of one span in
200, instead of 44,000."""


@dataclass(frozen=True, slots=True)
class StatementBudget:
    """The part of the request's budget that one statement may use; the engine ends it beyond that."""

    seconds_max: float
    rows_max: int | None = None
    """Rows read, in all tables together."""


@dataclass(frozen=True, slots=True)
class ExecutedStatement:
    """A statement as ``select`` received it. ``step`` names its purpose; ``failure`` is the error it ended with, if
    any.
    """

    step: str
    sql: str
    parameters: Mapping[str, Any]
    started_s: float
    elapsed_ms: float
    failure: ErrorCode | None = None
    settings: EngineSettings = field(default_factory=dict)


class ProjectSpans:
    """The spans of one project, for one request: its statements share a budget of time.

    ``budget_rows`` is the number of rows that may be read to find what a page returns; searches divide it among their
    statements. ``has_neighbors``: the tables hold other projects too. With ``is_recorded`` every statement is kept
    in ``ran``, so that the request can be explained.
    """

    def __init__(
        self,
        store: ColumnStore,
        project_id: UUID,
        *,
        clock: Clock,
        budget_s: float,
        budget_rows: int = ANY_NUMBER,
        has_neighbors: bool = False,
        is_recorded: bool = False,
    ) -> None:
        self._store = store
        self.project_id: Final = project_id
        self._clock = clock
        self.budget_s: Final = budget_s
        self.budget_rows: Final = budget_rows
        self.has_neighbors: Final = has_neighbors
        self._turn = current_tenant().turn
        self._ends_s = clock.monotonic_s() + budget_s - self._waited_s
        self._ran: list[ExecutedStatement] | None = [] if is_recorded else None

    @property
    def remaining_s(self) -> float:
        """The rest of the budget in seconds; zero or less when it is spent. Waiting for a turn does not count."""
        return self._ends_s + self._waited_s - self._clock.monotonic_s()

    @property
    def _waited_s(self) -> float:
        return 0.0 if self._turn is None else self._turn.waited_s

    @property
    def is_recorded(self) -> bool:
        """Whether statements are recorded."""
        return self._ran is not None

    @property
    def ran(self) -> tuple[ExecutedStatement, ...]:
        """The statements that were run until now, in the order in which they began; empty if they are not recorded."""
        return tuple(sorted(self._ran or (), key=attrgetter("started_s")))

    def unrecorded(self) -> ProjectSpans:
        """Return the same spans with the same budget, for statements that are not part of the response."""
        other = copy(self)
        other._ran = None
        return other

    async def select(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        *,
        step: str = "statement",
        share: StatementBudget | None = None,
        settings: EngineSettings = NO_SETTINGS,
    ) -> pa.Table:
        """Return the result of a statement that names tables as ``read_from`` does.

        ``step`` is its name in an explanation; ``settings`` are for the engine and this statement only. Raises
        ``DeadlineExceeded`` if the budget, or its ``share``, is spent, and the errors of ``ColumnStore``.
        """
        with self._recorded(step, sql, parameters, settings):
            if share is not None and share.rows_max is not None:
                settings = {**settings, "max_rows_to_read": share.rows_max, "read_overflow_mode": "throw"}
            statement, remaining_s = self._bounded(sql, parameters, settings)
            deadline_s = remaining_s if share is None else min(remaining_s, share.seconds_max)
            return await self._store.select(statement, deadline_s=deadline_s)

    async def execute(self, sql: str, parameters: Mapping[str, Any], *, settings: EngineSettings = NO_SETTINGS) -> None:
        """Run a statement without a result, under the same condition on the project; raises the same errors as
        ``select``.
        """
        statement, remaining_s = self._bounded(sql, parameters, settings)
        await self._store.execute(statement, deadline_s=remaining_s)

    async def rows_read(
        self, sql: str, parameters: Mapping[str, Any], *, settings: EngineSettings = NO_SETTINGS
    ) -> int:
        """Return how many rows the engine reads for a statement; raises the same errors as ``select``."""
        statement, remaining_s = self._bounded(sql, parameters, settings)
        return await self._store.rows_read(statement, deadline_s=remaining_s)

    async def rows_estimated(self, sql: str, parameters: Mapping[str, Any], *, share: StatementBudget) -> int:
        """Return how many rows the engine expects to read for a statement that does not stop early, from its indexes.

        Raises the same errors as ``select``.
        """
        rows = await self.select(
            f"SELECT sum(rows) AS rows_count FROM (EXPLAIN ESTIMATE {sql})", parameters, step="estimate", share=share
        )
        rows_count: int = rows.column("rows_count")[0].as_py()
        return rows_count

    def _bounded(self, sql: str, parameters: Mapping[str, Any], settings: EngineSettings) -> tuple[Statement, float]:
        """Return the statement with the condition on the project, and the seconds that are left for it."""
        remaining_s = self.remaining_s
        if remaining_s <= 0:
            raise DeadlineExceeded(f"The query did not end within its budget of {self.budget_s:g} s.")
        values = {**parameters, "project_id": str(self.project_id)}
        return Statement(executable_sql(sql), values, settings), remaining_s

    @contextmanager
    def _recorded(self, step: str, sql: str, parameters: Mapping[str, Any], settings: EngineSettings) -> Iterator[None]:
        if self._ran is None:
            yield
            return
        started_s = self._clock.monotonic_s()
        failure: ErrorCode | None = None
        try:
            yield
        except ServiceError as error:
            failure = error.code
            raise
        finally:
            elapsed_ms = (self._clock.monotonic_s() - started_s) * 1_000
            self._ran.append(ExecutedStatement(step, sql, parameters, started_s, elapsed_ms, failure, settings))


def executable_sql(sql: str) -> str:
    """Return the SQL that the engine runs: with the queries of usage, the condition on the project and the expressions
    of computed columns in the place of their names. Raises ``ValueError`` if it names a table without its project.
    """
    for placeholder, query in USAGE_OF_PROJECT.items():
        sql = sql.replace(placeholder, query)
    require_project(sql)
    return with_computed_columns(sql.replace(OF_PROJECT, _CONDITION))


def project_spans(request: Request, *, explain: bool | None = None) -> ProjectSpans:
    """Return the spans that a request may see, with the budget of a query.

    ``explain`` says whether statements are recorded; by default the member ``explain`` of the body does.
    """
    context = request.context
    settings = context.settings.query
    return ProjectSpans(
        context.store,
        request.project_id,
        clock=context.clock,
        budget_s=settings.budget_s,
        budget_rows=settings.budget_rows,
        has_neighbors=context.keys is not None,
        is_recorded=(getattr(request.body, "explain", None) if explain is None else explain) is True,
    )


def trace_sums_sql(reports: str) -> str:
    """Return a query of ``trace_id`` and the columns of ``Metrics``: what the spans of each trace used together.

    ``reports`` is a query of ``trace_id``, ``span_id``, ``parent_id``, ``usage_is_own`` and the columns of
    ``Metrics``, with one row for each span of these traces.
    """
    return _with_usage(SQL["trace_sums"], reports)


def counted_totals_sql(reports: str) -> str:
    """Return a query of ``trace_id``, ``span_id``, ``counted_tokens`` and ``counted_costs``: what counts of the
    totals of a span.

    Only spans whose totals do not count as a whole have a row. ``reports`` as for ``trace_sums_sql``.
    """
    return _with_usage(SQL["counted_totals"], reports)


def _with_usage(query: str, reports: str) -> str:
    return query.replace("{usage}", SQL["usage"]).replace("{reports}", reports)


def reports_alone(versions: str, metrics: Collection[str]) -> str:
    """Return what spans report of these metrics (``tokens``, ``costs``, ``errors``), for ``trace_sums_sql``.

    ``versions`` is the query ``latest_versions``. Constants for other metrics make the engine read less.
    """
    amounts = (name if name.startswith(tuple(metrics)) else f"0. AS {name}" for name in Metrics._fields)
    columns = ", ".join(("trace_id", "span_id", "parent_id", "usage_is_own", *amounts))
    return f"SELECT {columns} FROM ({versions})"


_OF_PROJECT_VERSIONS: Final = SQL["latest_versions"].replace("{condition}", "1")


USAGE_OF_PROJECT: Final[Mapping[str, str]] = {
    usage_of(metric): trace_sums_sql(reports_alone(_OF_PROJECT_VERSIONS, [metric]))
    for metric in ("tokens", "costs", "errors")
}
"""The queries that a filter names by a placeholder, for every trace of the project."""
