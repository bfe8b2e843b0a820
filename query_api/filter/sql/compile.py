"""A filter as SQL over the table ``spans``: the same meaning as ``query_api/filter/matches.py``.

Every condition is 0 or 1 on every row, never null, so that ``NOT`` is exact. Values, paths included, travel only as
typed parameters; the names of columns are constants. The statement around the expression carries the project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from common.errors import InvalidFilter
from common.threads import in_thread
from query_api.filter.ast import Condition, GroupOperator, Node
from query_api.filter.fields import ATTRIBUTES, FIELDS, Kind
from query_api.filter.sql.columns import COLUMNS
from query_api.filter.sql.elements import elements_condition
from query_api.filter.sql.json import json_condition
from query_api.filter.sql.parameters import Parameters
from query_api.filter.sql.subject import condition_sql
from query_api.filter.sql.sums import attributes_condition
from query_api.filter.sql.text import content_condition
from query_api.filter.totals import LARGE, estimated_values


class Compiled(NamedTuple):
    """An expression of type ``UInt8``, and the values of its parameters."""

    sql: str
    parameters: Mapping[str, Any]


EVERY_ROW: Final = Compiled("1", {})
"""The empty filter."""

SQL_BYTES_MAX: Final = 384 * 1024
"""Of the expression without its values. The engine plans about 150 KB a second: any 256 usual conditions fit (ADR
0012)."""

VALUES_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of all values, each as often as the expression names it, because the engine inserts it that often: about 3 MB a
second."""

_PLACE: Final = re.compile(r"\{(p[0-9]+):")

_GROUPS: Final[Mapping[GroupOperator, tuple[str, str]]] = {
    GroupOperator.AND: ("", " AND "),
    GroupOperator.OR: ("", " OR "),
    GroupOperator.NOT: ("NOT ", " AND "),
    GroupOperator.NAND: ("NOT ", " AND "),
    GroupOperator.NOR: ("NOT ", " OR "),
}
"""The negation before the members, and what joins them."""


async def compile_node(node: Node) -> Compiled:
    """Return ``compile_filter(node)``; a filter with many values is compiled in a thread: up to 80 ms (ADR 0014)."""
    return compile_filter(node) if _size(node) < LARGE else await in_thread(compile_filter, node)


def compile_filter(node: Node) -> Compiled:
    """Compile a filter to an expression over one row of ``spans``.

    Raises ``InvalidFilter`` if the engine would take seconds to plan it.
    """
    parameters = Parameters()
    compiled = Compiled(_node(node, parameters), parameters.values)
    _refuse_costly(compiled)
    return compiled


def _node(node: Node, parameters: Parameters) -> str:
    if isinstance(node, Condition):
        return _condition(node, parameters)
    if not node.members:
        return EVERY_ROW.sql
    negation, joint = _GROUPS[node.operator]
    return f"{negation}({joint.join(_node(member, parameters) for member in node.members)})"


def _condition(condition: Condition, parameters: Parameters) -> str:
    match FIELDS[condition.field].kind:
        case Kind.JSON if condition.field == ATTRIBUTES:
            return attributes_condition(condition, parameters)
        case Kind.JSON:
            return json_condition(condition, parameters)
        case Kind.ELEMENTS:
            return elements_condition(condition, parameters)
        case Kind.CONTENT:
            return content_condition(str(condition.operand), parameters)
        case _:
            column = COLUMNS.get(condition.field)  # without a column the field is absent, and every condition false
            return "0" if column is None else condition_sql(condition, column(parameters))


def _refuse_costly(compiled: Compiled) -> None:
    if len(compiled.sql) > SQL_BYTES_MAX:
        raise InvalidFilter(
            "",
            f"The filter compiles to {len(compiled.sql)} bytes of SQL; at most {SQL_BYTES_MAX} are allowed: use fewer"
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
