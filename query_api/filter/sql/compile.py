"""A filter as SQL over the table ``spans``: the same meaning as ``query_api/filter/matches.py``.

Fields that are columns are here; fields that hold JSON are in ``json.py`` and ``sums.py``, arrays of objects in
``elements.py``, scores in ``scores.py``, ``settled`` in ``settled.py``, ``content`` in ``expressions.py``, shorthands
in ``values.py``. Every condition is 0 or 1 on every row, never null, so that ``NOT`` is exact. Values, paths
included, travel only as typed parameters; the names of columns are constants. The statement around the expression
carries the project.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from common.clickhouse.span_columns import NO_PARENT
from common.errors import InvalidFilter
from common.fair_share import in_thread
from common.span import PROMOTED_TEXTS, SPAN_TYPES, TRACE_TYPES, SpanKind, StatusCode
from common.span_version import IS_RUNNING_SQL
from query_api.filter.language import (
    ATTRIBUTES,
    FIELDS,
    OPERATION,
    SETTLED,
    STATE,
    Condition,
    GroupOperator,
    Kind,
    Node,
)
from query_api.filter.operands import LARGE, estimated_values
from query_api.filter.parse import resolve_times
from query_api.filter.sql.elements import elements_condition
from query_api.filter.sql.expressions import (
    Bounds,
    OfEnded,
    Parameters,
    Subject,
    condition_sql,
    content_condition,
    ordered,
    text_condition,
    time_text,
)
from query_api.filter.sql.json import json_condition
from query_api.filter.sql.scores import scores_condition
from query_api.filter.sql.settled import SettledReason
from query_api.filter.sql.sums import USAGE_BYTES_MAX, USAGE_OF, ag_condition
from query_api.filter.sql.values import OPERATION_TEXT, shorthand_condition
from query_api.filter.text_search import TextSearch


class Compiled(NamedTuple):
    """An expression of type ``UInt8``, and the values of its parameters."""

    sql: str
    parameters: Mapping[str, Any]


EVERY_ROW: Final = Compiled("1", {})
"""The empty filter."""

SQL_BYTES_MAX: Final = 384 * 1024
"""The size of the expression without its values, but with the queries of sums. The engine plans 45 to 200 KB a
second: any 256 usual conditions fit (ADR 0012)."""

VALUES_BYTES_MAX: Final = 8 * 1024 * 1024
"""The size of all values, each counted as often as the expression names it, because the engine inserts it that often:
about 3 MB a second."""

_PLACE: Final = re.compile(r"\{(p[0-9]+):")

_GROUPS: Final[Mapping[GroupOperator, tuple[str, str]]] = {
    GroupOperator.AND: ("", " AND "),
    GroupOperator.OR: ("", " OR "),
    GroupOperator.NOT: ("NOT ", " AND "),
    GroupOperator.NAND: ("NOT ", " AND "),
    GroupOperator.NOR: ("NOT ", " OR "),
}
"""The negation before the members, and what joins them."""


async def compile_node(node: Node, *, now_us: int) -> Compiled:
    """Compile a filter; its relative times count from ``now_us``, microseconds since 1970. Raises what
    ``compile_filter`` raises.

    A filter with many values is compiled in a thread: up to 80 ms (ADR 0014).
    """
    resolved = resolve_times(node, now_us=now_us)
    return compile_filter(resolved) if _size(node) < LARGE else await in_thread(compile_filter, resolved)


def compile_filter(node: Node) -> Compiled:
    """Compile a filter without relative times to an expression over one row of ``spans``.

    Raises ``InvalidFilter`` if the engine would take seconds to plan it.
    """
    parameters = Parameters()
    compiled = Compiled(_node(node, parameters), parameters.values)
    _refuse_costly(compiled)
    return compiled


def _node(node: Node, parameters: Parameters) -> str:
    if isinstance(node, Condition):
        return compile_condition(node, parameters)
    if not node.members:
        return EVERY_ROW.sql
    negation, joint = _GROUPS[node.operator]
    return f"{negation}({joint.join(_node(member, parameters) for member in node.members)})"


def compile_condition(condition: Condition, parameters: Parameters) -> str:
    """Return a condition as an expression that is 0 or 1; ``parameters`` receives its values."""
    match FIELDS[condition.field].kind:
        case Kind.JSON if condition.field == ATTRIBUTES and condition.path[:1] == ("ag",):
            return ag_condition(condition, parameters)
        case Kind.JSON:
            return json_condition(condition, parameters)
        case Kind.SCORES:
            return scores_condition(condition, parameters)
        case Kind.ELEMENTS:
            return elements_condition(condition, parameters)
        case Kind.CONTENT:
            return content_condition(str(condition.operand), parameters)
        case Kind.SHORTHAND:
            return shorthand_condition(condition, parameters)
        case _:
            column = COLUMNS.get(condition.field)  # without a column the field is absent, and every condition false
            return "0" if column is None else condition_sql(condition, column(parameters))


def _refuse_costly(compiled: Compiled) -> None:
    sql_bytes = len(compiled.sql) + USAGE_BYTES_MAX * sum(map(compiled.sql.count, USAGE_OF.values()))
    if sql_bytes > SQL_BYTES_MAX:
        raise InvalidFilter(
            "",
            f"The filter compiles to {sql_bytes} bytes of SQL; at most {SQL_BYTES_MAX} are allowed: use fewer"
            " conditions, or shorter paths with fewer numbers in them.",
        )
    sizes = {name: _bytes_count(value) for name, value in compiled.parameters.items()}
    bytes_count = sum(sizes[name] for name in _PLACE.findall(compiled.sql))
    if bytes_count > VALUES_BYTES_MAX:
        raise InvalidFilter(
            "",
            f"The filter compiles to {bytes_count} bytes of keys and values, each counted as often as the statement"
            f" names it; at most {VALUES_BYTES_MAX} are allowed: use fewer or shorter ones.",
        )


def _bytes_count(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_bytes_count, value))
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(str(value))


def _size(node: Node) -> int:
    return estimated_values(node.operand) if isinstance(node, Condition) else sum(map(_size, node.members))


@dataclass(frozen=True, slots=True)
class _Column(Subject, ABC):
    """A column with one scalar, by default never absent. ``name`` is SQL, the name of the column."""

    parameters: Parameters
    name: str

    def exists(self) -> str:
        return "1"

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:
        values = list(dict.fromkeys(operands))
        if not values or (is_all and len(values) > 1):
            return "0"  # no scalar equals two values at once
        return f"({self._is_one_of(values)})"

    def equals(self, operand: Any) -> str:
        return f"({self._is_one_of([operand])})"

    @abstractmethod
    def _is_one_of(self, values: list[Any]) -> str:
        """Whether the column holds one of ``values``, which are distinct."""


@dataclass(frozen=True, slots=True)
class IdColumn(_Column):
    """An id of 16 bytes; ``absent`` is stored if the span has none."""

    absent: bytes | None = None

    def exists(self) -> str:
        return "1" if self.absent is None else f"({self.name} != {self._id(self.absent.hex())})"

    def equals(self, operand: Any) -> str:
        return f"({self.name} = {self._id(operand)})"

    def _is_one_of(self, values: list[Any]) -> str:
        # A subquery: the engine uses an index for one, but not for an array that is computed.
        ids = f"arrayJoin({self.parameters.texts(values)})"
        return f"{self.name} IN (SELECT toFixedString(unhex({ids}), 16))"

    def _id(self, hex_text: str) -> str:
        return f"toFixedString(unhex({self.parameters.text(hex_text)}), 16)"


@dataclass(frozen=True, slots=True)
class EnumColumn(_Column):
    """One of a few values, never absent. ``stored`` maps the text of responses to the column's value, a ``kind``."""

    kind: str
    stored: Mapping[str, str | int]

    def _is_one_of(self, values: list[Any]) -> str:
        stored = [self.stored[name] for name in values]
        return f"{self.name} IN ({self.parameters.place(f'Array({self.kind})', stored)})"


class RunningState(Subject):
    """The field ``state``: its only value, or absent."""

    def exists(self) -> str:
        return f"({IS_RUNNING_SQL})"

    def equals(self, operand: Any) -> str:  # noqa: ARG002 - the value of an enum is checked before
        return self.exists()

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:  # noqa: ARG002 - likewise
        return self.exists() if operands else "0"


@dataclass(frozen=True, slots=True)
class TimeColumn(_Column):
    """Microseconds since 1970, never absent."""

    def compares(self, bounds: Bounds) -> str:
        compared = [f"{self.name} {sign} {self.parameters.place('Int64', time_us)}" for sign, time_us in bounds]
        return f"({' AND '.join(compared)})"

    def reads(self, search: TextSearch) -> str:
        return text_condition(time_text(self.name), search, self.parameters)

    def _is_one_of(self, values: list[Any]) -> str:
        return f"{self.name} IN ({self.parameters.place('Array(Int64)', values)})"


@dataclass(frozen=True, slots=True)
class TextColumn(_Column):
    """A text; null if the span has none and ``is_nullable``."""

    is_nullable: bool = True

    def exists(self) -> str:
        return f"isNotNull({self.name})" if self.is_nullable else "1"

    def compares(self, bounds: Bounds) -> str:
        typed = f"concat('s', {self.name})"
        return ordered(f"ifNull({typed}, '')" if self.is_nullable else typed, bounds, self.parameters)

    def reads(self, search: TextSearch) -> str:
        return self._or_absent(text_condition(self.name, search, self.parameters))

    def _is_one_of(self, values: list[Any]) -> str:
        return self._or_absent(f"{self.name} IN ({self.parameters.texts(values)})")

    def _or_absent(self, found: str) -> str:
        return f"ifNull({found}, 0)" if self.is_nullable else found


COLUMNS: Final[Mapping[str, Callable[[Parameters], Subject]]] = {
    "trace_id": partial(IdColumn, name="trace_id"),
    "span_id": partial(IdColumn, name="span_id"),
    "parent_id": partial(IdColumn, name="parent_id", absent=NO_PARENT),
    "trace_type": partial(EnumColumn, name="trace_type", kind="String", stored={name: name for name in TRACE_TYPES}),
    "span_type": partial(EnumColumn, name="span_type", kind="String", stored={name: name for name in SPAN_TYPES}),
    "span_kind": partial(EnumColumn, name="kind", kind="UInt8", stored={kind.name: kind.value for kind in SpanKind}),
    "status_code": partial(
        EnumColumn, name="status_code", kind="UInt8", stored={code.name: code.value for code in StatusCode}
    ),
    STATE: lambda _: RunningState(),
    SETTLED: lambda _: SettledReason(),
    "span_name": partial(TextColumn, name="name", is_nullable=False),
    OPERATION: partial(TextColumn, name=OPERATION_TEXT, is_nullable=False),
    "status_message": partial(TextColumn, name="status_message"),
    **{name: partial(TextColumn, name=name) for name in PROMOTED_TEXTS},
    "start_time": partial(TimeColumn, name="start_us"),
    "end_time": lambda parameters: OfEnded(TimeColumn(parameters, name="end_us")),
    "created_at": partial(TimeColumn, name="stored_us"),
}
"""A scalar field that is missing here is never present on a span: ``updated_at``, ``created_by_id`` and others."""
