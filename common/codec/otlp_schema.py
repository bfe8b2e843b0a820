"""OTLP's messages with the rare ones flattened to ``bytes``, as ``otlp_columns`` parses them. The wire is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

PACKAGE: Final = "clearspan.otlp"
_STRING, _BYTES, _BOOL, _DOUBLE = (
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_BYTES,
    FieldDescriptorProto.TYPE_BOOL,
    FieldDescriptorProto.TYPE_DOUBLE,
)
_INT32, _INT64, _UINT32 = (
    FieldDescriptorProto.TYPE_INT32,
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_UINT32,
)
_FIXED32, _FIXED64 = FieldDescriptorProto.TYPE_FIXED32, FieldDescriptorProto.TYPE_FIXED64

STRING, BOOL, INT, DOUBLE, ARRAY, KVLIST, BYTES = range(1, 8)
"""The kinds of values, by their field numbers in ``AnyValue``; 0 is a value that is not set."""

VALUE_FIELDS: Final = {
    STRING: "string_value",
    BOOL: "bool_value",
    INT: "int_value",
    DOUBLE: "double_value",
    ARRAY: "array_value",
    KVLIST: "kvlist_value",
    BYTES: "bytes_value",
}
_VALUE_TYPES: Final = {STRING: _STRING, BOOL: _BOOL, INT: _INT64, DOUBLE: _DOUBLE}

Fields: TypeAlias = tuple[tuple[str, int, int | str, str], ...]
"""Name, number, type or message of each field, and whether it is repeated or optional."""

Messages: TypeAlias = Mapping[str, Fields]
"""Messages by name."""

SCHEMA: Final[Messages] = {
    "AnyValue": tuple((name, kind, _VALUE_TYPES.get(kind, _BYTES), "optional") for kind, name in VALUE_FIELDS.items()),
    "KeyValue": (("key", 1, _STRING, ""), ("value", 2, "AnyValue", "")),
    "Status": (("message", 2, _STRING, "optional"), ("code", 3, _INT32, "optional")),
    "Span": (
        ("trace_id", 1, _BYTES, "optional"),
        ("span_id", 2, _BYTES, "optional"),
        ("trace_state", 3, _STRING, "optional"),
        ("parent_span_id", 4, _BYTES, "optional"),
        ("name", 5, _STRING, "optional"),
        ("kind", 6, _INT32, "optional"),
        ("start_time_unix_nano", 7, _FIXED64, "optional"),
        ("end_time_unix_nano", 8, _FIXED64, "optional"),
        ("attributes", 9, "KeyValue", "repeated"),
        ("dropped_attributes_count", 10, _UINT32, "optional"),
        ("events", 11, _BYTES, "repeated"),
        ("dropped_events_count", 12, _UINT32, "optional"),
        ("links", 13, _BYTES, "repeated"),
        ("dropped_links_count", 14, _UINT32, "optional"),
        ("status", 15, "Status", ""),
        ("flags", 16, _FIXED32, "optional"),
    ),
    "ScopeSpans": (
        ("scope", 1, _BYTES, "optional"),
        ("spans", 2, "Span", "repeated"),
        ("schema_url", 3, _STRING, "optional"),
    ),
    "ResourceSpans": (
        ("resource", 1, _BYTES, "optional"),
        ("scope_spans", 2, "ScopeSpans", "repeated"),
        ("schema_url", 3, _STRING, "optional"),
    ),
    "Request": (("resource_spans", 1, "ResourceSpans", "repeated"),),
}
"""The flattened messages. Numbers are those of opentelemetry-proto; an enum is an ``int32`` on the wire.

Fields are optional, although they are not in OTLP: so it is known which zeros are on the wire. The Collector writes an
empty ``parent_span_id`` for a root, JavaScript's SDK writes all counts.
"""

_PARTS: Final = {"events": "Event", "links": "Link"}


def _with_bytes(fields: Fields) -> Fields:
    return tuple((name, number, _BYTES if kind == _STRING else kind, rule) for name, number, kind, rule in fields)


CHECKED: Final[Messages] = {
    "AnyValue": tuple(field for field in _with_bytes(SCHEMA["AnyValue"]) if field[1] not in (ARRAY, KVLIST)),
    "KeyValue": _with_bytes(SCHEMA["KeyValue"]),
    "Status": _with_bytes(SCHEMA["Status"]),
    "Event": (
        ("time_unix_nano", 1, _FIXED64, "optional"),
        ("name", 2, _BYTES, "optional"),
        ("attributes", 3, "KeyValue", "repeated"),
        ("dropped_attributes_count", 4, _UINT32, "optional"),
    ),
    "Link": (
        ("trace_id", 1, _BYTES, "optional"),
        ("span_id", 2, _BYTES, "optional"),
        ("trace_state", 3, _BYTES, "optional"),
        ("attributes", 4, "KeyValue", "repeated"),
        ("dropped_attributes_count", 5, _UINT32, "optional"),
        ("flags", 6, _FIXED32, "optional"),
    ),
    "Span": tuple(
        (name, number, _PARTS.get(name, kind), rule) for name, number, kind, rule in _with_bytes(SCHEMA["Span"])
    ),
    "ScopeSpans": (("spans", 2, "Span", "repeated"),),
}
"""The messages of spans as ``query_api/intake/protobuf_check.py`` parses them: with events and links, texts as bytes,
and without arrays and objects, which are unknown fields."""


def schema_file(package: str = PACKAGE, messages: Messages = SCHEMA) -> FileDescriptorProto:
    """Return messages, by default the flattened ones, as a file of protobuf."""
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for message_name, fields in messages.items():
        message = file.message_type.add(name=message_name)
        for name, number, kind, rule in fields:
            field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if isinstance(kind, str):
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                field.type = kind  # type: ignore[assignment] # the stub wants the enum, which is an int
            if rule == "repeated":
                field.label = FieldDescriptorProto.LABEL_REPEATED
            elif rule == "optional":
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{name}")
    return file
