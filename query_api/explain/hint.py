"""The hint of an explanation: what the engine's indexes did for a statement, and what would let them do more.

``EXPLAIN indexes = 1, json = 1`` is read for one project. The engine counts granules of the whole table until it has
applied the primary key. So the steps before that (partitions, their bounds) are left out, and the total is what the
primary key selects for the project alone. If other projects have keys, no plan is returned (``explain.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import orjson

from common.clickhouse.leaves import has_pair, typed_text
from common.clickhouse.select import LOCAL_SUFFIX
from common.span import PROMOTED_TEXTS
from query_api.filter.language import (
    OPERATORS,
    SERVICE_NAME,
    SHORTHANDS,
    Condition,
    GroupOperator,
    Node,
    OperandKind,
    Operator,
    ValuePlace,
)
from query_api.filter.text_search import words_of

Json: TypeAlias = Mapping[str, Any]

PRIMARY_KEY: Final = "primary key"
_BEFORE_THE_PROJECT: Final = frozenset({"Min-Max", "MinMax", "Partition"})


@dataclass(frozen=True, slots=True)
class IndexUse:
    """One index: its condition, and the granules before and after it."""

    name: str
    type: str
    condition: str
    granules_before: int
    granules_after: int


@dataclass(frozen=True, slots=True)
class TableRead:
    """One table of a statement, with its indexes in the order of their use. ``granules`` remain to be read."""

    table: str
    parts: int
    granules: int
    indexes: tuple[IndexUse, ...]


def table_reads(plan: bytes, *, of_project: Mapping[str, int]) -> list[TableRead]:
    """Return the tables that a plan reads. ``of_project`` counts the granules of each that hold rows of the project."""
    # Conditions show ids as raw bytes, which need not be UTF-8.
    nodes = _nodes(orjson.loads(plan.decode("utf-8", "replace")))
    return [_table_read(node, of_project) for node in nodes if "Indexes" in node]


def _nodes(value: Any) -> Iterator[Json]:
    """Yield every node of a plan, the outer before the inner."""
    if isinstance(value, list):
        for element in value:
            yield from _nodes(element)
    elif isinstance(value, dict):
        if "Node Type" in value:
            yield value
        for key in ("Plan", "Plans"):
            yield from _nodes(value.get(key))


def _table_read(node: Json, of_project: Mapping[str, int]) -> TableRead:
    table = str(node.get("Description", "")).rsplit(".", 1)[-1].removesuffix(LOCAL_SUFFIX)
    applied = [index for index in node["Indexes"] if index["Type"] not in _BEFORE_THE_PROJECT]
    if of_project.get(table) == 0:  # only granules in which two other projects meet remain
        applied = []
    uses = tuple(_index_use(index, of_project.get(table)) for index in applied)
    parts = int(applied[-1]["Selected Parts"]) if applied else 0
    return TableRead(table, parts, uses[-1].granules_after if uses else 0, uses)


def _index_use(index: Json, granules_of_project: int | None) -> IndexUse:
    after = int(index["Selected Granules"])
    condition = str(index.get("Condition", ""))
    if index["Type"] == "PrimaryKey":
        before = max(after, granules_of_project or 0)
        return IndexUse(PRIMARY_KEY, "sparse", condition, before, after)
    kind = str(index.get("Description", index["Type"])).split(" ", 1)[0]
    return IndexUse(str(index.get("Name", kind)), kind, condition, int(index["Initial Granules"]), after)


_SERVICE_NAME: Final = "`service.name` of the resource"
_OF_VALUES: Final = {
    "trace_id_index": "trace_id",
    "span_id_index": "span_id",
    "parent_id_index": "parent_id",
    "name_index": "span_name",
    **{f"{name}_index": name for name in PROMOTED_TEXTS},
    "service_name_index": _SERVICE_NAME,
}
INDEXED_FIELDS: Final[Mapping[str, str]] = {
    "leaf_pairs_index": "attributes",
    "leaf_paths_index": "the paths of attributes",
    "words_index": "content",
    "references_index": "references",
    **_OF_VALUES,
}
"""What each index of the table ``spans`` covers."""

_NEGATIONS: Final = frozenset({GroupOperator.NOT, GroupOperator.NAND, GroupOperator.NOR})
_BY_EQUALITY: Final = frozenset({Operator.IS, Operator.IN})
_IN_ORDER_OF_TABLE: Final = "start_time"


def hint(reads: Sequence[TableRead], filtering: Node | None, *, granules_read: int | None) -> str:
    """Return sentences about a scan. ``reads`` are its reads of ``spans``, one for each time slice.

    ``granules_read`` is how many were read before the page was full; ``None`` if unknown.
    """
    return " ".join([*_what_was_read(reads, filtering, granules_read), *_what_cannot_help(filtering)])


def static_hint(filtering: Node | None) -> str | None:
    """Return sentences that follow from the filter alone, whatever is stored; ``None`` if there are none."""
    usable = sorted(_usable_indexes(filtering)) if filtering is not None else []
    sentences = [f"The index on {field} can be used." for field in usable]
    return " ".join([*sentences, *_what_cannot_help(filtering)]) or None


def _usable_indexes(node: Node) -> frozenset[str]:
    """Return the fields whose index narrows the search for ``node``: every member of an ``or`` must have one."""
    if isinstance(node, Condition):
        return _usable_index(node)
    found = [_usable_indexes(member) for member in node.members]
    match node.operator:
        case GroupOperator.AND:
            return frozenset().union(*found)
        case GroupOperator.OR if all(found):
            return frozenset().union(*found)
        case _:
            return frozenset()


def _usable_index(condition: Condition) -> frozenset[str]:
    operator = condition.operator
    match _subject(condition):
        case "attributes" if operator in _BY_EQUALITY and _has_indexed_value(condition.operand):
            return frozenset({"attributes"})
        case "attributes" if _needs_path(operator) or _is_found_by_path(condition):
            return frozenset({"the paths of attributes"})
        case "references" if operator is Operator.IN:
            return frozenset({"references"})
        case "content" as field:
            return frozenset({field})
        case field if field in _OF_VALUES.values() and operator in _BY_EQUALITY:
            return frozenset({field})
        case _:
            return frozenset()


def _needs_path(operator: Operator) -> bool:
    """Whether a condition on attributes is evaluated only where the index of paths says that the path may occur."""
    match OPERATORS[operator].operand:
        case OperandKind.COMPARABLE | OperandKind.RANGE | OperandKind.LITERAL | OperandKind.PATTERN:
            return True
        case OperandKind.NOTHING | OperandKind.VALUE | OperandKind.MEMBER | OperandKind.LIST:
            return False
        case kind:
            assert_never(kind)


def _is_found_by_path(condition: Condition) -> bool:
    """Whether the condition is equality with a scalar that no index of values holds."""
    operand = condition.operand
    return condition.operator is Operator.IS and operand is not None and not isinstance(operand, Mapping | list)


def _has_indexed_value(operand: Any) -> bool:
    """Return whether an index holds something of each match.

    That is a short scalar or a word of a text, one of these in an object, or a word of each text in a list.
    """
    if isinstance(operand, Mapping):
        return any(_has_indexed_value(member) for member in operand.values() if not isinstance(member, list))
    if isinstance(operand, list):
        return all(isinstance(value, str) and words_of(value) for value in operand)
    if operand is None:
        return False
    return has_pair(typed_text(operand)) or (isinstance(operand, str) and bool(words_of(operand)))


def _what_was_read(reads: Sequence[TableRead], filtering: Node | None, granules_read: int | None) -> Iterator[str]:
    in_window = sum(_after_primary_key(read) for read in reads)
    used = [use for read in reads for use in read.indexes if use.name in INDEXED_FIELDS]
    if in_window == 0:
        yield "Nothing was read: there are no spans in the window."
        return
    yield from _what_indexes_left(used)
    left = sum(read.granules for read in reads)
    fields = {condition.field for condition, _ in _conditions(filtering)}
    if left < in_window:
        return
    if granules_read is not None and granules_read < in_window:
        yield f"Spans were read in order until the page was full: {granules_read:,} of {in_window:,} granules."
    elif used:
        yield "Every span of the window was read: according to the index, every granule may hold a match."
    elif not fields:
        yield "Every span of the window was read: there is no condition."
    elif fields == {_IN_ORDER_OF_TABLE}:
        yield "Every span of the window was read: the conditions on `start_time` only narrowed the window."
    else:
        yield (
            "Every span of the window was read: no condition could use an index. Add one that can (`is` or `in`"
            " on attributes, ids, `span_name` or `service.name` of the resource; `references`; `content`), or bound"
            " the window (`oldest`, `newest`)."
        )


def _what_indexes_left(used: Sequence[IndexUse]) -> Iterator[str]:
    for name in dict.fromkeys(use.name for use in used):
        uses = [use for use in used if use.name == name]
        field = INDEXED_FIELDS.get(name, name)
        before, after = sum(use.granules_before for use in uses), sum(use.granules_after for use in uses)
        yield f"The index on {field} left {after:,} of {before:,} granules."


def _what_cannot_help(filtering: Node | None) -> Iterator[str]:
    conditions = list(_conditions(filtering))
    if any(is_negated for _, is_negated in conditions):
        yield "`not` (and `is_not`, `not_in`, `has_not`, `not_exists`) cannot use an index: it holds only what exists."
    on_attributes = _not_by_equality(condition for condition, _ in conditions if _subject(condition) == "attributes")
    if on_attributes:
        yield (
            f"On attributes an index holds values for equality (`is`, `in`), and for {on_attributes} at most"
            " the existing paths; `content` finds whole words by index."
        )
    subjects = {_subject(condition) for condition, _ in conditions}
    for field in sorted(subjects & set(_OF_VALUES.values())):
        if operators := _not_by_equality(condition for condition, _ in conditions if _subject(condition) == field):
            yield f"The index on {field} is for equality (`is`, `in`), not for {operators}."
    without = subjects - {*INDEXED_FIELDS.values(), _IN_ORDER_OF_TABLE}
    if without:
        yield f"No index holds {', '.join(sorted(without))}."


def _subject(condition: Condition) -> str:
    """Return what an index must cover: the field, or the one path that has its own index."""
    [place, *_] = SHORTHANDS.get(condition.field) or [ValuePlace(condition.field, condition.path)]
    return _SERVICE_NAME if place == SERVICE_NAME else place.field


def _not_by_equality(conditions: Iterable[Condition]) -> str:
    return ", ".join(
        f"`{operator}`" for operator in sorted({condition.operator for condition in conditions} - _BY_EQUALITY)
    )


def _conditions(node: Node | None, *, is_negated: bool = False) -> Iterator[tuple[Condition, bool]]:
    """Yield every condition, and whether it is inside a negation."""
    match node:
        case None:
            return
        case Condition():
            yield node, is_negated
        case _:
            for member in node.members:
                yield from _conditions(member, is_negated=is_negated or node.operator in _NEGATIONS)


def _after_primary_key(read: TableRead) -> int:
    return next((use.granules_after for use in read.indexes if use.name == PRIMARY_KEY), read.granules)
