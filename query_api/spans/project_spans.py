"""The only way to spans: each statement runs here, with its project and the time budget of a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

import pyarrow as pa

from common.clickhouse.store import ColumnStore, Statement
from common.clock import Clock
from common.errors import DeadlineExceeded, ErrorCode, ServiceError
from query_api.request.route import Request
from query_api.spans.tables import OF_PROJECT, require_project
from query_api.spans.usage import USAGE_OF_PROJECT

ANY_NUMBER: Final = 2**62
"""Rows: no budget."""

EngineSettings: TypeAlias = Mapping[str, str | int | float]

_CONDITION: Final = "project_id = {project_id:UUID}"
_SETTINGS: Final[EngineSettings] = {
    "precise_float_parsing": 1,  # without it a text parsed as a double is often off in the last digit
    "query_plan_optimize_lazy_materialization": 1,
    # A filter at its limits (256 conditions, six numbers in each path) is a statement of megabytes; the defaults are
    # 256 KiB and 50,000 nodes. What bounds it is the filter's own limits.
    "max_query_size": 64 * 1024 * 1024,
    "max_ast_elements": 5_000_000,
    "max_expanded_ast_elements": 5_000_000,
}
_NO_SETTINGS: Final[EngineSettings] = {}


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


class ProjectSpans:
    """The spans of one project, for one request: its statements share a budget of time.

    ``budget_rows`` is the number of rows that may be read to find what a page returns; searches divide it among their
    statements. ``has_neighbours``: the tables hold other projects too. With ``is_recorded`` every statement is kept
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
        has_neighbours: bool = False,
        is_recorded: bool = False,
    ) -> None:
        self._store = store
        self._project_id = project_id
        self._clock = clock
        self.budget_s: Final = budget_s
        self.budget_rows: Final = budget_rows
        self.has_neighbours: Final = has_neighbours
        self._ends_s = clock.monotonic_s() + budget_s
        self._ran: list[ExecutedStatement] | None = [] if is_recorded else None

    @property
    def project_id(self) -> UUID:
        """The project."""
        return self._project_id

    @property
    def remaining_s(self) -> float:
        """The rest of the budget in seconds; zero or less when it is spent."""
        return self._ends_s - self._clock.monotonic_s()

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
        settings: EngineSettings = _NO_SETTINGS,
    ) -> pa.Table:
        """Return the result of a statement that names tables as ``read_from`` does.

        ``step`` is its name in an explanation; ``settings`` are for the engine and this statement only. Raises
        ``DeadlineExceeded`` if the budget, or its ``share``, is spent, and the errors of ``ColumnStore``.
        """
        with self._recorded(step, sql, parameters):
            statement, remaining_s = self._bounded(sql, parameters)
            if share is not None:
                settings = {**settings, **_rows_bound(share)}
                remaining_s = min(remaining_s, share.seconds_max)
            statement = replace(statement, settings={**statement.settings, **settings})
            return await self._store.select(statement, deadline_s=remaining_s)

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> None:
        """Run a statement without a result, under the same condition on the project; raises the same errors as
        ``select``.
        """
        statement, remaining_s = self._bounded(sql, parameters)
        await self._store.execute(statement, deadline_s=remaining_s)

    async def rows_read(self, sql: str, parameters: Mapping[str, Any]) -> int:
        """Return how many rows the engine reads for a statement; raises the same errors as ``select``."""
        statement, remaining_s = self._bounded(sql, parameters)
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

    def _bounded(self, sql: str, parameters: Mapping[str, Any]) -> tuple[Statement, float]:
        """Return the statement with the condition on the project, and the seconds that are left for it."""
        remaining_s = self.remaining_s
        if remaining_s <= 0:
            raise DeadlineExceeded(f"The query did not end within its budget of {self.budget_s:g} s.")
        values = {**parameters, "project_id": str(self._project_id)}
        return Statement(fenced(sql), values, _SETTINGS), remaining_s

    @contextmanager
    def _recorded(self, step: str, sql: str, parameters: Mapping[str, Any]) -> Iterator[None]:
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
            self._ran.append(ExecutedStatement(step, sql, parameters, started_s, elapsed_ms, failure))


def _rows_bound(share: StatementBudget) -> EngineSettings:
    return {} if share.rows_max is None else {"max_rows_to_read": share.rows_max, "read_overflow_mode": "throw"}


def fenced(sql: str) -> str:
    """Return the text of a statement as it is run. Raises ``ValueError`` if it names a table without its project."""
    for placeholder, query in USAGE_OF_PROJECT.items():
        sql = sql.replace(placeholder, query)
    require_project(sql)
    return sql.replace(OF_PROJECT, _CONDITION)


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
        has_neighbours=context.keys is not None,
        is_recorded=(getattr(request.body, "explain", None) if explain is None else explain) is True,
    )
