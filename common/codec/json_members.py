"""What OTLP/JSON and ``span_json`` have in common: typed members of objects, and the parts of a span.

A function returns the value of a member, or raises a rejection that names the member. ``null`` means an absent member
everywhere, as in protobuf's JSON mapping.
"""

from __future__ import annotations

import base64
import binascii
import re
from abc import ABC, abstractmethod
from enum import IntEnum
from math import isinf
from typing import Any, ClassVar, Final

import orjson

from common.codec.checks import (
    SMALL_PARTS_MAX,
    Bounds,
    check_parts,
    invalid_type,
    json_bytes,
    json_double,
    shown,
    unknown_enum,
)
from common.codec.json_lenient import parse_leniently
from common.codec.repair import Faults, json_text
from common.errors import Rejected, RejectionCode
from common.json_values import INT64_MAX, INT64_MIN
from common.limits import SpanLimits
from common.nesting import nest
from common.span import RUNNING, Attributes, Event, Link, Resource, Scope

_ENDS: Final = ("end_time", "end_time_unix_nano")
UINT32_MAX: Final = 2**32 - 1
_EXACT_DOUBLE_MAX: Final = 2**53  # up to here every integer has its own double
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")
_ESCAPED_NULL: Final = rb"\u0000"


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


def parts_of(found: Any, where: str) -> list[Any]:
    """Return the events or links of a span, empty if absent."""
    parts = list_of(found, where)
    if len(parts) > SMALL_PARTS_MAX:
        check_parts(where, len(parts), _json_size(parts))
    return parts


def _json_size(parts: list[Any]) -> int:
    try:
        return len(orjson.dumps(parts))
    except orjson.JSONEncodeError:  # nested past 254 levels, or with half of a surrogate pair
        return len(json_text(parts, lambda part: part))


def otlp_scalar(kind: str, value: Any, where: str) -> bool | int | float | str:
    """Return the JSON-ready value of an OTLP scalar; ``kind`` is the name of its member."""
    if kind == "stringValue":
        return text_of(value, where)
    if kind == "intValue":
        return integer_of(value, where, minimum=INT64_MIN, maximum=INT64_MAX)
    if kind == "boolValue":
        if type(value) is not bool:
            raise invalid_type(where, value, "true or false")
        return value
    if kind == "doubleValue":
        return _double(value, where)
    raw = from_base64(value) if type(value) is str else None
    if raw is None:
        raise invalid_type(where, value, "base64 text")
    return json_bytes(raw)


def _double(value: Any, where: str) -> int | float | str:
    if type(value) is str and value in _NOT_FINITE:
        return json_double(float(value))
    if type(value) not in (int, float) and not (type(value) is str and _NUMBER.fullmatch(value)):
        raise invalid_type(where, value, 'a number, "NaN", "Infinity" or "-Infinity"')
    double = float(value)
    if isinf(double):  # as text; written as a number the parser rejects it
        raise invalid_type(where, value, 'a number that a double can hold, or "Infinity"')
    return json_double(double)


def from_base64(text: str) -> bytes | None:
    """Decode base64 in the standard or the URL-safe alphabet, padded or not; return ``None`` if it is not base64."""
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


class JsonReader(ABC):
    """Reads the parts of spans that both formats have; a subclass says how their members are spelled."""

    __slots__ = ("_bounds", "_faults")
    trace_state: ClassVar[str]
    dropped_attributes_count: ClassVar[str]

    def __init__(self, bounds: Bounds, record: bytes) -> None:
        self._bounds = bounds
        self._faults = Faults(bounds.nesting_depth_max, are_found=_ESCAPED_NULL in record)

    def parsed_alone(self, raw: bytes, where: str) -> Any:
        """Parse one piece of JSON, leniently if it must be. Raises ``Rejected``; ``where`` names the piece."""
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as exc:
            self._faults.are_found = True
            try:
                return parse_leniently(raw)
            except ValueError:
                raise Rejected(RejectionCode.UNDECODABLE, f"{where} is not JSON: {exc}.") from exc

    @abstractmethod
    def _attributes(self, found: Any, where: str) -> Attributes:
        """Return attributes as JSON-ready values."""

    def _dropped(self, members: dict[str, Any], where: str) -> int:
        name = self.dropped_attributes_count
        return count_of(members.get(name), f"{where}.{name}")

    def _resource(self, members: dict[str, Any], schema_url: str) -> Resource:
        resource = Resource(
            attributes=self._attributes(members.get("attributes"), "resource.attributes"),
            dropped_attributes_count=self._dropped(members, "resource"),
            schema_url=schema_url,
        )
        resource = self._faults.repaired_resource(resource)
        return resource._replace(attributes=nest(resource.attributes))

    def _scope(self, members: dict[str, Any], schema_url: str) -> Scope:
        scope = Scope(
            name=text_of(members.get("name"), "scope.name"),
            version=text_of(members.get("version"), "scope.version"),
            attributes=self._attributes(members.get("attributes"), "scope.attributes"),
            dropped_attributes_count=self._dropped(members, "scope"),
            schema_url=schema_url,
        )
        scope = self._faults.repaired_scope(scope)
        return scope._replace(attributes=nest(scope.attributes))

    def _event(self, members: dict[str, Any], time_ns: int) -> Event:
        return Event(
            name=text_of(members.get("name"), "events.name"),
            time_ns=time_ns,
            attributes=self._attributes(members.get("attributes"), "events.attributes"),
            dropped_attributes_count=self._dropped(members, "events"),
        )

    def _link(self, members: dict[str, Any], trace_id: bytes, span_id: bytes) -> Link:
        return Link(
            trace_id=trace_id,
            span_id=span_id,
            attributes=self._attributes(members.get("attributes"), "links.attributes"),
            trace_state=text_of(members.get(self.trace_state), f"links.{self.trace_state}"),
            flags=count_of(members.get("flags"), "links.flags"),
            dropped_attributes_count=self._dropped(members, "links"),
        )


def is_running(members: dict[str, Any]) -> bool:
    """Return whether a span is sent as running: by ``running``, or as responses show it, by ``state``."""
    running, state = members.get("running"), members.get("state")
    if running is not None and type(running) is not bool:
        raise invalid_type("running", running, "true or false")
    if state is not None and state != RUNNING:
        raise Rejected(RejectionCode.UNKNOWN_ENUM, f"state is {shown(state)}; allowed: “{RUNNING}”, or no such member.")
    if state is not None and running is False:
        raise Rejected(RejectionCode.INVALID_TYPE, "The span has state “running” and “running”: false; send one.")
    found = state is not None or running is True
    if found and (end := next((name for name in _ENDS if members.get(name) is not None), None)):
        raise Rejected(
            RejectionCode.INVALID_TYPE,
            f"The span is running and has {end}. A running span has no end: omit it, or “running” and “state”.",
        )
    return found


def parsed_whole(record: bytes, limits: SpanLimits) -> Any:
    """Return the document, or ``None`` if its spans must be parsed alone: to measure them, or to find the bad one."""
    if len(record) > limits.span_bytes_max:
        return None
    try:
        return orjson.loads(record)
    except orjson.JSONDecodeError:
        return None
