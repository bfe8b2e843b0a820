"""What a whole filter may ask for, so that each that is accepted is planned at once; counted on conditions of the normal form.

The limits of one condition (``parse.py``, ``operands.py``) do not bound a filter that is near several of them at once. What
a statement costs before it reads a row follows from three totals: the values that it carries, the *steps* into JSON that it
spells out, and the sums of traces that it asks for. Paths and texts that the engine looks up whole take one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import InvalidFilter
from query_api.filter.ast import Condition, Operator
from query_api.filter.fields import FIELDS, Kind
from query_api.filter.values import is_index
from query_api.filter.words import words_of

VALUES_MAX: Final = 40_000
"""Values of lists, members and elements inside of them, and words of ``content``: four lists that are full, which take the event loop
some 50 ms to parse."""

STEPS_MAX: Final = 4_096
"""Into JSON. Each is about 30 bytes of a statement, and the engine takes some seconds for a megabyte of them before it reads a
row."""

SUMS_MAX: Final = 8
"""Conditions on sums over traces: each adds up the whole project."""

LEVELS_MAX: Final = 96
"""Attributes nest 24 levels by their keys and at most 64 by their values: what is deeper is never there."""

_SUMMED: Final = ("ag", "metrics")
_ABOVE_SUMS: Final = {("ag",), _SUMMED, *((*_SUMMED, metric) for metric in ("tokens", "costs", "errors"))}
"""Objects with a ``cumulative`` somewhere beneath that is shown as a sum over the trace (``query_api/filter/sql/rollup_conditions.py``)."""

_CONTAINER_STEPS: Final = 4
_READ_WHOLE: Final = frozenset({Operator.IN, Operator.HAS})


class Totals:
    """Of one filter, condition by condition."""

    def __init__(self) -> None:
        self._values_count = 0
        self._steps_count = 0
        self._sums_count = 0

    def add(self, condition: Condition, path: str) -> None:
        """Count a condition that stood at ``path``. Raises ``InvalidFilter`` where a total is passed."""
        self._values_count += _values_count(condition)
        if self._values_count > VALUES_MAX:
            raise InvalidFilter(
                f"{path}.value",
                f"the filter holds more than {VALUES_MAX} values, in lists and objects and as words, together.",
            )
        self._steps_count += _steps_count(condition)
        if self._steps_count > STEPS_MAX:
            raise InvalidFilter(
                path,
                f"the keys, objects and arrays of the filter take more than {STEPS_MAX} steps into JSON together:"
                " shorter keys, fewer numbers in them, or fewer objects and arrays are legal.",
            )
        self._sums_count += _sums_count(condition)
        if self._sums_count > SUMS_MAX:
            raise InvalidFilter(path, f"more than {SUMS_MAX} conditions on cumulative metrics in one filter.")


def _values_count(condition: Condition) -> int:
    if FIELDS[condition.field].kind is Kind.CONTENT:
        return len(words_of(str(condition.operand)))
    if isinstance(condition.operand, list | Mapping):
        if condition.operator is Operator.IN and FIELDS[condition.field].kind is not Kind.ELEMENTS:
            return len(condition.operand)  # of scalars
        return sum(not isinstance(value, list | Mapping) for value, _ in _parts(condition.operand))
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
    """What stands in ``attributes`` as a scalar is looked up by its whole path; the rest is gone to step by step."""
    is_container = isinstance(condition.operand, Mapping | list) and condition.operator in (Operator.IS, Operator.HAS)
    if condition.field == "attributes" and not is_container and condition.operator not in _READ_WHOLE:
        return 1
    way = len(condition.path) * (1 + sum(map(is_index, condition.path[1:])))
    return way + (_container_steps(condition.operand, way) if is_container else 0)


def _steps_to_elements(partials: Any) -> int:
    """Partial elements with scalars at the same places are looked for together."""
    steps = 0
    shapes = set()
    for partial in partials:
        flat = flattened(partial)
        if flat is None:
            steps += sum(
                _CONTAINER_STEPS + name.count(".") + _container_steps(value, 1) for name, value in partial.items()
            )
        else:
            shapes.add(frozenset(flat))
    return steps + sum(_CONTAINER_STEPS + name.count(".") + len(below) for shape in shapes for name, *below in shape)


def flattened(partial: Mapping[str, Any]) -> dict[tuple[str, ...], Any] | None:
    """The scalars of a partial element by the keys that lead to them; ``None`` where they do not say all: where an array, a
    null or an empty object stands among them.
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


def _container_steps(operand: Any, way: int) -> int:
    return sum(_CONTAINER_STEPS + way + depth for value, depth in _parts(operand) if isinstance(value, Mapping | list))


def _parts(operand: Any) -> Iterator[tuple[Any, int]]:
    """Every value in a value, itself included, and how deep it stands."""
    level, depth = [operand], 0
    while level:
        below: list[Any] = []
        for value in level:
            yield value, depth
            if isinstance(value, Mapping | list):
                below.extend(value.values() if isinstance(value, Mapping) else value)
        level, depth = below, depth + 1


def _sums_count(condition: Condition) -> int:
    if condition.field != "attributes":
        return 0
    return _sums_at(condition.path, condition.operator, condition.operand)


def _sums_at(path: tuple[str, ...], operator: Operator, operand: Any) -> int:
    """How often a sum over a trace is asked for, through objects above it too."""
    if path not in _ABOVE_SUMS:
        return int(path[:3] in _ABOVE_SUMS and path[3:4] == ("cumulative",))
    if operator is Operator.IS and isinstance(operand, Mapping):
        return sum(_sums_at((*path, key), Operator.IS, value) for key, value in operand.items())
    if operator is Operator.HAS and isinstance(operand, str):
        return _sums_at((*path, operand), Operator.EXISTS, None)
    return 0
