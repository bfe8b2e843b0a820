"""From the shape of a filter to its tree: which operator a field takes, and the limits of a tree. Operands: ``operands.py``.

Raises ``InvalidFilter`` with the JSON path of what is wrong, as in ``filtering.conditions[1].operator``, what is wrong
with it, and what would be legal. Source: contract §3.2, reference §5.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from common.errors import InvalidFilter
from query_api.filter.ast import EVERYTHING, Condition, Group, GroupOperator, Node, Operand, Operator
from query_api.filter.elements import read_pair, read_partials
from query_api.filter.fields import ATTRIBUTES, FIELDS, LEGAL_OPERATORS, Field, Kind
from query_api.filter.models import ConditionModel, FilteringModel, Options
from query_api.filter.operands import (
    check_size,
    read_comparable,
    read_content,
    read_ends,
    read_pattern,
    read_scalars,
    reader,
)
from query_api.filter.patterns import TEXT_OPERATORS, PatternTotals
from query_api.filter.totals import Totals

GROUPS_DEPTH_MAX: Final = 16
"""The outermost group is at depth 1."""

CONDITIONS_MAX: Final = 256
MEMBERS_MAX: Final = CONDITIONS_MAX * (GROUPS_DEPTH_MAX + 1)
"""Conditions and groups of a filter together: past it there are too many conditions, or groups with none in them, which stand for
true and cost as much to validate and to compile."""

PATH_SEGMENTS_MAX: Final = 256
"""Of a key: many times deeper than attributes nest. What compiles a path goes down it step by step."""

_NEGATED: Final = {"is_not": "is", "not_in": "in", "has_not": "has", "not_exists": "exists"}
_KEYED: Final = frozenset({"has", "has_not"})
_ORDERS: Final = frozenset({"eq", "neq", "gt", "gte", "lt", "lte"})
_NO_OPTIONS: Final = Options()


def parse(filtering: FilteringModel | None, *, path: str = "filtering") -> Node:
    """The tree of a filter; ``None`` is the filter without conditions. ``path`` is where it stood in the request."""
    if filtering is None:
        return EVERYTHING
    return _Parser().group(filtering, path, depth=1)


def check_groups(filtering: Any, *, path: str = "filtering") -> None:
    """Refuse a filter, still plain JSON, whose groups nest too deep or that has too many members, before anything walks it by
    recursion or validates each of them."""
    level, depth, members_count = [filtering], 0, 0
    while level:
        depth += 1
        if depth > GROUPS_DEPTH_MAX + 1:  # conditions stand one level below the innermost group
            raise _too_deep(path)
        level = [
            member
            for group in level
            if isinstance(group, dict) and isinstance(group.get("conditions"), list)
            for member in group["conditions"]
        ]
        members_count += len(level)
        if members_count > MEMBERS_MAX:
            raise InvalidFilter(
                path, f"more than {MEMBERS_MAX} conditions and groups; legal are {CONDITIONS_MAX} conditions."
            )


class _Parser:
    """One filter; counts its conditions, and what they ask for together."""

    def __init__(self) -> None:
        self._conditions_count = 0
        self._patterns = PatternTotals()
        self._totals = Totals()

    def group(self, model: FilteringModel, path: str, *, depth: int) -> Group:
        if depth > GROUPS_DEPTH_MAX:
            raise _too_deep(path)
        members: list[Node] = []
        for index, member in enumerate(model.conditions):
            at = f"{path}.conditions[{index}]"
            if isinstance(member, FilteringModel):
                members.append(self.group(member, at, depth=depth + 1))
            else:
                members.append(self._condition(member, at))
        return Group(model.operator, tuple(members))

    def _condition(self, model: ConditionModel, path: str) -> Node:
        self._conditions_count += 1
        if self._conditions_count > CONDITIONS_MAX:
            raise InvalidFilter(path, f"more than {CONDITIONS_MAX} conditions in one filter.")
        field = _field(model, path)
        segments = _segments(model, field, path)
        name = str(model.operator)
        positive = _positive(field, segments, model, _NEGATED.get(name, name), path)
        if isinstance(positive, Condition) and positive.operator in TEXT_OPERATORS:
            self._count_pattern(positive, f"{path}.value")
        self._totals.add(
            positive if isinstance(positive, Condition) else Condition(field.name, Operator.EXISTS, path=segments), path
        )
        return Group(GroupOperator.NOT, (positive,)) if name in _NEGATED else positive

    def _count_pattern(self, condition: Condition, at: str) -> None:
        try:
            self._patterns.add(condition)
        except ValueError as exc:
            raise InvalidFilter(at, f"{exc}.") from exc


def _positive(field: Field, segments: tuple[str, ...], model: ConditionModel, name: str, path: str) -> Node:
    value, at = model.value, f"{path}.value"
    if name == "exists":
        if value is not None and field.kind is not Kind.JSON:
            raise InvalidFilter(at, f"'{field.name}' value is not supported for existence operators.")
        return Condition(field.name, Operator.EXISTS, path=segments)
    if name == "is" and value is None:
        if field.is_required:
            raise InvalidFilter(at, f"'{field.name}' is required and thus never null.")
        return Group(GroupOperator.NOT, (Condition(field.name, Operator.EXISTS, path=segments),))
    options = model.options or _NO_OPTIONS
    return Condition(
        field.name,
        Operator.IN if field.kind is Kind.ELEMENTS else Operator(name),
        _operand(field, name, model, path),
        segments,
        is_all=name == "in" and options.all is True,
        is_case_sensitive=name in TEXT_OPERATORS and options.case_sensitive is True,
        is_exact=name in TEXT_OPERATORS and options.exact_match is True,
    )


def _field(model: ConditionModel, path: str) -> Field:
    field = FIELDS.get(model.field)
    if field is None:
        raise InvalidFilter(f"{path}.field", f"'{model.field[:64]}' is not a field; legal: {', '.join(FIELDS)}.")
    name = model.operator
    legal = LEGAL_OPERATORS[field.kind]
    if name not in legal:
        raise InvalidFilter(f"{path}.operator", _not_taken(field, name, legal))
    return field


def _not_taken(field: Field, name: str, legal: Iterable[str]) -> str:
    if field.kind is Kind.CONTENT:
        return "'content' only supports full-text search operator: 'contains'."
    if field.kind is Kind.ELEMENTS:
        return f"'{field.name}' only supports list, dict, and existence operators: {', '.join(legal)}."
    return f"'{field.name}' does not take '{name}'; legal: {', '.join(legal)}."


def _segments(model: ConditionModel, field: Field, path: str) -> tuple[str, ...]:
    at = f"{path}.key"
    if field.kind is Kind.ELEMENTS:
        if model.key is not None and model.operator not in _KEYED:
            raise InvalidFilter(at, f"'{field.name}' key is only supported for dict operators.")
        return ()
    if field.kind is not Kind.JSON:
        if model.key is not None:
            having = ", ".join(each.name for each in FIELDS.values() if each.kind is Kind.JSON)
            raise InvalidFilter(at, f"'{field.name}' has no keys; fields that have: {having}.")
        return ()
    if model.key is None:
        raise InvalidFilter(
            at, f"'{field.name}' key is required and thus never null: a dotted path, as in ag.type.span."
        )
    check_size(model.key, at)
    segments = tuple(model.key.split("."))
    if len(segments) > PATH_SEGMENTS_MAX:
        raise InvalidFilter(at, f"a path of {len(segments)} segments; {PATH_SEGMENTS_MAX} are legal.")
    return segments if _is_whole_path(segments, field) else (ATTRIBUTES, *segments)


def _is_whole_path(segments: tuple[str, ...], field: Field) -> bool:
    """Whether a key begins at the field itself, not at its attributes: a member of ``resource`` or ``scope`` names itself."""
    return not field.members or segments[0] == ATTRIBUTES or (len(segments) == 1 and segments[0] in field.members)


def _operand(field: Field, name: str, model: ConditionModel, path: str) -> Operand:
    value, at = model.value, f"{path}.value"
    if field.kind is Kind.CONTENT:
        return read_content(value, at)
    if field.kind is Kind.ELEMENTS:
        return read_partials(field, value, at) if name == "in" else read_pair(field, model.key, value, path)
    if name in _ORDERS:
        return read_comparable(field, value, at)
    if name == "btwn":
        return read_ends(field, value, at)
    if name == "in":
        return read_scalars(field, value, at)
    if name in TEXT_OPERATORS:
        return read_pattern(value, at)
    if name == "has" and value is None:
        raise InvalidFilter(at, "'has' takes the key of an object, or an element of an array.")
    operand: Operand = reader(field)(value, at)
    return operand


def _too_deep(path: str) -> InvalidFilter:
    return InvalidFilter(path, f"groups are nested deeper than {GROUPS_DEPTH_MAX}.")
