"""How the trace of a span has settled for the last time (contract §3.6), by a query of all traces of the project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from common.clickhouse.select import Select, Table
from query_api.filter.language import SETTLING_REASONS
from query_api.filter.sql.expressions import Subject

_ANY_PROJECT: Final = UUID(int=0)
"""The text of a query names its project as a parameter, which has the value of the query around it."""

_LAST: Final = {"complete": "max(complete_run) = max(run)", "incomplete": "max(complete_run) < max(run)"}
"""What the settlings of a trace are if the last one has a reason."""


class SettledReason(Subject):
    """The field ``settled``: why the trace settled for the last time; absent if it never has."""

    def exists(self) -> str:
        return _has_settled(SETTLING_REASONS)

    def equals(self, operand: Any) -> str:
        return _has_settled([operand])

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:
        reasons = sorted(set(operands))
        return "0" if not reasons or (is_all and len(reasons) > 1) else _has_settled(reasons)


def typed_reason() -> str:
    """Return the typed text of the field."""
    cases = [f"{_has_settled([reason])}, 's{reason}'" for reason in SETTLING_REASONS]
    return f"multiIf({', '.join(cases)}, '')"


def _has_settled(reasons: Sequence[str]) -> str:
    """Return whether the last settling has one of some reasons, which are those of the language."""
    last = [] if len(set(reasons)) == len(SETTLING_REASONS) else [_LAST[reasons[0]]]
    traces = Select(_ANY_PROJECT, Table.SETTLINGS, ["trace_id"], group_by=["trace_id"], having=last)
    return f"(trace_id IN ({traces}))"
