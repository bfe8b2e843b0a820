"""Totals of a whole filter: what its conditions ask for together, within limits, so that the engine plans every
accepted filter without delay. Limits of one condition: ``operands.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from common.errors import InvalidFilter
from query_api.filter.language import (
    ATTRIBUTES,
    FIELDS,
    OPERATORS,
    Condition,
    Kind,
    OperandKind,
    Operator,
    Total,
    ValuePlace,
    is_index,
)
from query_api.filter.operands import parts_of
from query_api.filter.text_search import TextSearch, words_of

LEVELS_MAX: Final = 96
"""Attributes nest 24 levels by their keys and at most 64 by their values: nothing is deeper."""

LARGE: Final = 1_000
"""From this number of values or words on, a filter is parsed and compiled in a thread. They take 8 ms, a thread 0.1 ms
more."""

_ABOVE_SUMS: Final = {("ag",), ("ag", "metrics"), *(("ag", "metrics", name) for name in ("tokens", "costs", "errors"))}
"""Objects above a ``cumulative`` that responses show as a sum over the trace."""

_CONTAINER_STEPS: Final = 4
_WORD_CHARS: Final = 10
_UNICODE_CLASS: Final = re.compile(r"\\[pP]")


def estimated_values(operand: Any) -> int:
    """Estimate how many values or words a condition looks for, without looking at each."""
    if isinstance(operand, str):
        return 1 + len(operand) // _WORD_CHARS
    return len(operand) if isinstance(operand, Sequence) else 1


class Totals:
    """The totals of one filter; add its conditions one by one."""

    def __init__(self) -> None:
        self._counts = Counter[Total]()

    def add(self, condition: Condition, path: str) -> None:
        """Add a condition of the normal form; ``path`` is its place in the request. Raises ``InvalidFilter`` past a
        limit."""
        if condition.operator is Operator.LIKE or condition.operator is Operator.MATCHES:
            self._add_pattern(TextSearch.of(condition.operator, condition), f"{path}.value")
        self._count(Total.VALUES, _values_count(condition), f"{path}.value")
        self._count(Total.STEPS, _steps_count(condition), path)
        if condition.field == ATTRIBUTES:
            self._count(Total.SUMS, _sums_at(condition.path, condition.operator, condition.operand), path)

    def _add_pattern(self, search: TextSearch, at: str) -> None:
        self._count(Total.PATTERNS_LENGTH, len(search.text), at)
        self._count(Total.UNICODE_CLASSES, len(_UNICODE_CLASS.findall(search.text)), at)
        try:
            size = search.pattern_size()
        except ValueError as exc:
            raise InvalidFilter(at, f"RE2 does not compile the pattern: {exc}.") from exc
        self._count(Total.PATTERNS_SIZE, size, at)

    def _count(self, total: Total, count: int, at: str) -> None:
        self._counts[total] += count
        max_count, message = total.value
        if self._counts[total] > max_count:
            raise InvalidFilter(at, message.format(max_count))


def _values_count(condition: Condition) -> int:
    if FIELDS[condition.field].kind is Kind.CONTENT:
        return len(words_of(str(condition.operand)))
    if isinstance(condition.operand, list | Mapping):
        if condition.operator is Operator.IN and FIELDS[condition.field].kind is not Kind.ELEMENTS:
            return len(condition.operand)  # of scalars
        return sum(not isinstance(value, list | Mapping) for value, _ in parts_of(condition.operand))
    return 1


def _steps_count(condition: Condition) -> int:
    match FIELDS[condition.field].kind:
        case Kind.JSON if len(condition.path) <= LEVELS_MAX:
            return _steps_by_path(condition)
        case Kind.ELEMENTS if condition.operator is not Operator.EXISTS:
            return _steps_to_elements(condition.operand)
        case _:
            return 1


def _steps_by_path(condition: Condition) -> int:
    """The scalars of ``attributes`` are looked up by their whole path; anything else is reached step by step."""
    steps = len(condition.path) * (1 + sum(map(is_index, condition.path[1:])))
    kind = OPERATORS[condition.operator].operand
    if kind in (OperandKind.VALUE, OperandKind.MEMBER) and isinstance(condition.operand, Mapping | list):
        return steps + _container_steps(condition.operand, steps)
    is_whole_path = condition.field == ATTRIBUTES and kind not in (OperandKind.MEMBER, OperandKind.LIST)
    return 1 if is_whole_path else steps


def _steps_to_elements(partials: Any) -> int:
    """Partial elements with scalars at the same places are looked for together."""
    steps = 0
    places = set()
    for element in partials:
        flat = flattened(element)
        if flat is None:
            steps += sum(
                _CONTAINER_STEPS + name.count(".") + _container_steps(value, 1) for name, value in element.items()
            )
        else:
            places.add(frozenset(flat))
    return steps + sum(_CONTAINER_STEPS + name.count(".") + len(below) for keys in places for name, *below in keys)


def flattened(partial: Mapping[str, Any]) -> dict[tuple[str, ...], Any] | None:
    """Return the scalars of a partial element by the keys that lead to them.

    ``None`` if an array, a null or an empty object is among them, because then the scalars do not say everything.
    """
    flat: dict[tuple[str, ...], Any] = {}
    level: list[tuple[tuple[str, ...], Any]] = [((name,), value) for name, value in partial.items()]
    while level:
        keys, value = level.pop()
        if isinstance(value, Mapping) and value:
            level.extend(((*keys, key), member) for key, member in value.items())
        elif value is None or isinstance(value, Mapping | list):
            return None
        else:
            flat[keys] = value
    return flat


def _container_steps(operand: Any, steps: int) -> int:
    return sum(
        _CONTAINER_STEPS + steps + depth for value, depth in parts_of(operand) if isinstance(value, Mapping | list)
    )


def is_sum(place: ValuePlace) -> bool:
    """Return whether responses show sums over the whole trace at a place, or below it, on a root."""
    return place.field == ATTRIBUTES and _sums_at(place.path, Operator.EXISTS, None) > 0


def _sums_at(path: tuple[str, ...], operator: Operator, operand: Any) -> int:
    """How many sums over a trace a condition needs; a condition on an object above may need several."""
    if path not in _ABOVE_SUMS:
        return int(path[:3] in _ABOVE_SUMS and path[3:4] == ("cumulative",))
    if operator is Operator.IS and isinstance(operand, Mapping):
        return sum(_sums_at((*path, key), Operator.IS, value) for key, value in operand.items())
    if operator is Operator.HAS and isinstance(operand, str):
        return _sums_at((*path, operand), Operator.EXISTS, None)
    return 0
