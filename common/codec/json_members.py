"""Typed members of JSON objects in OTLP/JSON and ``span_json``: return the value, or raise a rejection that names the
member.

``null`` means an absent member everywhere, as in protobuf's JSON mapping.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from enum import IntEnum
from math import isinf
from typing import Any, Final

import orjson

from common.codec.checks import invalid_type, json_bytes, json_double, unknown_enum
from common.errors import Rejected, RejectionCode
from common.json_numbers import INT64_MAX, INT64_MIN

UINT32_MAX: Final = 2**32 - 1
_EXACT_DOUBLE_MAX: Final = 2**53  # up to here every integer is a double of its own
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")


def text_of(found: Any, where: str) -> str:
    """Return a text, empty if absent."""
    if found is None:
        return ""
    if type(found) is not str:
        raise invalid_type(where, found, "text")
    return found


def integer_of(found: Any, where: str, *, minimum: int, maximum: int) -> int:
    """Return an integer, 0 if absent: sent as a number, or as text of decimal digits, as JSON carries 64 bits."""
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
    """Return an unsigned integer of 32 bits, 0 if absent."""
    return integer_of(found, where, minimum=0, maximum=UINT32_MAX)


def enum_of(found: Any, where: str, members: type[IntEnum]) -> int:
    """Return the number of an enum's member, sent as number or name, 0 if absent."""
    if found is None:
        return 0
    if type(found) is int and 0 <= found < len(members):
        return found
    if type(found) is str and found in members.__members__:
        return members[found].value
    raise unknown_enum(where, found, f"a {members.__name__}, by name or as 0 to {len(members) - 1}")


def object_of(found: Any, where: str) -> dict[str, Any]:
    """Return an object, empty if absent."""
    if found is None:
        return {}
    if type(found) is not dict:
        raise invalid_type(where, found, "an object")
    return found


def list_of(found: Any, where: str) -> list[Any]:
    """Return an array, empty if absent."""
    if found is None:
        return []
    if type(found) is not list:
        raise invalid_type(where, found, "an array")
    return found


def _string_value(value: Any, where: str) -> str:
    return text_of(value, f"{where}.stringValue")


def _bool_value(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise invalid_type(f"{where}.boolValue", value, "true or false")
    return value


def _int_value(value: Any, where: str) -> int:
    return integer_of(value, f"{where}.intValue", minimum=INT64_MIN, maximum=INT64_MAX)


def _double_value(value: Any, where: str) -> int | float | str:
    is_number = type(value) in (int, float)
    if type(value) is str and value in _NOT_FINITE:
        return json_double(float(value))
    if not is_number and not (type(value) is str and _NUMBER.fullmatch(value)):
        raise invalid_type(f"{where}.doubleValue", value, 'a number, "NaN", "Infinity" or "-Infinity"')
    double = float(value)
    if isinf(double):  # as text; written as a number the parser refuses it
        raise invalid_type(f"{where}.doubleValue", value, 'a number that a double can hold, or "Infinity"')
    return json_double(double)


def _bytes_value(value: Any, where: str) -> str:
    raw = from_base64(value) if type(value) is str else None
    if raw is None:
        raise invalid_type(f"{where}.bytesValue", value, "base64 text")
    return json_bytes(raw)


def from_base64(text: str) -> bytes | None:
    """Return the bytes of base64 in the standard or the URL-safe alphabet, padded or not; ``None`` if it is not base64."""
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


OTLP_SCALARS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "stringValue": _string_value,
    "boolValue": _bool_value,
    "intValue": _int_value,
    "doubleValue": _double_value,
    "bytesValue": _bytes_value,
}
"""Reads a scalar by the kind of its OTLP value; the second argument names the value in errors."""


def parsed_alone(raw: bytes, where: str, *, nesting_depth_max: int) -> Any:
    """Parse one piece of JSON. Raises ``Rejected`` with the code of what is wrong with it."""
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
        return Rejected(
            RejectionCode.INVALID_UTF8, f"{where} holds half of a surrogate pair, which is not a character."
        )
    if b"\0" in raw:
        return Rejected(RejectionCode.NULL_CHARACTER, f"{where} holds the character U+0000, which no text may hold.")
    return Rejected(RejectionCode.UNDECODABLE, f"{where} is not JSON: {words}.")
