"""The language of filters: fields, operators, and the tree that ``parse`` builds from a request (reference §5.2).

Only data, except ``did_you_mean``; ``matches`` and the SQL compiler interpret the tree. Where a field is stored:
``query_api/filter/sql/compile.py``. To add an operator, add a member and a row of ``OPERATORS``; mypy then lists each
``match`` that must handle it.

The tree is in normal form, so that the interpreters stay small: ``is_not``, ``not_in``, ``has_not`` and ``not_exists``
are a ``not`` around the operator that they negate (contract §3.2: exact complements), ``is null`` is ``not exists``,
``has`` on a field of elements is ``in``, and operands are in the form in which the field is compared (``operands.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, StrEnum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from common.span import PROMOTED_TEXTS, RUNNING, SPAN_TYPES, TRACE_TYPES, SpanKind, StatusCode


class Kind(Enum):
    """What a field holds; decides how operands are read and compared."""

    TRACE_ID = auto()
    SPAN_ID = auto()
    ENUM = auto()
    TEXT = auto()
    TIME = auto()
    UUID = auto()
    JSON = auto()
    """JSON; a dotted ``key`` selects a value in it."""

    ELEMENTS = auto()
    """An array of objects; a condition looks for matching elements."""

    CONTENT = auto()
    """The words of all texts in the attributes and events of a span."""

    SCORES = auto()
    """Scores of the span; ``key`` is the name of one, as it is. The newest of that name counts."""

    SHORTHAND = auto()
    """A scalar that is kept elsewhere or computed: ``SHORTHANDS``."""


class Operator(StrEnum):
    """The comparison of a condition. Any other name is rejected with 422."""

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


class OperandKind(Enum):
    """What an operator takes as ``value``."""

    NOTHING = auto()
    VALUE = auto()
    """A value of the field's kind, or null."""

    MEMBER = auto()
    """The key of an object or an element of an array; on ``Kind.ELEMENTS`` the value at ``key``."""

    COMPARABLE = auto()
    """A number, a string or a time."""

    RANGE = auto()
    """A list of two comparable values of one type."""

    LIST = auto()
    """At most ``operands.LIST_VALUES_MAX`` scalars; on ``Kind.ELEMENTS`` partial elements."""

    LITERAL = auto()
    """Text to find as it is; numbers and booleans are taken as their text."""

    PATTERN = auto()
    """A pattern that RE2 must compile, within the limits of ``Total``."""


class OperatorRule(NamedTuple):
    """What an operator takes, on which kinds of field, and the operator whose exact complement it is."""

    operand: OperandKind
    kinds: frozenset[Kind]
    negates: Operator | None = None


_ORDERED: Final = frozenset({Kind.TEXT, Kind.TIME, Kind.JSON, Kind.SCORES, Kind.SHORTHAND})
_SCALARS: Final = _ORDERED | {Kind.TRACE_ID, Kind.SPAN_ID, Kind.ENUM, Kind.UUID}
_HAVE_MEMBERS: Final = frozenset({Kind.JSON, Kind.SCORES, Kind.ELEMENTS})

OPERATORS: Final[Mapping[Operator, OperatorRule]] = {
    Operator.IS: OperatorRule(OperandKind.VALUE, _SCALARS),
    Operator.IS_NOT: OperatorRule(OperandKind.VALUE, _SCALARS, negates=Operator.IS),
    Operator.EQ: OperatorRule(OperandKind.COMPARABLE, _ORDERED),
    Operator.NEQ: OperatorRule(OperandKind.COMPARABLE, _ORDERED),
    Operator.GT: OperatorRule(OperandKind.COMPARABLE, _ORDERED),
    Operator.GTE: OperatorRule(OperandKind.COMPARABLE, _ORDERED),
    Operator.LT: OperatorRule(OperandKind.COMPARABLE, _ORDERED),
    Operator.LTE: OperatorRule(OperandKind.COMPARABLE, _ORDERED),
    Operator.BTWN: OperatorRule(OperandKind.RANGE, _ORDERED),
    Operator.STARTSWITH: OperatorRule(OperandKind.LITERAL, _ORDERED),
    Operator.ENDSWITH: OperatorRule(OperandKind.LITERAL, _ORDERED),
    Operator.CONTAINS: OperatorRule(OperandKind.LITERAL, _ORDERED | {Kind.CONTENT}),
    Operator.MATCHES: OperatorRule(OperandKind.PATTERN, _ORDERED),
    Operator.LIKE: OperatorRule(OperandKind.PATTERN, _ORDERED),
    Operator.IN: OperatorRule(OperandKind.LIST, _SCALARS | {Kind.ELEMENTS}),
    Operator.NOT_IN: OperatorRule(OperandKind.LIST, _SCALARS | {Kind.ELEMENTS}, negates=Operator.IN),
    Operator.HAS: OperatorRule(OperandKind.MEMBER, _HAVE_MEMBERS),
    Operator.HAS_NOT: OperatorRule(OperandKind.MEMBER, _HAVE_MEMBERS, negates=Operator.HAS),
    Operator.EXISTS: OperatorRule(OperandKind.NOTHING, _SCALARS | {Kind.ELEMENTS}),
    Operator.NOT_EXISTS: OperatorRule(OperandKind.NOTHING, _SCALARS | {Kind.ELEMENTS}, negates=Operator.EXISTS),
}

ALLOWED_OPERATORS: Final[Mapping[Kind, tuple[Operator, ...]]] = {
    kind: tuple(operator for operator in Operator if kind in OPERATORS[operator].kinds) for kind in Kind
}

WITHOUT_KEY: Final = (Operator.EXISTS, Operator.NOT_EXISTS)
"""The operators of ``Kind.SCORES`` that need no ``key``: whether there is any score."""

SCORES: Final = "scores"

ATTRIBUTES: Final = "attributes"
"""The field, and the member of ``resource`` and ``scope``."""

OPERATION: Final = "operation"
"""The shorthand for the name of a span with ``*`` instead of ids: names that differ by ids are one operation."""

ID_IN_NAME: Final = (
    "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{16,}|[0-9]{6,}"
)
"""An id in the name of a span: a UUID, a long hexadecimal number, or a number of six digits or more. Python and RE2
read it alike.
"""

DURATION: Final = "duration"
"""The shorthand for the milliseconds from ``start_time`` to ``end_time``, absent while the span is running."""

STATE: Final = "state"
"""The field that only running spans have."""

SETTLED: Final = "settled"
"""The field that the spans of a trace have once it has settled."""

SETTLING_REASONS: Final = ("complete", "incomplete")

COST: Final = "cost"


def is_cost_path(path: Sequence[str]) -> bool:
    """Return whether the numbers at a path in ``attributes`` are amounts of money."""
    return tuple(path[:3]) == ("ag", "metrics", "costs")


class ValuePlace(NamedTuple):
    """Where a value of a span is: a field, and the path in it if the field holds JSON, or the name of a score."""

    field: str
    path: tuple[str, ...] = ()

    @property
    def is_cost(self) -> bool:
        """Whether the value is an amount of money (``common/usage.py``)."""
        return self.field == COST or (self.field == ATTRIBUTES and is_cost_path(self.path))


SERVICE_NAME: Final = ValuePlace("resource", (ATTRIBUTES, "service", "name"))
"""The service that sent the span."""


def _in_ag(*path: str) -> ValuePlace:
    return ValuePlace(ATTRIBUTES, ("ag", *path))


SHORTHANDS: Final[Mapping[str, tuple[ValuePlace, ...]]] = {
    DURATION: (),
    OPERATION: (),
    "service": (SERVICE_NAME,),
    "model": (_in_ag("meta", "response", "model"), _in_ag("meta", "request", "model")),
    "provider": (_in_ag("meta", "system"),),
    "session": (_in_ag("session", "id"),),
    "user": (_in_ag("user", "id"),),
    "tokens": (_in_ag("metrics", "tokens", "incremental", "total"),),
    COST: (_in_ag("metrics", "costs", "incremental", "total"),),
}
"""Shorthand → where its value is: at the first of the places that has a leaf (``common/clickhouse/leaves.py``), or at
the last. An object or array that holds a scalar has none. ``duration`` (contract §3.5) and ``operation`` are
computed."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field. ``values`` are the texts of an enum; ``is_required`` means that every span has it.

    ``members`` are those of a JSON field that has attributes: a key that is none of them is a path in the attributes.
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
        Field(STATE, Kind.ENUM, values=(RUNNING,)),
        Field(SETTLED, Kind.ENUM, values=SETTLING_REASONS),
        Field("span_kind", Kind.ENUM, values=tuple(kind.name for kind in SpanKind)),
        Field("status_code", Kind.ENUM, values=tuple(code.name for code in StatusCode)),
        *(Field(name, Kind.TEXT) for name in ("span_name", "status_message", *PROMOTED_TEXTS)),
        *(Field(name, Kind.TIME) for name in ("start_time", "end_time", "created_at", "updated_at", "deleted_at")),
        *(Field(name, Kind.UUID) for name in ("created_by_id", "updated_by_id", "deleted_by_id")),
        Field(ATTRIBUTES, Kind.JSON),
        Field("resource", Kind.JSON, members=(ATTRIBUTES, "schema_url", "dropped_attributes_count")),
        Field("scope", Kind.JSON, members=(ATTRIBUTES, "name", "version", "schema_url", "dropped_attributes_count")),
        *(Field(name, Kind.ELEMENTS) for name in ("links", "references", "events", "hashes")),
        Field(SCORES, Kind.SCORES),
        Field("content", Kind.CONTENT),
        *(Field(name, Kind.TEXT if name == OPERATION else Kind.SHORTHAND) for name in SHORTHANDS),
    )
}

NAME_LENGTH_MAX: Final = 64
"""Characters of a wrong name that a message quotes."""


def did_you_mean(name: str) -> str:
    """Return a sentence with the field whose name is most like a wrong one, after a space; empty if none is like it."""
    found = get_close_matches(name[:NAME_LENGTH_MAX].lower(), FIELDS, n=1)
    return f" Did you mean '{found[0]}'?" if found else ""


# Limits of a whole filter. The limits of one condition do not bound a filter that is near several of them. What a
# statement costs before it reads a row follows from the values that it carries, the *steps* into JSON that it spells
# out, the sums of traces that it asks for, and its patterns. A path or text that the engine looks up as a whole takes
# one step. `sql/compile.py` limits the size of what a filter compiles to.

VALUES_MAX: Final = 40_000
"""Values of lists, members and elements in them, and words of ``content``. Four full lists: parsing them takes about 50
ms."""

STEPS_MAX: Final = 4_096
"""Steps into JSON. Each is about 30 bytes of a statement, and the engine takes seconds to plan a megabyte of them."""

SUMS_MAX: Final = 8
"""Conditions on sums over traces, or on how they settled: each reads the whole project."""

PATTERNS_SIZE_MAX: Final = 128 * 1024
"""RE2 instructions of every ``like`` and ``matches`` of a filter together. A pattern of 64 KiB that is mostly literal
has half of it, ``\\pL{100}`` nearly all."""

PATTERNS_LENGTH_MAX: Final = 128 * 1024
"""Characters of the same patterns, checked before any is compiled: a character takes up to 1 µs."""

UNICODE_CLASSES_MAX: Final = 256
"""Unicode classes (``\\pL``) in the same patterns, checked before any is compiled: each takes RE2 up to 0.1 ms."""


class Total(Enum):
    """What is counted in a whole filter: the limit, and the message past it."""

    VALUES = (
        VALUES_MAX,
        "the filter holds more than {} values in total, counting values of lists and objects, and words.",
    )
    STEPS = (
        STEPS_MAX,
        "the keys, objects and arrays of the filter take more than {} steps into JSON in total: use shorter keys, fewer"
        " numbers in keys, or fewer objects and arrays.",
    )
    SUMS = (SUMS_MAX, "more than {} conditions on cumulative metrics and `settled` in one filter.")
    PATTERNS_SIZE = (PATTERNS_SIZE_MAX, "the patterns of the filter have more than {} RE2 instructions in total.")
    PATTERNS_LENGTH = (PATTERNS_LENGTH_MAX, "the patterns of the filter have more than {} characters in total.")
    UNICODE_CLASSES = (UNICODE_CLASSES_MAX, "the patterns of the filter have more than {} classes like \\pL in total.")


Operand: TypeAlias = str | int | float | bool | Mapping[str, Any] | Sequence[Any] | None


class GroupOperator(StrEnum):
    """How the conditions of a group combine. A group without conditions is true, whatever its operator."""

    AND = "and"
    OR = "or"
    NOT = "not"
    NAND = "nand"
    NOR = "nor"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on one field; ``operator`` is never a negation.

    ``path`` are the segments of ``key`` on a field that holds JSON, the whole ``key`` on scores, else empty.
    ``operand`` is a list for ``btwn`` (two values) and ``in`` (on a field of elements: a list of partial elements), a
    text for a text operator, ``None`` for ``exists``. With ``is_all``, ``in`` asks for every value of its list. Only
    text operators read ``is_case_sensitive`` and ``is_exact`` (``text_search.py``).
    """

    field: str
    operator: Operator
    operand: Operand = None
    path: tuple[str, ...] = ()
    is_all: bool = False
    is_case_sensitive: bool = False
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Members combined by one Boolean function."""

    operator: GroupOperator
    members: tuple[Node, ...] = ()


Node: TypeAlias = Condition | Group

EVERYTHING = Group(GroupOperator.AND)
"""The filter without conditions."""


class NotNormalError(TypeError):
    """A condition has a negated operator, or an operator that its field does not take: ``parse`` makes neither."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(f"not in normal form: {condition.field} {condition.operator}")


def flattened(partial: Mapping[str, Any]) -> dict[tuple[str, ...], Any] | None:
    """Return the scalars of a partial element by the keys that lead to them.

    ``None`` if an array, a null or an empty object is among them, because then the scalars do not say everything.
    """
    flat: dict[tuple[str, ...], Any] = {}
    level: list[tuple[tuple[str, ...], Any]] = [((name,), value) for name, value in partial.items()]
    while level:
        keys, value = level.pop()
        if isinstance(value, Mapping) and value:
            level.extend(((*keys, key), member) for key, member in value.items())
        elif value is None or isinstance(value, Mapping | list):
            return None
        else:
            flat[keys] = value
    return flat


_ABOVE_SUMS: Final = {("ag",), ("ag", "metrics"), *(("ag", "metrics", name) for name in ("tokens", "costs", "errors"))}
"""Objects above a ``cumulative`` that responses show as a sum over the trace."""


def is_sum(place: ValuePlace) -> bool:
    """Return whether responses show sums over the whole trace at a place, or below it, on a root."""
    return place.field == ATTRIBUTES and sums_at(place.path, Operator.EXISTS, None) > 0


def sums_at(path: tuple[str, ...], operator: Operator, operand: Any) -> int:
    """How many sums over a trace a condition needs; a condition on an object above may need several."""
    if path not in _ABOVE_SUMS:
        return int(path[:3] in _ABOVE_SUMS and path[3:4] == ("cumulative",))
    if operator is Operator.IS and isinstance(operand, Mapping):
        return sum(sums_at((*path, key), Operator.IS, value) for key, value in operand.items())
    if operator is Operator.HAS and isinstance(operand, str):
        return sums_at((*path, operand), Operator.EXISTS, None)
    return 0
