"""JSON values as the product reads, compares and writes them: numbers, the texts of scalars, and JSON that is text.

An integer within 64 bits is exact; every other number is a double (contract §4).

Some instrumentations write structured values as JSON text. Such values follow the same rules as decoded ones
(``common/span.py``): numbers, not-finite doubles and nesting as in contract §4. Text that breaks them stays text:
nothing is rejected this late.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from common.limits import SpanLimits
from common.nesting import GROWTH_MAX, has_long_paths
from common.span import Value

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1

INTEGERS_FIRST: Final = float(INT64_MIN)
INTEGERS_END: Final = float(UINT64_MAX + 1)
"""A double without a fraction is an integer of 64 bits if it is at least the first and less than the second. They are
doubles because comparing doubles is faster."""

INTEGER_CHARS_MAX: Final = 20
"""The length of ``18446744073709551615`` and ``-9223372036854775808``: a longer text is not an integer of 64 bits."""

NUMBER_GRAMMAR: Final = "-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?"
"""The grammar of numbers (RFC 8259 §6) as a regular expression that Python and RE2 both accept."""

_NUMBER: Final = re.compile(NUMBER_GRAMMAR)

LEVELS_MAX: Final = SpanLimits().nesting_depth_max

_NUL: Final = r"\u0000"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u0000|u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape of JSON: a whole pair of surrogates, in a group what cannot be stored, or any other."""


_UNREADY: Final = -1
_CONTAINERS: Final = (dict, list)


class NotJson(ValueError):
    """The text is not JSON that a span can hold."""


def is_number(value: object) -> bool:
    """Return whether a value is a JSON number: a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_in(text: str) -> int | float | None:
    """Return the JSON-ready number that a text is by the grammar; ``None`` if it is none, or beyond all doubles."""
    if _NUMBER.fullmatch(text) is None:
        return None
    try:
        number: int | float = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return json_number(number) if isinstance(number, float) else number


def json_number(value: float) -> int | float:
    """Return a double as a JSON-ready number: an integer if it has no fraction and fits 64 bits."""
    return int(value) if value.is_integer() and INTEGERS_FIRST <= value < INTEGERS_END else value


def number_text(value: float) -> str:
    """Return the one text of a number, as JSON shows it: two numbers have the same text exactly when they are equal.

    Integers, and doubles that are integers within 64 bits, are decimal digits (``5.0`` is ``5``, ``-0.0`` is ``0``);
    other doubles are the shortest decimal that reads back as the same double (``0.1``, ``1e+22``, ``1e-7``).
    """
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and INTEGERS_FIRST <= value < INTEGERS_END:  # as in `json_number`, without the call
        return str(int(value))
    return orjson.dumps(value).decode()


def scalar_text(value: Value) -> str | None:
    """Return the text of a text, number or boolean, as JSON shows it; ``None`` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, int | float) else None


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text.

    ``NaN``, ``Infinity`` and ``-Infinity``, which Python's ``json`` writes, become these texts. Raises ``ValueError``
    for everything else that is not JSON, also for lone surrogates and nesting past the parser's own limit.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if "NaN" not in text and "Infinity" not in text:
            raise
    try:  # Python's own parser knows the literals; orjson then rejects what that parser accepts wrongly.
        return orjson.loads(orjson.dumps(json.loads(text, parse_constant=str)))
    except (TypeError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc


def read_json(text: str, *, levels_max: int = LEVELS_MAX, name: str = "") -> Value:
    """Return the value that ``text`` holds, JSON-ready. ``name`` is the key that it gets, unless a convention names it.

    Escaped U+0000 and halves of surrogate pairs become U+FFFD, as in texts of spans (``common/codec/repair.py``).
    ``NaN``, ``Infinity`` and ``-Infinity``, which Python's ``json`` writes, become these texts. Raises ``NotJson`` for
    malformed JSON, nesting past ``levels_max``, the limit of attributes, and paths that take many times the text
    (``common/nesting.py``).
    """
    try:
        loaded = _parsed(text) if _NUL in text else _loads(text)
        members_count = _members_count(loaded, levels_max)
        value: Value = _ready(loaded, levels_max) if members_count == _UNREADY else loaded
    except ValueError as error:
        raise NotJson from error
    is_small = 0 <= members_count <= GROWTH_MAX
    if not is_small and isinstance(value, _CONTAINERS) and has_long_paths(name, value):
        raise NotJson
    return value


def _loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parsed(text)


def _parsed(text: str) -> Any:
    try:
        return parsed_json(_storable(text) if _NUL in text else text)
    except ValueError:
        if _SURROGATE.search(text) is None:
            raise
        return parsed_json(_storable(text))


def _storable(text: str) -> str:
    """Return JSON text with U+FFFD for escaped characters that cannot be stored. An escaped backslash before ``u0000``
    is a backslash, and stays.
    """
    return _ESCAPE.sub(lambda escape: escape[0] if escape[1] is None else r"\ufffd", text)


def _members_count(value: Any, levels: int) -> int:
    """Return how many members a parsed value has at all levels; ``_UNREADY`` if it cannot stay as it is, because of a
    double that should be an integer, or because it is nested too deep.

    Nearly all can stay. Checking takes a third of the time of copying.
    """
    kind = type(value)
    if kind is not dict and kind is not list:
        return _UNREADY if kind is float and value.is_integer() else 0
    if levels == 0:
        return _UNREADY
    count = len(value)
    for member in value.values() if kind is dict else value:
        kind = type(member)
        if kind is float:
            if member.is_integer():
                return _UNREADY
        elif kind is dict or kind is list:
            below = _members_count(member, levels - 1)
            if below == _UNREADY:
                return _UNREADY
            count += below
    return count


def _ready(value: Any, levels: int) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        raise NotJson
    if isinstance(value, dict):
        return {key: _ready(member, levels - 1) for key, member in value.items()}
    return [_ready(element, levels - 1) for element in value]
