"""How values compare (contract §3.2), said once in plain Python: typed equality, exact numbers, paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from common.json_numbers import INT64_MIN, UINT64_MAX

INTEGER_CHARS_MAX: Final = 20
"""Of ``18446744073709551615`` and ``-9223372036854775808``: a longer text is no integer of 64 bits."""

JSON_NUMBER: Final = "-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?"
"""The grammar of numbers (RFC 8259 §6), in the syntax that Python and RE2 share."""

_JSON_NUMBER: Final = re.compile(JSON_NUMBER)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def is_index(segment: str) -> bool:
    """Whether a segment of a path can be an index: decimal digits without a leading zero, at most nine."""
    return _INDEX.fullmatch(segment) is not None


def value_at(value: Any, path: Sequence[str]) -> Any:
    """What stands at a path, ``None`` when nothing does: keys of objects, indexes of arrays."""
    for segment in path:
        if isinstance(value, dict):
            value = value.get(segment)
        elif isinstance(value, list) and is_index(segment):
            value = value[int(segment)] if int(segment) < len(value) else None
        else:
            return None
    return value


def is_number(value: object) -> bool:
    """A number in the sense of JSON: not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_of(value: Any) -> float | None:
    """The number that a scalar is, or that a text spells as JSON would; ``None`` where there is none.

    As JSON is commonly read: an integer inside 64 bits is exact, every other number is a double (infinite past the largest).
    """
    if is_number(value):
        number: float = value
        return number
    if not isinstance(value, str) or _JSON_NUMBER.fullmatch(value) is None:
        return None
    if len(value) <= INTEGER_CHARS_MAX and value.removeprefix("-").isdecimal():
        integer = int(value)
        if INT64_MIN <= integer <= UINT64_MAX:
            return integer
    return float(value)


def same(stored: Any, wanted: Any) -> bool:
    """Typed equality: numbers by value, objects by the members of ``wanted``, arrays by its elements in any order."""
    if isinstance(wanted, Mapping):
        return isinstance(stored, dict) and all(same(stored.get(name), member) for name, member in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(stored, list) and all(any(same(has, element) for has in stored) for element in wanted)
    if is_number(wanted):
        return is_number(stored) and bool(stored == wanted)
    return type(stored) is type(wanted) and bool(stored == wanted)
