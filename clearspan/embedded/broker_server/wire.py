"""Kafka's wire format: reading requests and writing responses by the layouts of ``messages.py``.

Source: Kafka protocol guide, "Protocol Primitive Types" and "Request and Response Headers".
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

Message: TypeAlias = dict[str, Any]

ELEMENTS_MAX: Final = 20_000
"""Elements of all arrays of one request. A request is small, but what Python makes of its elements is not."""

_NUMBERS: Final = {
    name: struct.Struct(f">{code}") for name, code in zip(["i8", "i16", "i32", "i64"], "bhiq", strict=True)
}
_BOOLEAN: Final = struct.Struct(">?")
_FIELD: Final = re.compile(r"(?P<name>\w+)(?:@(?P<since>\d+)(?:-(?P<until>\d+))?)?:(?P<kind>\[\]\w+|\[|\w+)|\]")
_API: Final = re.compile(r"(\d+) (\w+) (\d+)-(\d+)(?: flexible (\d+))?\n  >([^<>]*)\n  <([^<>]*)\n(?! )")


class InvalidMessage(Exception):
    """Bytes that are no message of this layout."""


class MessageField(NamedTuple):
    """A field of one version of a message: a primitive type, or an array with ``members`` or of ``element``."""

    name: str
    kind: str
    members: Sequence[MessageField] = ()
    element: str = ""


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request: its versions, and the layouts of requests and responses over all of them.

    A layout lists ``name:type`` or ``name@since:type`` or ``name@since-until:type``; an array of structures has its
    members in brackets, an array of primitives is ``[]type``. Every text, array and run of bytes may be null.
    """

    key: int
    name: str
    versions: range
    flexible_since: int
    request: str
    response: str

    def is_flexible(self, version: int) -> bool:
        """Return whether lengths are varints, and structures end in tagged fields, in this version."""
        return version >= self.flexible_since


def read_apis(text: str) -> dict[int, Api]:
    """Read a table of requests (``messages.py``)."""
    return {
        int(key): Api(int(key), name, range(int(first), int(last) + 1), int(flexible or 100), request, response)
        for key, name, first, last, flexible, request, response in _API.findall(text)
    }


@cache
def layout_of(text: str, version: int) -> Sequence[MessageField]:
    """Return the fields of a layout that a version has."""
    return _fields(_FIELD.finditer(text), version)


def _fields(tokens: Iterator[re.Match[str]], version: int) -> Sequence[MessageField]:
    fields = []
    for token in tokens:
        name, since, until, kind = token.group("name", "since", "until", "kind")
        if name is None:
            break
        members = _fields(tokens, version) if kind == "[" else ()
        if int(since or 0) <= version <= int(until or version):
            is_list = kind.startswith("[]")
            fields.append(MessageField(name, "[" if is_list else kind, members, kind[2:] if is_list else ""))
    return tuple(fields)


class Reader:
    """Reads a request. Raises ``InvalidMessage`` if it is too short, or has too many elements."""

    def __init__(self, frame: bytes) -> None:
        self._frame = memoryview(frame)
        self._position = 0
        self._elements_left = ELEMENTS_MAX
        self.is_flexible = False

    def message(self, fields: Sequence[MessageField]) -> Message:
        """Read a structure."""
        message = {field.name: self._array(field) if field.kind == "[" else self.value(field.kind) for field in fields}
        self.skip_tags()
        return message

    def value(self, kind: str) -> Any:
        """Read a primitive value; ``bytes`` are a view of the frame."""
        if number := _NUMBERS.get(kind):
            return number.unpack(self._take(number.size))[0]
        if kind == "bool":
            return self._take(1)[0] != 0
        if kind == "uuid":
            return uuid.UUID(bytes=bytes(self._take(16)))
        short = kind == "str"
        length = self._varint() - 1 if self.is_flexible else self.value("i16" if short else "i32")
        if length < 0:
            return None
        data = self._take(length)
        try:
            return str(data, "utf-8") if short else data
        except UnicodeDecodeError as exc:
            raise InvalidMessage("a text is not UTF-8") from exc

    def skip_tags(self) -> None:
        """Pass the tagged fields at the end of a structure."""
        for _ in range(self._varint() if self.is_flexible else 0):
            self._varint()
            self._take(self._varint())

    def _array(self, field: MessageField) -> list[Any] | None:
        count = self._varint() - 1 if self.is_flexible else self.value("i32")
        if count < 0:
            return None
        self._elements_left -= count
        if self._elements_left < 0:
            raise InvalidMessage(f"more than {ELEMENTS_MAX} elements")
        if field.element:
            return [self.value(field.element) for _ in range(count)]
        return [self.message(field.members) for _ in range(count)]

    def _take(self, length: int) -> memoryview:
        start, self._position = self._position, self._position + length
        if self._position > len(self._frame):
            raise InvalidMessage("it ends too early")
        return self._frame[start : self._position]

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise InvalidMessage("a varint of more than 5 bytes")


def write_message(fields: Sequence[MessageField], message: Message, parts: list[Any], *, is_flexible: bool) -> None:
    """Append the bytes of a structure to ``parts``. Absent numbers are 0, absent arrays empty, absent texts null."""
    for name, kind, members, element in fields:
        value = message.get(name)
        if kind != "[":
            _write_value(kind, value, parts, is_flexible=is_flexible)
            continue
        elements = value or ()
        _write_length(len(elements), "i32", parts, is_flexible=is_flexible)
        for each in elements:
            if element:
                _write_value(element, each, parts, is_flexible=is_flexible)
            else:
                write_message(members, each, parts, is_flexible=is_flexible)
    if is_flexible:
        parts.append(b"\x00")


def _write_value(kind: str, value: Any, parts: list[Any], *, is_flexible: bool) -> None:
    if number := _NUMBERS.get(kind):
        parts.append(number.pack(value or 0))
    elif kind == "bool":
        parts.append(_BOOLEAN.pack(bool(value)))
    elif kind == "uuid":
        parts.append(value.bytes)
    else:
        data = value.encode() if isinstance(value, str) else value
        _write_length(
            -1 if data is None else len(data), "i16" if kind == "str" else "i32", parts, is_flexible=is_flexible
        )
        parts.append(data or b"")


def _write_length(length: int, kind: str, parts: list[Any], *, is_flexible: bool) -> None:
    if not is_flexible:
        parts.append(_NUMBERS[kind].pack(length))
        return
    number, varint = length + 1, bytearray()
    while number >= 0x80:
        varint.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(bytes([*varint, number]))
