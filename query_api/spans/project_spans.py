"""The spans of one project, for one request: statements are ``Select`` values and share the time of the request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final
from uuid import UUID

import pyarrow as pa

from common.clickhouse.select import NO_SETTINGS, EngineSettings, Select, Table
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, ErrorCode, ServiceError
from common.fair_share import current_tenant
from common.settings import QuerySettings
from common.times import Clock
from query_api.filter.sql.sums import USAGE_PREFIX
from query_api.request.route import Request
from query_api.spans.usage import usage_queries

ANY_NUMBER: Final = 2**62
"""Rows: no budget."""

_WITHOUT_CACHE: Final = "\nSETTINGS use_query_condition_cache = 0"
"""The cache knows from an earlier run which granules hold no match, and would hide the plan that found this out."""

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
    select: Select | None
    """``None`` if it only asked for an estimate."""

    statement: Statement
    started_s: float
    elapsed_ms: float
    failure: ErrorCode | None = None


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

    @classmethod
    def of_query(
        cls,
        store: ColumnStore,
        project_id: UUID,
        settings: QuerySettings,
        clock: Clock,
        *,
        has_neighbors: bool,
        is_recorded: bool = False,
    ) -> ProjectSpans:
        """Return the spans of a project with the budget of a query."""
        return cls(
            store,
            project_id,
            clock=clock,
            budget_s=settings.budget_s,
            budget_rows=settings.budget_rows,
            has_neighbors=has_neighbors,
            is_recorded=is_recorded,
        )

    def unrecorded(self) -> ProjectSpans:
        """Return the same spans with the same budget, for statements that are not part of the response."""
        other = copy(self)
        other._ran = None
        return other

    async def select(
        self,
        select: Select,
        *,
        step: str = "statement",
        share: StatementBudget | None = None,
        settings: EngineSettings = NO_SETTINGS,
    ) -> pa.Table:
        """Return the result of a query.

        ``step`` is its name in an explanation; ``settings`` are for the engine and this statement only. Raises
        ``DeadlineExceeded`` if the budget, or its ``share``, is spent, and the errors of ``ColumnStore``.
        """
        statement = self._statement(select, settings)
        with self._recorded(step, select, statement):
            return await self._run(statement, share)

    async def insert(
        self, table: Table, columns: Sequence[str], select: Select, *, settings: EngineSettings = NO_SETTINGS
    ) -> None:
        """Insert the result of a query into a table; raises the same errors as ``select``."""
        into = f"INSERT INTO {table} ({', '.join(columns)})\n"
        await self._store.execute(
            self._statement(select, settings, prefix=into), deadline_s=self._checked_remaining_s()
        )

    async def rows_read(self, select: Select, *, settings: EngineSettings = NO_SETTINGS) -> int:
        """Return how many rows the engine reads for a query; raises the same errors as ``select``."""
        return await self._store.rows_read(self._statement(select, settings), deadline_s=self._checked_remaining_s())

    async def plan(self, select: Select) -> pa.Table:
        """Return the engine's plan of a query, as lines of JSON, of one shard; raises the same errors as ``select``."""
        prefix, suffix = "SELECT explain FROM (EXPLAIN indexes = 1, json = 1 ", f"{_WITHOUT_CACHE})"
        statement = self._statement(select, NO_SETTINGS, prefix=prefix, suffix=suffix)
        return await self._run(replace(statement, reads="one shard"), None)

    async def rows_estimated(self, select: Select, *, share: StatementBudget) -> int:
        """Return how many rows the engine expects to read for a query that does not stop early, from its indexes.

        Raises the same errors as ``select``.
        """
        prefix = "SELECT sum(rows) AS rows_count FROM (EXPLAIN ESTIMATE "
        statement = replace(self._statement(select, NO_SETTINGS, prefix=prefix, suffix=")"), reads="each shard")
        with self._recorded("estimate", None, statement):
            rows = await self._run(statement, share)
        return sum(rows.column("rows_count").to_pylist())

    def _statement(self, select: Select, settings: EngineSettings, *, prefix: str = "", suffix: str = "") -> Statement:
        """Return what the engine runs for a query, with the queries of usage that its filter reads."""
        statement = select.statement(settings, prefix=prefix, suffix=suffix)
        if USAGE_PREFIX in statement.sql:
            usage = usage_queries(statement.sql, select.project_id)
            with_usage = replace(select, queries={**usage, **select.queries})
            return with_usage.statement(settings, prefix=prefix, suffix=suffix)
        return statement

    async def _run(self, statement: Statement, share: StatementBudget | None) -> pa.Table:
        deadline_s = self._checked_remaining_s()
        if share is not None:
            deadline_s = min(deadline_s, share.seconds_max)
            if share.rows_max is not None:
                limits: EngineSettings = {"max_rows_to_read": share.rows_max, "read_overflow_mode": "throw"}
                statement = replace(statement, settings={**statement.settings, **limits})
        return await self._store.select(statement, deadline_s=deadline_s)

    def _checked_remaining_s(self) -> float:
        remaining_s = self.remaining_s
        if remaining_s <= 0:
            raise DeadlineExceeded(f"The query did not end within its budget of {self.budget_s:g} s.")
        return remaining_s

    @contextmanager
    def _recorded(self, step: str, select: Select | None, statement: Statement) -> Iterator[None]:
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
            self._ran.append(ExecutedStatement(step, select, statement, started_s, elapsed_ms, failure))


def project_spans(request: Request, *, explain: bool | None = None) -> ProjectSpans:
    """Return the spans that a request may see, with the budget of a query.

    ``explain`` says whether statements are recorded; by default the member ``explain`` of the body does.
    """
    context = request.context
    return ProjectSpans.of_query(
        context.store,
        request.project_id,
        context.settings.query,
        context.clock,
        has_neighbors=context.keys is not None,
        is_recorded=(getattr(request.body, "explain", None) if explain is None else explain) is True,
    )
