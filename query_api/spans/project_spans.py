"""The one door to spans: every statement about them goes through it, and carries the project and the time budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from common.clickhouse.store import ColumnStore, Statement
from common.clock import Clock
from common.errors import DeadlineExceeded

OF_PROJECT: Final = "{of_project}"
"""Stands in a statement behind each ``WHERE`` of a table that is read."""

_CONDITION: Final = "project_id = {project_id:UUID}"
_SETTINGS: Final[Mapping[str, str | int | float]] = {
    "precise_float_parsing": 1,  # without it a text read as a double is often one unit off in the last place
    "query_plan_optimize_lazy_materialization": 1,
    # A filter at its limits (256 conditions, six numbers in each path) is a statement of megabytes; the defaults are 256 KiB
    # and 50,000 nodes. What bounds it is the filter's own limits.
    "max_query_size": 64 * 1024 * 1024,
    "max_ast_elements": 5_000_000,
    "max_expanded_ast_elements": 5_000_000,
}


class ProjectSpans:
    """The spans of one project, for one request: statements share its budget of time."""

    def __init__(self, store: ColumnStore, project_id: UUID, *, clock: Clock, budget_s: float) -> None:
        self._store = store
        self._project_id = project_id
        self._clock = clock
        self._budget_s = budget_s
        self._ends_s = clock.monotonic_s() + budget_s

    @property
    def project_id(self) -> UUID:
        """Whose spans these are."""
        return self._project_id

    async def select(self, sql: str, parameters: Mapping[str, Any]) -> pa.Table:
        """The answer of a statement, in which ``{of_project}`` stands once for each table that is read.

        Raises ``DeadlineExceeded`` when the budget is spent, and the errors of ``ColumnStore``.
        """
        if sql.count(OF_PROJECT) != sql.count("FROM span") or OF_PROJECT not in sql:
            raise ValueError("a statement that reads a table without its project")
        remaining_s = self._ends_s - self._clock.monotonic_s()
        if remaining_s <= 0:
            raise DeadlineExceeded(f"The query did not end within its budget of {self._budget_s:g} s.")
        fenced = sql.replace(OF_PROJECT, _CONDITION)
        statement = Statement(fenced, {**parameters, "project_id": str(self._project_id)}, _SETTINGS)
        return await self._store.select(statement, deadline_s=remaining_s)
