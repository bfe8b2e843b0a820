"""Messages of protobuf that its parser rejects for a text that is not UTF-8 or for their depth (contract §4): read them
all the same.

A message is read when it is asked for, field by field, so it may be nested as deep as it likes, and nothing is copied.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from common.codec.protobuf_cut import FIXED32, FIXED64, LEN, VARINT, BrokenWire, delimited_fields, fields, varint_at
from common.codec.repair import decoded_text
from common.errors import Rejected, RejectionCode

Extent: TypeAlias = tuple[int, int]
"""Where a message, or a part of one, begins and ends."""

FIELDS_MAX: Final = 200_000
"""Fields that are read of a span, or of a resource or scope: one takes ten times as long as the parser needs for it."""


class _FieldsLeft:
    """How many further fields of a message and those in it may be read."""

    def __init__(self) -> None:
        self._count = FIELDS_MAX

    def take(self) -> None:
        """Count one. Raises ``Rejected`` if it is one too many."""
        self._count -= 1
        if self._count < 0:
            raise Rejected(
                RejectionCode.SPAN_TOO_LARGE,
                f"The message has a text that is not UTF-8, or too many levels, and more than {FIELDS_MAX} fields: too"
                " many to repair it.",
            )


class LenientMessage:
    """A message like those of the parser, as far as spans are read from it. Raises ``BrokenWire`` if it is none.

    ``descriptor`` is that of its type. A message that was sent in several parts, which protobuf merges, has several
    ``extents``. Raises ``Rejected`` if it has more than ``FIELDS_MAX`` fields, with those of the messages in it.
    """

    __slots__ = ("DESCRIPTOR", "_extents", "_fields_left", "_members", "_value")

    def __init__(
        self, descriptor: Any, value: bytes, extents: Sequence[Extent], fields_left: _FieldsLeft | None = None
    ) -> None:
        self.DESCRIPTOR = descriptor
        self._fields_left = _FieldsLeft() if fields_left is None else fields_left
        self._value = value
        self._extents = extents
        self._members: dict[str, list[Any]] = {}
        for extent in extents:
            for number, wire_type, _, start, end in fields(value, *extent):
                self._fields_left.take()
                field = descriptor.fields_by_number.get(number)
                if field is not None and _WIRE_TYPES.get(field.type) == wire_type:
                    self._add(field, start, end)

    def _add(self, field: Any, start: int, end: int) -> None:
        """Keep a field; the last member of a ``oneof`` wins."""
        for other in field.containing_oneof.fields if field.containing_oneof else ():
            if other.name != field.name:
                self._members.pop(other.name, None)
        self._members.setdefault(field.name, []).append((start, end))

    def __getattr__(self, name: str) -> Any:
        """Return a field, its default if it is absent."""
        field = self.DESCRIPTOR.fields_by_name[name]
        extents = self._members.get(name, [])
        if field.is_repeated:
            return [self._content(field, [extent]) for extent in extents]
        if field.message_type is not None:
            return self._content(field, extents)
        return self._content(field, extents[-1:]) if extents else field.default_value

    def WhichOneof(self, name: str) -> str | None:  # noqa: N802 - the parser's name
        """Return the member of a ``oneof`` that is set."""
        members = self.DESCRIPTOR.oneofs_by_name[name].fields
        return next((member.name for member in members if member.name in self._members), None)

    def ByteSize(self) -> int:  # noqa: N802 - the parser's name
        """Return how many bytes the message has."""
        return sum(end - start for start, end in self._extents)

    def _content(self, field: Any, extents: Sequence[Extent]) -> Any:
        if field.message_type is not None:
            return LenientMessage(field.message_type, self._value, extents, self._fields_left)
        (start, end) = extents[0]
        raw = self._value[start:end]
        if field.type == field.TYPE_STRING:
            return decoded_text(raw)
        if field.type == field.TYPE_BYTES:
            return raw
        if field.type in _FIXED:
            return struct.unpack(_FIXED[field.type], raw)[0]
        return _INTEGERS[field.type](varint_at(self._value, start, end)[0])


def _signed(bits: int, number: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


_FIXED: Final = {
    FieldDescriptor.TYPE_DOUBLE: "<d",
    FieldDescriptor.TYPE_FIXED64: "<Q",
    FieldDescriptor.TYPE_FIXED32: "<I",
}
_INTEGERS: Final[Mapping[int, Callable[[int], int]]] = {
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_UINT32: lambda number: number & 0xFFFFFFFF,
    FieldDescriptor.TYPE_INT32: partial(_signed, 32),
    FieldDescriptor.TYPE_ENUM: partial(_signed, 32),
    FieldDescriptor.TYPE_INT64: partial(_signed, 64),
}
_WIRE_TYPES: Final = {
    FieldDescriptor.TYPE_STRING: LEN,
    FieldDescriptor.TYPE_BYTES: LEN,
    FieldDescriptor.TYPE_MESSAGE: LEN,
    FieldDescriptor.TYPE_DOUBLE: FIXED64,
    FieldDescriptor.TYPE_FIXED64: FIXED64,
    FieldDescriptor.TYPE_FIXED32: FIXED32,
    **dict.fromkeys(_INTEGERS, VARINT),
}
"""The types of fields that OTLP's messages of spans have. A field of another wire type is unknown."""


def first_field(raw: bytes) -> bytes | None:
    """Return the first field 1 of a message that may be broken: of a span its trace id."""
    try:
        return next((raw[start:end] for start, end in delimited_fields(raw, (0, len(raw)), 1)), None)
    except BrokenWire:
        return None
