"""A filter as SQL over the table ``spans``: the same meaning as ``query_api/filter/matches.py``, and the only place that makes it.

Every condition is 0 or 1 on every row, never null, so that ``NOT`` is exact. Values, paths included, travel only as
typed parameters; names of columns come from ``fields.py`` alone. The statement around it carries the project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from common.errors import InvalidFilter
from query_api.filter.ast import Condition, Group, GroupOperator, Node, Operator
from query_api.filter.patterns import TEXT_OPERATORS
from query_api.filter.sql import typed_text
from query_api.filter.sql.columns import (
    COLUMNS,
    ContentColumn,
    ElementsColumn,
    EnumColumn,
    IdColumn,
    JsonColumn,
    TextColumn,
    TimeColumn,
)
from query_api.filter.sql.content_conditions import content_condition
from query_api.filter.sql.element_conditions import elements_condition
from query_api.filter.sql.json_conditions import json_condition
from query_api.filter.sql.parameters import Parameters, ids_in
from query_api.filter.sql.rollup_conditions import attributes_condition
from query_api.filter.sql.text_conditions import text_condition


class Compiled(NamedTuple):
    """An expression of type ``UInt8``, and the values of its places."""

    sql: str
    parameters: Mapping[str, Any]


EVERY_ROW: Final = Compiled("1", {})
"""What an empty filter is."""

SQL_BYTES_MAX: Final = 384 * 1024
"""Of the expression without its values. The engine plans about 150 KB a second: any 256 usual conditions fit (ADR 0012)."""

VALUES_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of all values, each as often as the expression names it, because the engine puts it in so often: about 3 MB a second."""

_PLACE: Final = re.compile(r"\{(p[0-9]+):")


def compile_filter(node: Node) -> Compiled:
    """Compile a filter to an expression over one row of ``spans``.

    Raises ``InvalidFilter`` where the engine would take seconds to plan it, however few its conditions are.
    """
    parameters = Parameters()
    compiled = Compiled(_node(node, parameters), parameters.values)
    _refuse_costly(compiled)
    return compiled


def _refuse_costly(compiled: Compiled) -> None:
    if len(compiled.sql) > SQL_BYTES_MAX:
        raise InvalidFilter(
            "",
            f"The filter compiles to {len(compiled.sql)} bytes of SQL; at most {SQL_BYTES_MAX} are legal: use fewer conditions,"
            " or shorter paths with fewer numbers in them.",
        )
    sizes = {name: _bytes_count(value) for name, value in compiled.parameters.items()}
    bytes_count = sum(sizes[name] for name in _PLACE.findall(compiled.sql))
    if bytes_count > VALUES_BYTES_MAX:
        raise InvalidFilter(
            "",
            f"The filter compiles to {bytes_count} bytes of keys and values, each counted as often as the statement names it;"
            f" at most {VALUES_BYTES_MAX} are legal: use fewer or shorter ones.",
        )


def _bytes_count(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_bytes_count, value))
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(str(value))


_GROUPS: Final[Mapping[GroupOperator, tuple[str, str]]] = {
    GroupOperator.AND: ("", " AND "),
    GroupOperator.OR: ("", " OR "),
    GroupOperator.NOT: ("NOT ", " AND "),
    GroupOperator.NAND: ("NOT ", " AND "),
    GroupOperator.NOR: ("NOT ", " OR "),
}


def _node(node: Node, parameters: Parameters) -> str:
    if isinstance(node, Group):
        return _group(node, parameters)
    match COLUMNS.get(node.field):
        case None:
            return "0"  # never there, and every condition of the normal form is false of what is absent
        case IdColumn() as column:
            return _id_condition(node, column, parameters)
        case TextColumn() as column:
            return _text_condition(node, column, parameters)
        case EnumColumn() as column:
            return _enum_condition(node, column, parameters)
        case TimeColumn() as column:
            return _time_condition(node, column, parameters)
        case JsonColumn() as column:
            condition_sql = attributes_condition if node.field == "attributes" else json_condition
            return condition_sql(node, column, parameters)
        case ElementsColumn() as column:
            return elements_condition(node, column, parameters)
        case ContentColumn():
            return content_condition(str(node.operand), parameters)


def _group(group: Group, parameters: Parameters) -> str:
    if not group.members:
        return EVERY_ROW.sql
    negation, joint = _GROUPS[group.operator]
    members = joint.join(_node(member, parameters) for member in group.members)
    return f"{negation}({members})"


def _id_condition(condition: Condition, column: IdColumn, parameters: Parameters) -> str:
    match condition.operator:
        case Operator.EXISTS:
            return "1" if column.absent is None else f"({column.name} != {_id(column.absent.hex(), parameters)})"
        case Operator.IS:
            return f"({column.name} = {_id(condition.operand, parameters)})"
        case _:
            return _is_one_of(condition, f"{column.name} IN {ids_in(parameters.texts(_distinct(condition)))}")


def _id(hex_text: Any, parameters: Parameters) -> str:
    return f"toFixedString(unhex({parameters.text(hex_text)}), 16)"


def _enum_condition(condition: Condition, column: EnumColumn, parameters: Parameters) -> str:
    if condition.operator is Operator.EXISTS:
        return "1"
    stored = [column.stored[name] for name in _distinct(condition)]
    return _is_one_of(condition, f"{column.name} IN ({parameters.place(f'Array({column.kind})', stored)})")


def _time_condition(condition: Condition, column: TimeColumn, parameters: Parameters) -> str:
    operand: Any = condition.operand
    match condition.operator:
        case Operator.EXISTS:
            return "1"
        case Operator.IS | Operator.IN:
            return _is_one_of(condition, f"{column.name} IN ({parameters.place('Array(Int64)', _distinct(condition))})")
        case Operator.BTWN:
            low, high = (parameters.place("Int64", end) for end in operand)
            return f"({column.name} >= {low} AND {column.name} <= {high})"
        case name if name in TEXT_OPERATORS:
            return text_condition(_shown_time(column.name), condition, parameters)
        case order:
            return f"({column.name} {typed_text.SIGNS[order]} {parameters.place('Int64', operand)})"


def _shown_time(time_us: str) -> str:
    """A time as answers show it: six digits of fraction, or none (``common/times.py``)."""
    seconds = f"formatDateTime(fromUnixTimestamp64Micro({time_us}, 'UTC'), '%Y-%m-%dT%H:%i:%S')"
    fraction = f"if({time_us} % 1000000 = 0, '', '.' || leftPad(toString({time_us} % 1000000), 6, '0'))"
    return f"({seconds} || {fraction} || 'Z')"


def _text_condition(condition: Condition, column: TextColumn, parameters: Parameters) -> str:
    name = column.name
    match condition.operator:
        case Operator.EXISTS:
            return f"isNotNull({name})" if column.is_nullable else "1"
        case Operator.IS | Operator.IN:
            found = f"{name} IN ({parameters.texts(_distinct(condition))})"
            return _is_one_of(condition, f"ifNull({found}, 0)" if column.is_nullable else found)
        case operator if operator in TEXT_OPERATORS:
            found = text_condition(name, condition, parameters)
            return f"ifNull({found}, 0)" if column.is_nullable else found
        case order:
            typed = f"ifNull(concat('s', {name}), '')" if column.is_nullable else f"concat('s', {name})"
            return typed_text.ordered(typed, order, condition.operand, parameters)


def _distinct(condition: Condition) -> list[Any]:
    """The values of ``is`` or ``in``, each once."""
    operand: Any = condition.operand
    return list(dict.fromkeys(operand)) if condition.operator is Operator.IN else [operand]


def _is_one_of(condition: Condition, found: str) -> str:
    """``in`` nothing is false, and no scalar equals two different values at once."""
    values = _distinct(condition)
    if not values or (condition.is_all and len(values) > 1):
        return "0"
    return f"({found})"
