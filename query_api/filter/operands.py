"""Operands as requests spell them, read into the form in which a field is compared; and their limits (contract §3.2).

Raises ``InvalidFilter`` with the JSON path of the value. Elements of ``links references events hashes``: ``elements.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson

from common.errors import InvalidFilter
from common.ids import parse_span_id, parse_trace_id
from common.json_numbers import INT64_MIN, UINT64_MAX
from common.times import parse_time_ns
from query_api.filter.fields import Field, Kind
from query_api.filter.patterns import text_of
from query_api.filter.values import is_number
from query_api.filter.words import parse_content

LIST_VALUES_MAX: Final = 10_000
VALUE_BYTES_MAX: Final = 64 * 1024
"""Of a text in UTF-8, of anything else as JSON; each value of a list for itself."""

VALUE_DEPTH_MAX: Final = 64
"""Attributes nest 48 levels at most, so that a deeper value would equal nothing."""

VALUE_CONTAINERS_MAX: Final = 256
"""Objects and arrays in one value: each is a clause of the statement that it becomes."""

Reader = Callable[[Any, str], Any]
"""What reads one value: ``(value, where it stood) -> operand``."""


def reader(field: Field) -> Reader:
    """What reads one operand of ``is`` or ``in``."""
    if field.kind is Kind.ENUM:
        return partial(_enum_text, field)
    return _READERS[field.kind]


def read_list(value: Any, at: str, *, read: Reader) -> list[Any]:
    """The operands of a list operator."""
    if not isinstance(value, list):
        raise InvalidFilter(at, "a list operator takes a list.")
    if len(value) > LIST_VALUES_MAX:
        raise InvalidFilter(at, f"{len(value)} values; a list holds {LIST_VALUES_MAX} at most.")
    return [read(each, f"{at}[{index}]") for index, each in enumerate(value)]


def read_scalars(field: Field, value: Any, at: str) -> list[Any]:
    """The operands of ``in``. A list of 10,000 that needs no second look takes a tenth of the time."""
    is_plain = isinstance(value, list) and len(value) <= LIST_VALUES_MAX and _are_plain(field.kind, value)
    return value if is_plain else read_list(value, at, read=partial(read_scalar, field))


def _are_plain(kind: Kind, values: list[Any]) -> bool:
    """Whether the operands are these values as they are: short ASCII texts, and where the field takes them, 64-bit integers."""
    types = set(map(type, values))
    if kind not in (Kind.JSON, Kind.TEXT) or not types <= ({str, int} if kind is Kind.JSON else {str}):
        return False
    texts = [each for each in values if type(each) is str] if str in types else []
    numbers = [each for each in values if type(each) is int] if int in types else []
    return (
        all(map(str.isascii, texts))
        and max(map(len, texts), default=0) <= VALUE_BYTES_MAX
        and min(numbers, default=0) >= INT64_MIN
        and max(numbers, default=0) <= UINT64_MAX
    )


def read_scalar(field: Field, value: Any, at: str) -> Any:
    """One operand of ``in``."""
    if value is None or isinstance(value, list | dict):
        raise InvalidFilter(at, "a list holds texts, numbers and booleans.")
    return reader(field)(value, at)


def read_ends(field: Field, value: Any, at: str) -> list[Any]:
    """The two operands of ``btwn``."""
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidFilter(at, "'btwn' takes a list of exactly two values.")
    ends = [read_comparable(field, each, f"{at}[{index}]") for index, each in enumerate(value)]
    if isinstance(ends[0], str) is not isinstance(ends[1], str):
        raise InvalidFilter(at, "'btwn' takes two numbers or two texts, not one of each.")
    return ends


def read_comparable(field: Field, value: Any, at: str) -> str | float:
    """The operand of a numeric operator: a number, or a text for the order of texts."""
    if field.kind is Kind.TIME:
        return _time(value, at)
    if isinstance(value, str) or is_number(value):
        check_size(value, at)
        comparable: str | float = value
        return comparable
    raise InvalidFilter(at, "a numeric operator takes a number or a text.")


def read_pattern(value: Any, at: str) -> str:
    """The operand of a text operator: numbers and booleans stand for their text."""
    check_size(value, at)
    text = text_of(value)
    if text is None:
        raise InvalidFilter(at, "a text operator takes a text, number or boolean.")
    return text


def read_content(value: Any, at: str) -> str:
    """The text of ``content``; what it asks for is read again by whoever asks (``words.py``)."""
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
    """Any JSON value within the limits."""
    check_size(value, at)
    return value


def read_text(value: Any, at: str) -> str:
    """A text; numbers and booleans stand for themselves as JSON shows them."""
    check_size(value, at)
    text = text_of(value)
    if text is None:
        raise InvalidFilter(at, "a text, number, boolean or null is legal here.")
    return text


def read_trace_id(value: Any, at: str) -> str:
    """32 hexadecimal digits."""
    return _id(value, at, parse_trace_id)


def read_span_id(value: Any, at: str) -> str:
    """32 hexadecimal digits: an id of eight bytes is doubled."""
    return _id(value, at, parse_span_id)


def _id(value: Any, at: str, read: Callable[[str], bytes]) -> str:
    if not isinstance(value, str):
        raise InvalidFilter(at, "an id is a text of hexadecimal digits.")
    try:
        return read(value).hex()
    except ValueError as exc:
        raise InvalidFilter(at, str(exc)) from exc


def read_uuid(value: Any, at: str) -> str:
    """A UUID in lower case with dashes, from every spelling of reference §2.1."""
    try:
        return str(UUID(value[2:] if value[:2] in ("0x", "0X") else value))
    except (AttributeError, TypeError, ValueError, KeyError) as exc:
        raise InvalidFilter(at, "this is named by a UUID: 32 hexadecimal digits, with dashes or without.") from exc


def _time(value: Any, at: str) -> int:
    """Microseconds: what answers show, and so what is compared."""
    return read_time_ns(value, at) // 1000


def read_time_ns(value: Any, at: str) -> int:
    """Nanoseconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidFilter(at, "a time is ISO 8601 text, or a whole number of 10, 13, 16 or 19 digits since 1970.")
    try:
        return parse_time_ns(value)
    except (ValueError, OverflowError) as exc:
        raise InvalidFilter(at, str(exc)) from exc


def _enum_text(field: Field, value: Any, at: str) -> str:
    if isinstance(value, str) and value in field.values:
        return value
    shown = "a list or object" if isinstance(value, list | dict) else f"'{str(value)[:64]}'"
    raise InvalidFilter(at, f"Unsupported condition value: {shown}; legal: {', '.join(field.values)}.")


_READERS: Final[Mapping[Kind, Reader]] = {
    Kind.TRACE_ID: read_trace_id,
    Kind.SPAN_ID: read_span_id,
    Kind.UUID: read_uuid,
    Kind.TIME: _time,
    Kind.TEXT: read_text,
    Kind.JSON: read_json,
}


def check_size(value: Any, at: str) -> None:
    """Refuse what is too large, too deep, or no value of JSON in 64 bits."""
    if type(value) is str and len(value) <= VALUE_BYTES_MAX and value.isascii():  # as most values of long lists are
        return
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
