"""Where the fields of a filter are stored: columns of the table ``spans``. Data only; what a field is: ``query_api/filter/fields.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from common.clickhouse.span_columns import NO_PARENT
from common.span import SPAN_TYPES, TRACE_TYPES, SpanKind, StatusCode
from query_api.filter.fields import SERVICE_NAME_PATH


@dataclass(frozen=True, slots=True)
class IdColumn:
    """16 bytes. ``absent`` is what stands there for none."""

    name: str
    absent: bytes | None = None


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Text; null where the span has none, if it can have none."""

    name: str
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class EnumColumn:
    """One of a few values, always there. ``stored`` maps the text of answers to what the column holds."""

    name: str
    kind: str
    stored: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """Microseconds since 1970, always there."""

    name: str


NOT_A_TEXT: Final = "\0"
"""In a column of texts (``service_name``): no text that is stored holds U+0000."""


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """JSON text, empty where the span has none. Where the table keeps them, ``leaves`` is the map of its scalars, ``leaf_items``
    are its entries in an index, and ``content`` has the words of its texts in another. ``texts`` maps a path to the column that has
    the text at it: ``''`` where nothing stands there, ``NOT_A_TEXT`` where something else does.
    """

    name: str
    leaves: str | None = None
    leaf_items: str | None = None
    content: str | None = None
    texts: Mapping[tuple[str, ...], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElementsColumn:
    """JSON text of an array of objects, empty where the span has none."""

    name: str


@dataclass(frozen=True, slots=True)
class ContentColumn:
    """The words of a span: see ``content_conditions.py``."""


Column = IdColumn | TextColumn | EnumColumn | TimeColumn | JsonColumn | ElementsColumn | ContentColumn

COLUMNS: Final[Mapping[str, Column]] = {
    "trace_id": IdColumn("trace_id"),
    "span_id": IdColumn("span_id"),
    "parent_id": IdColumn("parent_id", absent=NO_PARENT),
    "trace_type": EnumColumn("trace_type", "String", {name: name for name in TRACE_TYPES}),
    "span_type": EnumColumn("span_type", "String", {name: name for name in SPAN_TYPES}),
    "span_kind": EnumColumn("kind", "UInt8", {kind.name: kind.value for kind in SpanKind}),
    "status_code": EnumColumn("status_code", "UInt8", {code.name: code.value for code in StatusCode}),
    "span_name": TextColumn("name", is_nullable=False),
    "status_message": TextColumn("status_message", is_nullable=True),
    "session_id": TextColumn("session_id", is_nullable=True),
    "user_id": TextColumn("user_id", is_nullable=True),
    "agent_id": TextColumn("agent_id", is_nullable=True),
    "start_time": TimeColumn("start_us"),
    "end_time": TimeColumn("end_us"),
    "created_at": TimeColumn("stored_us"),
    "attributes": JsonColumn("attributes", leaves="leaves", leaf_items="leaf_items", content="content"),
    "resource": JsonColumn("resource", texts={SERVICE_NAME_PATH: "service_name"}),
    "scope": JsonColumn("scope"),
    **{name: ElementsColumn(name) for name in ("links", "references", "events", "hashes")},
    "content": ContentColumn(),
}
"""A field of the language that is not here is never present on a span: ``updated_at``, ``created_by_id`` and their like."""

IS_ROOT: Final = f"parent_id = toFixedString(unhex('{NO_PARENT.hex()}'), 16)"
"""A condition on a row of ``spans``."""
