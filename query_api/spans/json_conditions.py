"""Conditions on what a path leads to inside a column of JSON, as SQL.

Scalars are looked up in the map of leaves where the table keeps one (a typed text by its path), with the index over
``path=text`` before an equality. What leaves cannot tell is asked of the JSON text itself: whether a container is an object
or an array, and what stands in it. Facts about the engine's JSON functions that this rests on, each held by the
agreement test:

- They write a value anew: a double from 2^64 to 1e21 comes as bare digits, which read again are a text. So everything is taken
  from the document in one call, with the whole path as arguments; never from an extract of an extract.
- A number as argument is the position in an array **or object**: so a numbered segment first asks which of both it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

import orjson

from common.clickhouse.leaves import ALWAYS_OBJECT_PATHS, typed_text
from common.filter.ast import Condition, Operator
from common.filter.patterns import TEXT_OPERATORS
from common.filter.values import is_index, is_number
from query_api.spans import typed_text as typed_sql
from query_api.spans.fields import JsonColumn
from query_api.spans.parameters import Parameters
from query_api.spans.text_conditions import typed_text_condition

ITEM_TEXT_BYTES: Final = 64
"""So much of a typed text is in ``leaf_items``."""

Arguments: TypeAlias = tuple[str, ...]
"""A document and the way into it: what the engine's JSON functions take."""

BRANCHES_MAX: Final = 3
"""So many numbered segments double the expression each. Behind more of them an extract is read again, and a double from 2^64
to 1e21 that stands there is taken for a text."""

GUARDS_MAX: Final = 4
"""So many scalars of an object are looked up in the index before its JSON is read."""


def json_condition(condition: Condition, column: JsonColumn, parameters: Parameters) -> str:
    """The condition as an expression that is 0 or 1."""
    if any("\0" in segment for segment in condition.path):
        return "0"  # no key holds U+0000; in the map of leaves it stands for a dot inside a key
    place = _Place(column, condition.path, parameters)
    match condition.operator:
        case Operator.EXISTS:
            return place.exists()
        case Operator.IS:
            return place.equals(condition.operand)
        case Operator.IN:
            return place.is_in(condition.operand, is_all=condition.is_all)
        case Operator.HAS:
            return place.has(condition.operand)
        case name if name in TEXT_OPERATORS:
            return place.reads(condition)
        case order:
            return place.compares(order, condition.operand)


class _Place:
    """What a path leads to."""

    def __init__(self, column: JsonColumn, path: Sequence[str], parameters: Parameters) -> None:
        self._column = column
        self._path = tuple(path)
        self._parameters = parameters
        self._leaf_path = ".".join(segment.replace(".", "\0") for segment in path)
        self._is_branched = any(map(is_index, path[1:]))

    def typed(self) -> str:
        """The typed text of the scalar there; ``''`` where none stands."""
        if self._column.leaves is not None:
            return f"{self._column.leaves}[{self._parameters.text(self._leaf_path)}]"
        raw = self._json("JSONExtractRaw")
        return _let("raw", raw, typed_sql.of_json("raw")) if self._is_branched else typed_sql.of_json(raw)

    def compares(self, order: Operator, operand: Any) -> str:
        typed = self.typed()
        if self._column.leaves is None and self._is_branched:
            return _let("typed", typed, typed_sql.ordered("typed", order, operand, self._parameters))
        return typed_sql.ordered(typed, order, operand, self._parameters)

    def exists(self) -> str:
        if self._column.leaves is None:
            return f"({self._json('JSONExtractRaw')} NOT IN ('', 'null'))"
        if self._leaf_path in ALWAYS_OBJECT_PATHS:
            return "1"
        prefix = self._parameters.text(self._leaf_path + ".")
        beneath = f"arrayExists(path -> startsWith(path, {prefix}), mapKeys({self._column.leaves}))"
        return f"({self.typed()} != '' OR {beneath})"

    def equals(self, operand: Any) -> str:
        if isinstance(operand, Mapping | list):
            guards = [self._has_item(path, value) for path, value in islice(self._scalars_in(operand), GUARDS_MAX)]
            exact = self._at(lambda arguments: is_json(arguments, operand, self._parameters))
            return f"({' AND '.join([*guards, exact])})"
        if self._column.leaves is None:
            return f"({self.typed()} = {self._texts([operand])}[1])"
        found = self._has_item(self._leaf_path, operand)
        if _is_exact_item(self._leaf_path, typed_text(operand)):
            return found  # the index alone answers, and the map of leaves is not read
        return f"({found} AND {self.typed()} = {self._parameters.text(typed_text(operand))})"

    def reads(self, condition: Condition) -> str:
        """The scalar's text under a text operator."""
        if self._column.leaves is not None:
            return typed_text_condition(self.typed(), condition, self._parameters)
        shown = _let("typed", self.typed(), typed_sql.shown("typed"))
        return _let("shown", shown, typed_text_condition("shown", condition, self._parameters))

    def has(self, operand: Any) -> str:
        """An object with a key, or an array with an element."""
        holds = self.equals([operand]) if _is_container(operand) else self._holds([operand], is_all=True)
        if not isinstance(operand, str) or "\0" in operand:
            return holds
        member = _Place(self._column, (*self._path, operand), self._parameters)
        key = self._parameters.text(operand)
        is_there = self._at(lambda arguments: f"{_call('JSONExtractRaw', (*arguments, key))} NOT IN ('', 'null')")
        is_key = f"({member.exists()} AND {is_there})" if self._column.leaves is not None else is_there
        return f"({holds} OR {is_key} AND {self._json('JSONType')} = 'Object')"

    def is_in(self, operands: Any, *, is_all: bool) -> str:
        """A scalar that equals one (all) of ``operands``, or an array that holds one (all)."""
        distinct = {typed_text(operand): operand for operand in operands}
        if not distinct:
            return "0"
        wanted = list(distinct.values())
        scalar = "0" if is_all and len(wanted) > 1 else f"has({self._texts(wanted)}, {self.typed()})"
        return f"({scalar} OR {self._holds(wanted, is_all=is_all)})"

    def _holds(self, scalars: list[Any], *, is_all: bool) -> str:
        """An array that holds one (all) of ``scalars``."""
        found = f"{'hasAll' if is_all else 'hasAny'}({self._elements()}, {self._texts(scalars)})"
        return f"({found} AND {self._json('JSONType')} = 'Array')"

    def _elements(self) -> str:
        """The typed texts of what stands one level below, which are elements where the place is an array."""
        if self._column.leaves is None:
            element = typed_sql.of_json("element")
            return f"arrayMap(element -> {element}, {self._json('JSONExtractArrayRaw')})"
        prefix = self._leaf_path + "."
        rest = f"substring(path, {len(prefix.encode()) + 1})"
        is_below = f"startsWith(path, {self._parameters.text(prefix)}) AND position({rest}, '.') = 0"
        leaves = self._column.leaves
        return f"arrayFilter((leaf, path) -> {is_below}, mapValues({leaves}), mapKeys({leaves}))"

    def _texts(self, operands: list[Any]) -> str:
        """An array of the typed texts of scalars, written as those that they are compared with."""
        if self._column.leaves is not None or not any(map(is_number, operands)):
            return self._parameters.texts([typed_text(operand) for operand in operands])
        document = self._parameters.text(canonical_json(operands))
        return f"arrayMap(element -> {typed_sql.of_json('element')}, JSONExtractArrayRaw({document}))"

    def _scalars_in(self, operand: Any, path: str = "") -> Iterator[tuple[str, Any]]:
        """Leaves that a value must have which is ``operand``: what is reached through objects alone."""
        if self._column.leaf_items is None or not isinstance(operand, Mapping):
            return
        for key, member in operand.items():
            member_path = f"{path or self._leaf_path}.{key.replace('.', chr(0))}"
            if isinstance(member, Mapping):
                yield from self._scalars_in(member, member_path)
            elif member is not None and not isinstance(member, list):
                yield member_path, member

    def _has_item(self, path: str, scalar: Any) -> str:
        """Asks the index, which knows the beginning of a typed text; can be true of more rows than have the scalar."""
        parameters = self._parameters
        item = f"concat({parameters.text(path)}, '=', left({parameters.text(typed_text(scalar))}, {ITEM_TEXT_BYTES}))"
        return f"has({self._column.leaf_items}, {item})"

    def _json(self, function: str) -> str:
        return self._at(partial(_call, function))

    def _at(self, expression: Callable[[Arguments], str]) -> str:
        """``expression`` of the arguments that lead to the path, whichever its numbered segments turn out to be."""
        return self._behind((self._column.name,), self._path, expression, branches=0)

    def _behind(
        self, arguments: Arguments, rest: Sequence[str], expression: Callable[[Arguments], str], *, branches: int
    ) -> str:
        if not rest:
            return expression(arguments)
        segment, *rest = rest
        as_key = (*arguments, self._parameters.text(segment))
        if arguments == (self._column.name,) or not is_index(segment):
            return self._behind(as_key, rest, expression, branches=branches)
        if branches == BRANCHES_MAX:
            document = f"document{len(rest)}"
            below = self._behind((document,), [segment, *rest], expression, branches=0)
            return _let(document, _call("JSONExtractRaw", arguments), below)
        found = self._behind((*arguments, str(int(segment) + 1)), rest, expression, branches=branches + 1)
        otherwise = self._behind(as_key, rest, expression, branches=branches + 1)
        return f"if({_call('JSONType', arguments)} = 'Array', {found}, {otherwise})"


def is_json(arguments: Arguments, operand: Any, parameters: Parameters) -> str:
    """Whether what stands at ``arguments`` is the container ``operand``: by its members, or by its elements in any order."""
    if isinstance(operand, Mapping):
        return _is_object(arguments, operand, parameters)
    return _is_array(arguments, operand, parameters)


def _is_object(arguments: Arguments, operand: Mapping[str, Any], parameters: Parameters) -> str:
    clauses = [f"{_call('JSONType', arguments)} = 'Object'"]
    scalars = {key: value for key, value in operand.items() if value is not None and not _is_container(value)}
    nulls = [key for key, value in operand.items() if value is None]
    member = _call("JSONExtractRaw", (*arguments, "key"))
    if scalars:
        keys = parameters.texts(list(scalars))
        values = f"JSONExtractArrayRaw({parameters.text(canonical_json(list(scalars.values())))})"
        clauses.append(f"arrayAll((key, value) -> {member} = value, {keys}, {values})")
    if nulls:
        clauses.append(f"arrayAll(key -> {member} IN ('', 'null'), {parameters.texts(nulls)})")
    for key, value in operand.items():
        if _is_container(value):
            clauses.append(is_json((*arguments, parameters.text(key)), value, parameters))
    return f"({' AND '.join(clauses)})"


def _is_array(arguments: Arguments, operand: Sequence[Any], parameters: Parameters) -> str:
    clauses = [f"{_call('JSONType', arguments)} = 'Array'"]
    scalars = [value for value in operand if not _is_container(value)]
    if scalars:
        wanted = f"JSONExtractArrayRaw({parameters.text(canonical_json(scalars))})"
        clauses.append(f"hasAll({_call('JSONExtractArrayRaw', arguments)}, {wanted})")
    length = _call("JSONLength", arguments)
    for value in operand:
        if _is_container(value):
            position = f"position{len(arguments)}"  # inner lambdas have longer paths, so names do not clash
            found = is_json((*arguments, position), value, parameters)
            clauses.append(f"arrayExists({position} -> {found}, range(1, {length} + 1))")
    return f"({' AND '.join(clauses)})"


def _is_exact_item(path: str, typed: str) -> bool:
    """Whether no other leaf has the same item: the text is in it whole, and one ``=`` says where the path ends."""
    return len(typed.encode()) < ITEM_TEXT_BYTES and "=" not in path + typed


def _call(function: str, arguments: Arguments) -> str:
    return f"{function}({', '.join(arguments)})"


def _let(name: str, value: str, body: str) -> str:
    """``body`` with ``value`` under a name: written once, however often it is used. The engine has no other way for it."""
    return f"arrayMap({name} -> {body}, [{value}])[1]"


def _is_container(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def canonical_json(values: list[Any]) -> str:
    """Scalars as stored JSON has them: ``5.0`` is ``5``."""
    canonical = [
        int(value) if isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**64 else value
        for value in values
    ]
    return orjson.dumps(canonical).decode()
