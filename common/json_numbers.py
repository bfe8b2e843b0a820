"""JSON numbers as the product reads, compares and writes them.

An integer within 64 bits is exact; every other number is a double (contract §4).
"""

from __future__ import annotations

from typing import Final

import orjson

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


def is_number(value: object) -> bool:
    """Return whether a value is a JSON number: a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


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
