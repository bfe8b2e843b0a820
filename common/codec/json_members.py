"""Typed members of JSON objects, as OTLP/JSON and ``span_json`` read them: the value, or a refusal that names the member.

``null`` is an absent member everywhere, as in protobuf's JSON mapping.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

import orjson

from common.codec.checks import invalid_type, unknown_enum
from common.errors import Rejected, RejectionCode

UINT32_MAX: Final = 2**32 - 1
_EXACT_DOUBLE_MAX: Final = 2**53  # up to here every integer is a double of its own
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")


def text_of(found: Any, where: str) -> str:
    """A text, empty when absent."""
    if found is None:
        return ""
    if type(found) is not str:
        raise invalid_type(where, found, "text")
    return found


def integer_of(found: Any, where: str, *, minimum: int, maximum: int) -> int:
    """An integer, 0 when absent: a number, or its decimal digits as text, as 64 bits are written in JSON."""
    if type(found) is int:
        number: int | None = found
    elif found is None:
        return 0
    elif type(found) is str:
        number = int(found) if _INTEGER.fullmatch(found) else None
    elif type(found) is float and found.is_integer() and abs(found) <= _EXACT_DOUBLE_MAX:
        number = int(found)
    else:
        number = None
    if number is None or not minimum <= number <= maximum:
        raise invalid_type(where, found, f"an integer from {minimum} to {maximum}")
    return number


def count_of(found: Any, where: str) -> int:
    """An unsigned integer of 32 bits, 0 when absent."""
    return integer_of(found, where, minimum=0, maximum=UINT32_MAX)


def enum_of(found: Any, where: str, members: type[IntEnum]) -> int:
    """The number of an enum's member that is given by number or by name, 0 when absent."""
    if found is None:
        return 0
    if type(found) is int and 0 <= found < len(members):
        return found
    if type(found) is str and found in members.__members__:
        return members[found].value
    raise unknown_enum(where, found, f"a {members.__name__}, by name or as 0 to {len(members) - 1}")


def object_of(found: Any, where: str) -> dict[str, Any]:
    """An object, empty when absent."""
    if found is None:
        return {}
    if type(found) is not dict:
        raise invalid_type(where, found, "an object")
    return found


def list_of(found: Any, where: str) -> list[Any]:
    """An array, empty when absent."""
    if found is None:
        return []
    if type(found) is not list:
        raise invalid_type(where, found, "an array")
    return found


def parsed_alone(raw: bytes, where: str, *, nesting_depth_max: int) -> Any:
    """The value of one piece of JSON. Raises ``Rejected`` with the code of what is wrong with it."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise _fault(raw, where, str(exc), nesting_depth_max) from exc


def _fault(raw: bytes, where: str, words: str, nesting_depth_max: int) -> Rejected:
    try:
        raw.decode()
    except UnicodeDecodeError as exc:
        return Rejected(RejectionCode.INVALID_UTF8, f"{where} is not UTF-8 at its byte {exc.start}; text must be.")
    if "depth limit" in words:
        return Rejected(
            RejectionCode.NESTING_TOO_DEEP, f"{where} is nested deeper than the limit of {nesting_depth_max} levels."
        )
    if "surrogate" in words:
        return Rejected(RejectionCode.INVALID_UTF8, f"{where} holds half of a surrogate pair, which is no character.")
    if b"\0" in raw:
        return Rejected(RejectionCode.NULL_CHARACTER, f"{where} holds the character U+0000, which no text may hold.")
    return Rejected(RejectionCode.UNDECODABLE, f"{where} is not JSON: {words}.")
