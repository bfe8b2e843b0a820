"""Limits of a whole filter, so that the engine plans every accepted filter without delay.

The limits of one condition (``parse.py``, ``operands.py``) do not bound a filter that is near several of them. What a
statement costs before it reads a row follows from the values that it carries, the *steps* into JSON that it spells out,
the sums of traces that it asks for, and its patterns. A path or text that the engine looks up as a whole takes one
step. ``sql/compile.py`` bounds the size of what a filter compiles to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from common.errors import InvalidFilter
from query_api.filter.language import ATTRIBUTES, FIELDS, OPERATORS, Condition, Kind, OperandKind, Operator, is_index
from query_api.filter.operands import parts_of
from query_api.filter.text_search import TextSearch, words_of

VALUES_MAX: Final = 40_000
"""Values of lists, members and elements in them, and words of ``content``. Four full lists: parsing them takes about 50
ms."""

STEPS_MAX: Final = 4_096
"""Steps into JSON. Each is about 30 bytes of a statement, and the engine takes seconds to plan a megabyte of them."""

SUMS_MAX: Final = 8
"""Conditions on sums over traces: each adds up the whole project."""

LEVELS_MAX: Final = 96
"""Attributes nest 24 levels by their keys and at most 64 by their values: nothing is deeper."""

PATTERNS_SIZE_MAX: Final = 128 * 1024
"""RE2 instructions of every ``like`` and ``matches`` of a filter together. A pattern of 64 KiB that is mostly literal
has half of it, ``\\pL{100}`` nearly all."""

PATTERNS_LENGTH_MAX: Final = 128 * 1024
"""Characters of the same patterns, checked before any is compiled: a character takes up to 1 µs."""

UNICODE_CLASSES_MAX: Final = 256
"""Unicode classes (``\\pL``) in the same patterns, checked before any is compiled: each takes RE2 up to 0.1 ms."""

LARGE: Final = 1_000
"""From this number of values or words on, a filter is parsed and compiled in a thread. They take 8 ms, a thread 0.1 ms
more."""

_SUMMED: Final = ("ag", "metrics")
_ABOVE_SUMS: Final = {("ag",), _SUMMED, *((*_SUMMED, metric) for metric in ("tokens", "costs", "errors"))}
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
        self._values_count = 0
        self._steps_count = 0
        self._sums_count = 0
        self._patterns_length = 0
        self._classes_count = 0
        self._patterns_size = 0

    def add(self, condition: Condition, path: str) -> None:
        """Add a condition of the normal form; ``path`` is its place in the request. Raises ``InvalidFilter`` past a
        limit."""
        if condition.operator is Operator.LIKE or condition.operator is Operator.MATCHES:
            self._add_pattern(TextSearch.of(condition.operator, condition), f"{path}.value")
        self._values_count += _values_count(condition)
        if self._values_count > VALUES_MAX:
            raise InvalidFilter(
                f"{path}.value",
                f"the filter holds more than {VALUES_MAX} values in total, counting values of lists and objects, and"
                " words.",
            )
        self._steps_count += _steps_count(condition)
        if self._steps_count > STEPS_MAX:
            raise InvalidFilter(
                path,
                f"the keys, objects and arrays of the filter take more than {STEPS_MAX} steps into JSON in total: use"
                " shorter keys, fewer numbers in keys, or fewer objects and arrays.",
            )
        if condition.field == ATTRIBUTES:
            self._sums_count += _sums_at(condition.path, condition.operator, condition.operand)
        if self._sums_count > SUMS_MAX:
            raise InvalidFilter(path, f"more than {SUMS_MAX} conditions on cumulative metrics in one filter.")

    def _add_pattern(self, search: TextSearch, at: str) -> None:
        self._patterns_length += len(search.text)
        if self._patterns_length > PATTERNS_LENGTH_MAX:
            raise InvalidFilter(
                at, f"the patterns of the filter have more than {PATTERNS_LENGTH_MAX} characters in total."
            )
        self._classes_count += len(_UNICODE_CLASS.findall(search.text))
        if self._classes_count > UNICODE_CLASSES_MAX:
            raise InvalidFilter(
                at, f"the patterns of the filter have more than {UNICODE_CLASSES_MAX} classes like \\pL in total."
            )
        try:
            self._patterns_size += search.pattern_size()
        except ValueError as exc:
            raise InvalidFilter(at, f"RE2 does not compile the pattern: {exc}.") from exc
        if self._patterns_size > PATTERNS_SIZE_MAX:
            raise InvalidFilter(
                at, f"the patterns of the filter have more than {PATTERNS_SIZE_MAX} RE2 instructions in total."
            )


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
    is_container = isinstance(condition.operand, Mapping | list)
    match OPERATORS[condition.operator].operand:
        case OperandKind.VALUE | OperandKind.MEMBER if is_container:
            return steps + _container_steps(condition.operand, steps)
        case OperandKind.MEMBER | OperandKind.LIST:
            return steps
        case (
            OperandKind.NOTHING
            | OperandKind.VALUE
            | OperandKind.COMPARABLE
            | OperandKind.RANGE
            | OperandKind.LITERAL
            | OperandKind.PATTERN
        ):
            return 1 if condition.field == ATTRIBUTES else steps
        case kind:
            assert_never(kind)


def _steps_to_elements(partials: Any) -> int:
    """Partial elements with scalars at the same places are looked for together."""
    steps = 0
    places = set()
    for partial in partials:
        flat = flattened(partial)
        if flat is None:
            steps += sum(
                _CONTAINER_STEPS + name.count(".") + _container_steps(value, 1) for name, value in partial.items()
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


def _sums_at(path: tuple[str, ...], operator: Operator, operand: Any) -> int:
    """How many sums over a trace a condition needs; a condition on an object above may need several."""
    if path not in _ABOVE_SUMS:
        return int(path[:3] in _ABOVE_SUMS and path[3:4] == ("cumulative",))
    if operator is Operator.IS and isinstance(operand, Mapping):
        return sum(_sums_at((*path, key), Operator.IS, value) for key, value in operand.items())
    if operator is Operator.HAS and isinstance(operand, str):
        return _sums_at((*path, operand), Operator.EXISTS, None)
    return 0
