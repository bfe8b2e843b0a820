"""From the shape of a filter to its tree: legality, limits, and operands in the form in which they are compared.

Raises ``InvalidFilter`` with the JSON path of what is wrong, as in ``filtering.conditions[1].operator``, what is wrong
with it, and what would be legal. Source: contract §3.2, reference §5.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson

from common.clickhouse.leaves import number_text
from common.errors import InvalidFilter
from common.filter.ast import EVERYTHING, Condition, Group, GroupOperator, Node, Operand, Operator
from common.filter.fields import (
    FIELDS,
    LEGAL_OPERATORS,
    SUPPORTED_KINDS,
    SUPPORTED_OPERATORS,
    Field,
    Kind,
)
from common.filter.models import ConditionModel, FilteringModel
from common.filter.values import INT64_MIN, UINT64_MAX, is_number
from common.ids import parse_span_id, parse_trace_id
from common.times import parse_time_ns

GROUPS_DEPTH_MAX: Final = 16
"""The outermost group is at depth 1."""

CONDITIONS_MAX: Final = 256
LIST_VALUES_MAX: Final = 10_000
VALUE_BYTES_MAX: Final = 64 * 1024
"""Of a text in UTF-8, of anything else as JSON; each value of a list for itself."""

VALUE_DEPTH_MAX: Final = 64
"""Attributes nest 48 levels at most, so that a deeper value would equal nothing."""

VALUE_CONTAINERS_MAX: Final = 256
"""Objects and arrays in one value: each is a clause of the statement that it becomes."""

_NEGATED: Final = {"is_not": "is", "not_in": "in", "not_exists": "exists"}
_ORDERS: Final = frozenset({"eq", "neq", "gt", "gte", "lt", "lte"})


def parse(filtering: FilteringModel | None, *, path: str = "filtering") -> Node:
    """The tree of a filter; ``None`` is the filter without conditions. ``path`` is where it stood in the request."""
    if filtering is None:
        return EVERYTHING
    return _Parser().group(filtering, path, depth=1)


def check_depth(filtering: Any, *, path: str = "filtering") -> None:
    """Refuse a filter, still plain JSON, whose groups nest too deep, before anything walks it by recursion."""
    level, depth = [filtering], 0
    while level:
        depth += 1
        if depth > GROUPS_DEPTH_MAX + 1:  # conditions stand one level below the innermost group
            raise _too_deep(path)
        level = [
            member
            for group in level
            if isinstance(group, dict) and isinstance(group.get("conditions"), list)
            for member in group["conditions"]
        ]


class _Parser:
    """One filter; counts its conditions."""

    def __init__(self) -> None:
        self._conditions_count = 0

    def group(self, model: FilteringModel, path: str, *, depth: int) -> Group:
        if depth > GROUPS_DEPTH_MAX:
            raise _too_deep(path)
        members: list[Node] = []
        for index, member in enumerate(model.conditions):
            at = f"{path}.conditions[{index}]"
            if isinstance(member, FilteringModel):
                members.append(self.group(member, at, depth=depth + 1))
            else:
                members.append(self._condition(member, at))
        return Group(model.operator, tuple(members))

    def _condition(self, model: ConditionModel, path: str) -> Node:
        self._conditions_count += 1
        if self._conditions_count > CONDITIONS_MAX:
            raise InvalidFilter(path, f"more than {CONDITIONS_MAX} conditions in one filter.")
        field = _field(model, path)
        segments = _segments(model, field, path)
        name = str(model.operator)
        positive = _positive(field, segments, model, _NEGATED.get(name, name), path)
        return Group(GroupOperator.NOT, (positive,)) if name in _NEGATED else positive


def _positive(field: Field, segments: tuple[str, ...], model: ConditionModel, name: str, path: str) -> Node:
    value, at = model.value, f"{path}.value"
    if name == "exists":
        if value is not None and field.kind is not Kind.JSON:
            raise InvalidFilter(at, f"'{field.name}' value is not supported for existence operators.")
        return Condition(field.name, Operator.EXISTS, path=segments)
    if name == "is" and value is None:
        if field.is_required:
            raise InvalidFilter(at, f"'{field.name}' is required and thus never null.")
        return Group(GroupOperator.NOT, (Condition(field.name, Operator.EXISTS, path=segments),))
    is_all = name == "in" and model.options is not None and model.options.all is True
    return Condition(field.name, Operator(name), _operand(field, name, value, at), segments, is_all)


def _field(model: ConditionModel, path: str) -> Field:
    field = FIELDS.get(model.field)
    if field is None:
        raise InvalidFilter(f"{path}.field", f"'{model.field[:64]}' is not a field; legal: {', '.join(FIELDS)}.")
    name = model.operator
    legal = LEGAL_OPERATORS[field.kind]
    if name not in legal:
        raise InvalidFilter(f"{path}.operator", f"'{field.name}' does not take '{name}'; legal: {', '.join(legal)}.")
    supported = [each for each in legal if each in SUPPORTED_OPERATORS]
    if field.kind not in SUPPORTED_KINDS:
        fields = ", ".join(each.name for each in FIELDS.values() if each.kind in SUPPORTED_KINDS)
        raise InvalidFilter(f"{path}.field", f"'{field.name}' is not supported yet; supported: {fields}.")
    if name not in supported:
        raise InvalidFilter(f"{path}.operator", f"'{name}' is not supported yet; supported: {', '.join(supported)}.")
    return field


def _segments(model: ConditionModel, field: Field, path: str) -> tuple[str, ...]:
    at = f"{path}.key"
    if field.kind is not Kind.JSON:
        if model.key is not None:
            having = ", ".join(each.name for each in FIELDS.values() if each.kind is Kind.JSON)
            raise InvalidFilter(at, f"'{field.name}' has no keys; fields that have: {having}.")
        return ()
    if model.key is None:
        raise InvalidFilter(
            at, f"'{field.name}' key is required and thus never null: a dotted path, as in ag.type.span."
        )
    _check_size(model.key, at)
    return tuple(model.key.split("."))


def _operand(field: Field, name: str, value: Any, at: str) -> Operand:
    if name in _ORDERS:
        return _comparable(field, value, at)
    if name == "btwn":
        return _ends(field, value, at)
    if name == "in":
        return _list(field, value, at)
    return _reader(field)(value, at)


def _list(field: Field, value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidFilter(at, "a list operator takes a list.")
    if len(value) > LIST_VALUES_MAX:
        raise InvalidFilter(at, f"{len(value)} values; a list holds {LIST_VALUES_MAX} at most.")
    read = _reader(field)
    operands = []
    for index, each in enumerate(value):
        if each is None or isinstance(each, list | dict):
            raise InvalidFilter(f"{at}[{index}]", "a list holds texts, numbers and booleans.")
        operands.append(read(each, f"{at}[{index}]"))
    return operands


def _ends(field: Field, value: Any, at: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidFilter(at, "'btwn' takes a list of exactly two values.")
    ends = [_comparable(field, each, f"{at}[{index}]") for index, each in enumerate(value)]
    if isinstance(ends[0], str) is not isinstance(ends[1], str):
        raise InvalidFilter(at, "'btwn' takes two numbers or two texts, not one of each.")
    return ends


def _comparable(field: Field, value: Any, at: str) -> str | float:
    if field.kind is Kind.TIME:
        return _time(value, at)
    if isinstance(value, str) or is_number(value):
        _check_size(value, at)
        comparable: str | float = value
        return comparable
    raise InvalidFilter(at, "a numeric operator takes a number or a text.")


def _trace_id(value: Any, at: str) -> str:
    return _id(value, at, parse_trace_id)


def _span_id(value: Any, at: str) -> str:
    return _id(value, at, parse_span_id)


def _id(value: Any, at: str, read: Callable[[str], bytes]) -> str:
    if not isinstance(value, str):
        raise InvalidFilter(at, "an id is a text of hexadecimal digits.")
    try:
        return read(value).hex()
    except ValueError as exc:
        raise InvalidFilter(at, str(exc)) from exc


def _uuid(value: Any, at: str) -> str:
    try:
        return str(UUID(value))
    except (AttributeError, TypeError, ValueError) as exc:
        raise InvalidFilter(at, "a user is named by a UUID.") from exc


def _time(value: Any, at: str) -> int:
    """Microseconds: what answers show, and so what is compared."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidFilter(at, "a time is ISO 8601 text, or a whole number of 10, 13, 16 or 19 digits since 1970.")
    try:
        return parse_time_ns(value) // 1000
    except (ValueError, OverflowError) as exc:
        raise InvalidFilter(at, str(exc)) from exc


def _text(value: Any, at: str) -> str:
    """On texts, numbers and booleans stand for themselves as JSON shows them."""
    _check_size(value, at)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_number(value):
        return number_text(value)
    raise InvalidFilter(at, "a text, number, boolean or null is legal here.")


def _json(value: Any, at: str) -> Operand:
    _check_size(value, at)
    operand: Operand = value
    return operand


_READERS: Final[Mapping[Kind, Callable[[Any, str], Operand]]] = {
    Kind.TRACE_ID: _trace_id,
    Kind.SPAN_ID: _span_id,
    Kind.UUID: _uuid,
    Kind.TIME: _time,
    Kind.TEXT: _text,
    Kind.JSON: _json,
}


def _reader(field: Field) -> Callable[[Any, str], Operand]:
    """What reads one operand of ``is`` or ``in``: ``(value, where it stood) -> operand``."""
    if field.kind is Kind.ENUM:
        return partial(_enum_text, field)
    return _READERS[field.kind]


def _enum_text(field: Field, value: Any, at: str) -> str:
    if isinstance(value, str) and value in field.values:
        return value
    shown = "a list or object" if isinstance(value, list | dict) else f"'{str(value)[:64]}'"
    raise InvalidFilter(at, f"Unsupported condition value: {shown}; legal: {', '.join(field.values)}.")


def _check_size(value: Any, at: str) -> None:
    """Refuse what is too large, too deep, or no value of JSON in 64 bits."""
    _check_parts(value, at)
    try:
        size = len(value.encode() if isinstance(value, str) else orjson.dumps(value))
    except (UnicodeEncodeError, TypeError) as exc:
        raise InvalidFilter(at, "the value is not Unicode text or JSON.") from exc
    if size > VALUE_BYTES_MAX:
        raise InvalidFilter(at, f"the value has {size} bytes; {VALUE_BYTES_MAX} are legal.")


def _check_parts(value: Any, at: str) -> None:
    level, depth, containers_count = [value], 0, 0
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict | list):
                containers_count += 1
                below.extend(each.values() if isinstance(each, dict) else each)
            elif isinstance(each, int) and not INT64_MIN <= each <= UINT64_MAX:
                raise InvalidFilter(at, "the integer does not fit into 64 bits.")
            elif isinstance(each, float) and not math.isfinite(each):
                raise InvalidFilter(at, "the number is past the largest double.")
        level, depth = below, depth + 1
        if depth > VALUE_DEPTH_MAX or containers_count > VALUE_CONTAINERS_MAX:
            raise InvalidFilter(
                at,
                f"the value nests deeper than {VALUE_DEPTH_MAX} or holds more than {VALUE_CONTAINERS_MAX} objects and arrays.",
            )


def _too_deep(path: str) -> InvalidFilter:
    return InvalidFilter(path, f"groups are nested deeper than {GROUPS_DEPTH_MAX}.")
