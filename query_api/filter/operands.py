"""Operands of conditions: read from the request into the form in which a field is compared (contract §3.2), within
the limits of each condition, and totals of a whole filter: what its conditions ask for together, within limits, so
that the engine plans every accepted filter without delay.

A reader takes a value and its path in the request, and raises ``InvalidFilter`` with that path. Operands on fields of
elements: ``elements.py``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson

from common.errors import InvalidFilter
from common.ids import parse_span_id, parse_trace_id
from common.json_values import INT64_MIN, UINT64_MAX, is_number
from common.paths import INDEX, LEVELS_MAX
from common.times import RELATIVE_TIMES, RelativeTime, parse_time_ns
from query_api.filter.language import (
    ATTRIBUTES,
    FIELDS,
    OPERATORS,
    SETTLED,
    Condition,
    Field,
    Kind,
    Operand,
    OperandKind,
    Operator,
    Total,
    flattened,
    sums_at,
)
from query_api.filter.text_search import TextSearch, parse_content, text_of, words_of

LIST_VALUES_MAX: Final = 10_000
VALUE_BYTES_MAX: Final = 64 * 1024
"""The size of a text in UTF-8, or of any other value as JSON; the limit applies to each value of a list."""

VALUE_DEPTH_MAX: Final = 64
"""Attributes nest at most 48 levels deep, so a deeper value would equal nothing."""

VALUE_CONTAINERS_MAX: Final = 256
"""Objects and arrays in one value: each becomes a clause of the statement."""

Reader = Callable[[Any, str], Any]


def type_name(value: Any) -> str:
    """Name the JSON type of a value for a message: "a list"."""
    return _TYPE_NAMES.get(type(value), "a number")


_TYPE_NAMES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def check_size(value: Any, at: str) -> None:
    """Refuse a value that is too large, too deep, or no JSON value in 64 bits."""
    if type(value) is str and len(value) <= VALUE_BYTES_MAX and value.isascii():  # as in most long lists
        return
    _check_parts(value, at)
    try:
        size = len(value.encode() if isinstance(value, str) else orjson.dumps(value))
    except (UnicodeEncodeError, TypeError) as exc:
        raise InvalidFilter(at, "the value is not valid Unicode or JSON.") from exc
    if size > VALUE_BYTES_MAX:
        raise InvalidFilter(at, f"the value has {size} bytes; at most {VALUE_BYTES_MAX} are allowed.")


def _check_parts(value: Any, at: str) -> None:
    containers_count = 0
    for part, depth in parts_of(value):
        if isinstance(part, dict | list):
            containers_count += 1
        elif isinstance(part, int) and not INT64_MIN <= part <= UINT64_MAX:
            raise InvalidFilter(at, "the integer does not fit into 64 bits.")
        elif isinstance(part, float) and not math.isfinite(part):
            raise InvalidFilter(at, "the number is larger than the largest double.")
        if depth >= VALUE_DEPTH_MAX or containers_count > VALUE_CONTAINERS_MAX:
            raise InvalidFilter(
                at,
                f"the value nests deeper than {VALUE_DEPTH_MAX} levels or holds more than {VALUE_CONTAINERS_MAX}"
                " objects and arrays.",
            )


def parts_of(value: Any) -> Iterator[tuple[Any, int]]:
    """Yield a value, every value in it, and the depth of each, level by level."""
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for part in level:
            yield part, depth
            if isinstance(part, dict | list):
                below.extend(part.values() if isinstance(part, dict) else part)
        level, depth = below, depth + 1


def read_value(field: Field, value: Any, at: str) -> Operand:
    """Read one value in the form in which the field is compared: the operand of ``is``, and on JSON of ``has``."""
    read = partial(_read_enum, field) if field.kind is Kind.ENUM else _READERS[field.kind]
    operand: Operand = read(value, at)
    return operand


def read_comparable(field: Field, operator: Operator, value: Any, at: str) -> str | float:
    """Read the operand of a comparison: a number, a string for the order of strings, or a time."""
    if field.kind is Kind.TIME:
        return read_any_time(value, at)
    if isinstance(value, str) or is_number(value):
        check_size(value, at)
        comparable: str | float = value
        return comparable
    raise InvalidFilter(at, f"'{operator}' needs a number or a string; got {type_name(value)}.")


def read_range(field: Field, operator: Operator, value: Any, at: str) -> list[Any]:
    """Read the two operands of ``btwn``."""
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidFilter(at, f"'{operator}' needs a list of exactly two values.")
    bounds = [read_comparable(field, operator, bound, f"{at}[{index}]") for index, bound in enumerate(value)]
    if field.kind is not Kind.TIME and isinstance(bounds[0], str) is not isinstance(bounds[1], str):
        raise InvalidFilter(at, f"'{operator}' needs two numbers or two strings; got one of each.")
    return bounds


def read_scalars(field: Field, operator: Operator, value: Any, at: str) -> list[Any]:
    """Read the operand of a list operator on scalars. A list of 10,000 that can stay as it is takes a tenth of the
    time."""
    if not isinstance(value, list):
        raise InvalidFilter(at, f"'{operator}' needs a list; got {type_name(value)}.")
    if len(value) <= LIST_VALUES_MAX and _can_stay(field.kind, value):
        return value

    def read(item: Any, where: str) -> Any:
        if item is None or isinstance(item, list | dict):
            raise InvalidFilter(where, f"the list may hold strings, numbers and booleans; got {type_name(item)}.")
        return read_value(field, item, where)

    return read_list(value, at, read)


_STAYING_TYPES: Final[Mapping[Kind, frozenset[type]]] = {
    Kind.JSON: frozenset({str, int}),
    Kind.SCORES: frozenset({str, int}),
    Kind.SHORTHAND: frozenset({str, int}),
    Kind.TEXT: frozenset({str}),
}


def _can_stay(kind: Kind, values: list[Any]) -> bool:
    """Whether the operands equal the given values: short ASCII strings, and integers of 64 bits unless
    the field holds texts."""
    types = set(map(type, values))
    if not types <= _STAYING_TYPES.get(kind, frozenset()):
        return False
    texts = [value for value in values if type(value) is str] if str in types else []
    numbers = [value for value in values if type(value) is int] if int in types else []
    return (
        all(map(str.isascii, texts))
        and max(map(len, texts), default=0) <= VALUE_BYTES_MAX
        and min(numbers, default=0) >= INT64_MIN
        and max(numbers, default=0) <= UINT64_MAX
    )


def read_list(values: list[Any], at: str, read: Reader) -> list[Any]:
    """Read every value of a list."""
    if len(values) > LIST_VALUES_MAX:
        raise InvalidFilter(at, f"the list has {len(values)} values; at most {LIST_VALUES_MAX} are allowed.")
    return [read(value, f"{at}[{index}]") for index, value in enumerate(values)]


def read_text(value: Any, at: str, needs: str = "the value must be") -> str:
    """Read a text; a number or boolean becomes its text as JSON shows it."""
    check_size(value, at)
    text = text_of(value)
    if text is None:
        raise InvalidFilter(at, f"{needs} a string, a number or a boolean; got {type_name(value)}.")
    return text


def read_content(value: Any, at: str) -> str:
    """Read the text of ``content``; both interpreters parse it again (``text_search.parse_content``)."""
    if value is None:
        raise InvalidFilter(at, "'content' value is required and thus never null for full-text search.")
    if not isinstance(value, str):
        raise InvalidFilter(at, "'content' value must be a string for full-text search.")
    check_size(value, at)
    try:
        parse_content(value)
    except ValueError as exc:
        raise InvalidFilter(at, str(exc)) from exc
    return value


def read_json(value: Any, at: str) -> Any:
    """Read any JSON value within the limits."""
    check_size(value, at)
    return value


def read_scalar(value: Any, at: str) -> Any:
    """Read a string, a number or a boolean within the limits."""
    if isinstance(value, list | dict):
        raise InvalidFilter(at, f"the value must be a string, a number or a boolean; got {type_name(value)}.")
    return read_json(value, at)


def read_trace_id(value: Any, at: str) -> str:
    """Read a trace id in any spelling as 32 hexadecimal digits."""
    return _read_id(value, at, parse_trace_id)


def read_span_id(value: Any, at: str) -> str:
    """Read a span id in any spelling as 32 hexadecimal digits: an id of eight bytes is doubled."""
    return _read_id(value, at, parse_span_id)


def _read_id(value: Any, at: str, parse: Callable[[str], bytes]) -> str:
    if not isinstance(value, str):
        raise InvalidFilter(at, f"an id must be a string of hexadecimal digits; got {type_name(value)}.")
    try:
        return parse(value).hex()
    except ValueError as exc:
        raise InvalidFilter(at, str(exc)) from exc


def read_uuid(value: Any, at: str) -> str:
    """Read a UUID in lower case with dashes, from any spelling of reference §2.1."""
    try:
        return str(UUID(value[2:] if value[:2] in ("0x", "0X") else value))
    except (AttributeError, TypeError, ValueError, KeyError) as exc:
        raise InvalidFilter(at, "the value must be a UUID: 32 hexadecimal digits, with or without dashes.") from exc


def read_time_ns(value: Any, at: str) -> int:
    """Read a time as nanoseconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidFilter(
            at,
            "a time must be an ISO 8601 string, or an integer of 10, 13, 16 or 19 digits (s, ms, µs or ns since 1970);"
            f" got {type_name(value)}.",
        )
    try:
        return parse_time_ns(value)
    except (ValueError, OverflowError) as exc:
        raise InvalidFilter(at, str(exc)) from exc


def read_time(value: Any, at: str) -> int:
    """Read a time as microseconds since 1970, the precision that responses show and filters compare."""
    return read_time_ns(value, at) // 1000


def read_any_time(value: Any, at: str) -> int | RelativeTime:
    """Read a time as ``read_time`` does, or relative to the server's clock."""
    relative = RelativeTime.read(value)
    if relative is not None:
        return relative
    try:
        return read_time(value, at)
    except InvalidFilter as exc:
        reason = exc.detail.removeprefix(f"{at}: ").removesuffix(".")
        raise InvalidFilter(at, f"{reason}; also allowed: {RELATIVE_TIMES}.") from exc


def _read_enum(field: Field, value: Any, at: str) -> str:
    if isinstance(value, str) and value in field.values:
        return value
    shown = "a list or object" if isinstance(value, list | dict) else f"'{str(value)[:64]}'"
    raise InvalidFilter(at, f"Unsupported condition value: {shown}; allowed: {', '.join(field.values)}.")


_READERS: Final[Mapping[Kind, Reader]] = {
    Kind.TRACE_ID: read_trace_id,
    Kind.SPAN_ID: read_span_id,
    Kind.UUID: read_uuid,
    Kind.TIME: read_any_time,
    Kind.TEXT: read_text,
    Kind.JSON: read_json,
    Kind.SCORES: read_json,
    Kind.SHORTHAND: read_scalar,
}


LARGE: Final = 1_000
"""From this number of values or words on, a filter is parsed and compiled in a thread. They take 8 ms, a thread 0.1 ms
more."""


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
        if condition.field == ATTRIBUTES and condition.path[:1] == ("ag",):
            self._count(Total.SUMS, sums_at(condition.path, condition.operator, condition.operand), path)
        if condition.field == SETTLED:
            self._count(Total.SUMS, 1, path)

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
    steps = len(condition.path) * (1 + len([*filter(INDEX.fullmatch, condition.path[1:])]))
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


def _container_steps(operand: Any, steps: int) -> int:
    return sum(
        _CONTAINER_STEPS + steps + depth for value, depth in parts_of(operand) if isinstance(value, Mapping | list)
    )
