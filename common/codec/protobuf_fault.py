"""Why protobuf's parser rejects a message: the first text that is not UTF-8, nesting, or a part that ends too early.

The parser itself does not say. Knows the names of the messages in which OTLP wraps values.
"""

from __future__ import annotations

from typing import Any, Final

from common.codec.checks import KEY_SHOWN_MAX, nesting_too_deep
from common.codec.protobuf_cut import LEN, BrokenWire, delimited_fields, fields, is_utf8
from common.errors import Rejected, RejectionCode

_MESSAGES_DEPTH_MAX: Final = 100  # protobuf's own limit on messages inside messages
_VALUE_WRAPPERS: Final = frozenset({"AnyValue", "ArrayValue", "KeyValueList"})


def fault_of(descriptor: Any, raw: bytes, *, depth_max: int) -> Rejected | None:
    """Return why the parser rejects the bytes of a message; ``None`` if no fault is found. ``depth_max`` is the limit
    of levels that a message about nesting names.
    """
    return _fault(descriptor, raw, "", _MESSAGES_DEPTH_MAX, depth_max)


def _fault(descriptor: Any, raw: bytes, where: str, levels_left: int, depth_max: int) -> Rejected | None:
    if levels_left == 0:
        return nesting_too_deep(where, depth_max)
    try:
        for number, wire_type, _, start, end in fields(raw, 0, len(raw)):
            known = descriptor.fields_by_number.get(number)
            if known is None or wire_type != LEN:
                continue
            content = raw[start:end]
            place = _place(descriptor, known, content, where)
            fault = None
            if known.message_type is not None:
                fault = _fault(known.message_type, content, place, levels_left - 1, depth_max)
            elif known.type == known.TYPE_STRING and not is_utf8(content):
                fault = Rejected(RejectionCode.INVALID_UTF8, f"{place} is not UTF-8; text must be UTF-8.")
            if fault is not None:
                return fault
    except BrokenWire as exc:
        return Rejected(RejectionCode.UNDECODABLE, f"{where or descriptor.name} is not a message of protobuf: {exc}.")
    return None


def _place(descriptor: Any, known: Any, content: bytes, where: str) -> str:
    """Return how an error names a field: members by name, attributes by key, the wrappers of a value not at all."""
    if descriptor.name in _VALUE_WRAPPERS:
        return where
    if descriptor.name == "KeyValue":
        return where if known.message_type is not None else f"A key in {where.rpartition('.')[0]}"
    place = f"{where}.{known.name}" if where else str(known.name)
    if known.message_type is None or known.message_type.name != "KeyValue":
        return place
    key = first_field(content) or b""
    return f"{place}.{key[:KEY_SHOWN_MAX].decode(errors='replace')}"


def first_field(raw: bytes) -> bytes | None:
    """Return the first field 1 of a message that may be broken: of a span its trace id, of an attribute its key."""
    try:
        return next((raw[start:end] for start, end in delimited_fields(raw, (0, len(raw)), 1)), None)
    except BrokenWire:
        return None
