"""The fields that a filter may name, what each holds, and which operators it takes (reference §5.2; existence of every
scalar is a question too). Data only.

Where a field is stored is not known here: see ``query_api/filter/sql/columns.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, TypeAlias

from common.span import SPAN_TYPES, TRACE_TYPES, SpanKind, StatusCode


class Kind(Enum):
    """What a field holds; decides how its operands are read and compared."""

    TRACE_ID = auto()
    SPAN_ID = auto()
    ENUM = auto()
    TEXT = auto()
    TIME = auto()
    UUID = auto()
    JSON = auto()
    """Looked into by a dotted ``key``."""

    ELEMENTS = auto()
    """An array of objects, asked about element by element."""

    CONTENT = auto()
    """The words of a span: of every text in its attributes and events."""


class OperatorName(StrEnum):
    """Every operator as a request spells it; another one is 422."""

    IS = "is"
    IS_NOT = "is_not"
    EQ = "eq"
    NEQ = "neq"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    BTWN = "btwn"
    STARTSWITH = "startswith"
    ENDSWITH = "endswith"
    CONTAINS = "contains"
    MATCHES = "matches"
    LIKE = "like"
    IN = "in"
    NOT_IN = "not_in"
    HAS = "has"
    HAS_NOT = "has_not"
    EXISTS = "exists"
    NOT_EXISTS = "not_exists"


_Name: TypeAlias = OperatorName
_COMPARISON: Final = (_Name.IS, _Name.IS_NOT)
_NUMERIC: Final = (_Name.EQ, _Name.NEQ, _Name.GT, _Name.GTE, _Name.LT, _Name.LTE, _Name.BTWN)
_STRING: Final = (_Name.STARTSWITH, _Name.ENDSWITH, _Name.CONTAINS, _Name.MATCHES, _Name.LIKE)
_LIST: Final = (_Name.IN, _Name.NOT_IN)
_DICT: Final = (_Name.HAS, _Name.HAS_NOT)
_EXISTENCE: Final = (_Name.EXISTS, _Name.NOT_EXISTS)

LEGAL_OPERATORS: Final[Mapping[Kind, tuple[OperatorName, ...]]] = {
    Kind.TRACE_ID: (*_COMPARISON, *_LIST, *_EXISTENCE),
    Kind.SPAN_ID: (*_COMPARISON, *_LIST, *_EXISTENCE),
    Kind.ENUM: (*_COMPARISON, *_LIST, *_EXISTENCE),
    Kind.TEXT: (*_COMPARISON, *_NUMERIC, *_STRING, *_LIST, *_EXISTENCE),
    Kind.TIME: (*_COMPARISON, *_NUMERIC, *_STRING, *_LIST, *_EXISTENCE),
    Kind.UUID: (*_COMPARISON, *_LIST, *_EXISTENCE),
    Kind.JSON: tuple(OperatorName),
    Kind.ELEMENTS: (*_LIST, *_DICT, *_EXISTENCE),
    Kind.CONTENT: (_Name.CONTAINS,),
}


ATTRIBUTES: Final = "attributes"
"""The field, and the member of ``resource`` and ``scope``."""

SERVICE_NAME_PATH: Final = (ATTRIBUTES, "service", "name")
"""In ``resource``: which service sent the span."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``values`` are the texts of an enum; ``is_required`` where every span has one.

    ``members`` are those of a JSON field that has attributes: a key that is not one of them is a path in the attributes.
    """

    name: str
    kind: Kind
    is_required: bool = False
    values: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


FIELDS: Final[Mapping[str, Field]] = {
    field.name: field
    for field in (
        Field("trace_id", Kind.TRACE_ID, is_required=True),
        Field("span_id", Kind.SPAN_ID, is_required=True),
        Field("parent_id", Kind.SPAN_ID),
        Field("trace_type", Kind.ENUM, values=TRACE_TYPES),
        Field("span_type", Kind.ENUM, values=SPAN_TYPES),
        Field("span_kind", Kind.ENUM, values=tuple(kind.name for kind in SpanKind)),
        Field("status_code", Kind.ENUM, values=tuple(code.name for code in StatusCode)),
        Field("span_name", Kind.TEXT),
        Field("status_message", Kind.TEXT),
        Field("session_id", Kind.TEXT),
        Field("user_id", Kind.TEXT),
        Field("agent_id", Kind.TEXT),
        Field("start_time", Kind.TIME),
        Field("end_time", Kind.TIME),
        Field("created_at", Kind.TIME),
        Field("updated_at", Kind.TIME),
        Field("deleted_at", Kind.TIME),
        Field("created_by_id", Kind.UUID),
        Field("updated_by_id", Kind.UUID),
        Field("deleted_by_id", Kind.UUID),
        Field(ATTRIBUTES, Kind.JSON),
        Field("resource", Kind.JSON, members=(ATTRIBUTES, "schema_url", "dropped_attributes_count")),
        Field("scope", Kind.JSON, members=(ATTRIBUTES, "name", "version", "schema_url", "dropped_attributes_count")),
        Field("links", Kind.ELEMENTS),
        Field("references", Kind.ELEMENTS),
        Field("events", Kind.ELEMENTS),
        Field("hashes", Kind.ELEMENTS),
        Field("content", Kind.CONTENT),
    )
}
