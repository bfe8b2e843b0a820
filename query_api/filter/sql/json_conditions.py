"""Conditions on what a path leads to inside a column of JSON, as SQL.

Scalars are looked up in the map of leaves where the table keeps one (a typed text by its path), with the index over
``path=text`` before an equality. What leaves cannot tell is asked of the JSON text itself: whether a container is an object
or an array, and what stands in it. Facts about the engine's JSON functions that this rests on, each held by the
agreement test:

- They write a value anew: a double from 2^64 to 1e21 comes as bare digits, which read again are a text. So everything is taken
  from the document in one call, with the whole path as arguments; never from an extract of an extract.
- A number as argument is the position in an array **or object**: so of a numbered segment the position is looked up first, by
  what stands there, and the way goes on from it. A path costs what it is long, however many of its segments are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

import orjson

from common.clickhouse.leaves import ALWAYS_OBJECT_PATHS, typed_text
from common.json_numbers import json_number
from query_api.filter.ast import Condition, Operator
from query_api.filter.patterns import TEXT_OPERATORS
from query_api.filter.sql import typed_text as typed_sql
from query_api.filter.sql.columns import NOT_A_TEXT, JsonColumn
from query_api.filter.sql.parameters import Parameters
from query_api.filter.sql.text_conditions import typed_text_condition
from query_api.filter.sql.typed_text import let
from query_api.filter.totals import LEVELS_MAX
from query_api.filter.values import is_index, is_number
from query_api.filter.words import words_of

ITEM_TEXT_BYTES: Final = 64
"""So much of a typed text is in ``leaf_items``."""

Arguments: TypeAlias = tuple[str, ...]
"""A document and the way into it: what the engine's JSON functions take."""

GUARDS_MAX: Final = 4
"""So many scalars of an object are looked up in the index before its JSON is read."""

LOOKED_UP_MAX: Final = 1_000
"""So many texts of a list are looked up: more of them are in most granules anyway."""


def json_condition(condition: Condition, column: JsonColumn, parameters: Parameters) -> str:
    """The condition as an expression that is 0 or 1."""
    if any("\0" in segment for segment in condition.path) or len(condition.path) > LEVELS_MAX:
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
        self._text_column = column.texts.get(self._path)
        self._leaf_path = ".".join(segment.replace(".", "\0") for segment in path)

    def typed(self) -> str:
        """The typed text of the scalar there; ``''`` where none stands."""
        if self._column.leaves is not None:
            return f"{self._column.leaves}[{self._parameters.text(self._leaf_path)}]"
        return let("raw", self._json("JSONExtractRaw"), typed_sql.of_json("raw"))

    def compares(self, order: Operator, operand: Any) -> str:
        if order is Operator.EQ and isinstance(operand, str):
            return self.equals(operand)
        if self._column.leaves is None:
            return let("typed", self.typed(), typed_sql.ordered("typed", order, operand, self._parameters))
        return self._where_it_occurs(typed_sql.ordered(self.typed(), order, operand, self._parameters))

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
            guards += self._has_words(operand)
            exact = self._at(lambda arguments: is_json(arguments, operand, self._parameters))
            return f"({' AND '.join([*guards, exact])})"
        if self._column.leaves is None:
            if self._text_column is not None and _is_in_text_column(operand):
                return f"({self._text_column} = {self._parameters.text(operand)})"
            return f"({self.typed()} = {self._texts([operand])}[1])"
        found = self._has_item(self._leaf_path, operand)
        if _is_exact_item(self._leaf_path, typed_text(operand)):
            return found  # the index alone answers, and the map of leaves is not read
        return f"({found} AND {self.typed()} = {self._parameters.text(typed_text(operand))})"

    def reads(self, condition: Condition) -> str:
        """The scalar's text under a text operator."""
        if self._column.leaves is not None:
            return self._where_it_occurs(typed_text_condition(self.typed(), condition, self._parameters))
        shown = let("typed", self.typed(), typed_sql.shown("typed"))
        return let("shown", shown, typed_text_condition("shown", condition, self._parameters))

    def _where_it_occurs(self, comparison: str) -> str:
        """The comparison of a scalar, made only where the index of paths says that there may be one. A hint is true of every row."""
        return f"(indexHint(mapContains({self._column.leaves}, {self._parameters.text(self._leaf_path)})) AND {comparison})"

    def has(self, operand: Any) -> str:
        """An object with a key, or an array with an element."""
        if is_container(operand):
            return self.equals([operand])
        if not isinstance(operand, str) or "\0" in operand:
            return self._holds([operand], is_all=True)
        held, key = self._has_elements([operand], is_all=True), self._parameters.text(operand)

        def is_so(arguments: Arguments) -> str:
            is_member = f"{_call('JSONExtractRaw', (*arguments, key))} NOT IN ('', 'null')"
            return f"multiIf({_type_is('Object', arguments)}, {is_member}, {_type_is('Array', arguments)}, {held}, 0)"

        if self._column.leaves is None:
            return self._at(is_so)
        member = _Place(self._column, (*self._path, operand), self._parameters)
        return f"(({held} OR {member.exists()}) AND {self._at(is_so)})"

    def is_in(self, operands: Any, *, is_all: bool) -> str:
        """A scalar that equals one (all) of ``operands``, or an array that holds one (all).

        Of an array the index of leaves would have to be asked with every index there may be; but a text in it has its words.
        """
        distinct = {typed_text(operand): operand for operand in operands}
        if not distinct:
            return "0"
        wanted = list(distinct.values())
        if self._text_column is not None:
            return self._is_text_in(self._text_column, wanted, is_all=is_all)
        return self._is_in_json(wanted, is_all=is_all)

    def _is_text_in(self, column: str, wanted: list[Any], *, is_all: bool) -> str:
        """``column`` decides on rows with a text, so that its index is used; the JSON decides on all others."""
        undecided = [NOT_A_TEXT, ""] if "" in wanted else [NOT_A_TEXT]
        in_json = self._is_in_json(wanted, is_all=is_all)
        otherwise = f"({column} IN ({self._parameters.texts(undecided)}) AND {in_json})"
        texts = [value for value in wanted if _is_in_text_column(value)]
        if not texts or (is_all and len(wanted) > 1):  # no text equals several values
            return otherwise
        return f"({column} IN ({self._parameters.texts(texts)}) OR {otherwise})"

    def _is_in_json(self, wanted: list[Any], *, is_all: bool) -> str:
        scalar = f"has({self._texts(wanted)}, {self.typed()})"
        held = self._holds(wanted, is_all=is_all)
        if words := self._word_of_each(wanted):
            scalar = f"{self._has_an_item(wanted)} AND {scalar}"
            held = f"{'hasAllTokens' if is_all else 'hasAnyTokens'}({self._column.content}, {words}) AND {held}"
        return f"({held})" if is_all and len(wanted) > 1 else f"({scalar} OR {held})"

    def _holds(self, scalars: list[Any], *, is_all: bool) -> str:
        """An array that holds one (all) of ``scalars``."""
        return f"({self._has_elements(scalars, is_all=is_all)} AND {self._at(partial(_type_is, 'Array'))})"

    def _has_elements(self, scalars: list[Any], *, is_all: bool) -> str:
        """One (all) of ``scalars`` one level below, in an array or an object."""
        return f"{'hasAll' if is_all else 'hasAny'}({self._elements()}, {self._texts(scalars)})"

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

    def _has_an_item(self, scalars: list[Any]) -> str:
        """The same of one of several."""
        path = self._parameters.text(self._leaf_path)
        items = f"arrayMap(typed -> concat({path}, '=', left(typed, {ITEM_TEXT_BYTES})), {self._texts(scalars)})"
        return f"hasAny({self._column.leaf_items}, {items})"

    def _word_of_each(self, values: list[Any]) -> str | None:
        """The place of one word of each value, the longest; ``None`` where the index of words does not know every one."""
        if self._column.content is None or not 0 < len(values) <= LOOKED_UP_MAX:
            return None
        words = {max(words_of(value), key=len, default="") if isinstance(value, str) else "" for value in values}
        return None if "" in words else self._parameters.texts(sorted(words))

    def _has_words(self, operand: Any) -> list[str]:
        """A condition that holds where ``operand`` does, as far as its arrays hold texts with words; none where they do not."""
        texts = [text for text in _texts_of_arrays(operand) if words_of(text)]
        words = self._word_of_each(texts[:GUARDS_MAX])
        return [f"hasAllTokens({self._column.content}, {words})"] if words else []

    def _json(self, function: str) -> str:
        return self._at(partial(_call, function))

    def _at(self, expression: Callable[[Arguments], str]) -> str:
        """``expression`` of the arguments that lead to the path, whatever its numbered segments turn out to be."""
        arguments: Arguments = (self._column.name,)
        positions: list[tuple[str, str]] = []
        for level, segment in enumerate(self._path):
            as_key = self._parameters.text(segment)
            if level and is_index(segment):
                name = f"step{level}"
                positions.append((name, _position_of(arguments, segment, as_key)))
                arguments = (*arguments, name)
            else:
                arguments = (*arguments, as_key)
        found = expression(arguments)
        for name, position in reversed(positions):
            found = let(name, position, found)
        return found


def _position_of(arguments: Arguments, segment: str, as_key: str) -> str:
    """Where a numbered segment leads: to an element of an array, or to a member of an object; 0 is nowhere."""
    of_key = f"indexOf({_call('JSONExtractKeys', arguments)}, {as_key})"
    return f"if({_call('JSONType', arguments)} = 'Array', {int(segment) + 1}, {of_key})"


def is_json(arguments: Arguments, operand: Any, parameters: Parameters) -> str:
    """Whether what stands at ``arguments`` is the container ``operand``: by its members, or by its elements in any order."""
    if isinstance(operand, Mapping):
        return _is_object(arguments, operand, parameters)
    return _is_array(arguments, operand, parameters)


def _is_object(arguments: Arguments, operand: Mapping[str, Any], parameters: Parameters) -> str:
    clauses = [f"{_call('JSONType', arguments)} = 'Object'"]
    scalars = {key: value for key, value in operand.items() if value is not None and not is_container(value)}
    nulls = [key for key, value in operand.items() if value is None]
    member = _call("JSONExtractRaw", (*arguments, "key"))
    if scalars:
        keys = parameters.texts(list(scalars))
        values = f"JSONExtractArrayRaw({parameters.text(canonical_json(list(scalars.values())))})"
        clauses.append(f"arrayAll((key, value) -> {member} = value, {keys}, {values})")
    if nulls:
        clauses.append(f"arrayAll(key -> {member} IN ('', 'null'), {parameters.texts(nulls)})")
    for key, value in operand.items():
        if is_container(value):
            clauses.append(is_json((*arguments, parameters.text(key)), value, parameters))
    return f"({' AND '.join(clauses)})"


def _is_array(arguments: Arguments, operand: Sequence[Any], parameters: Parameters) -> str:
    clauses = [f"{_call('JSONType', arguments)} = 'Array'"]
    scalars = [value for value in operand if not is_container(value)]
    if scalars:
        wanted = f"JSONExtractArrayRaw({parameters.text(canonical_json(scalars))})"
        clauses.append(f"hasAll({_call('JSONExtractArrayRaw', arguments)}, {wanted})")
    length = _call("JSONLength", arguments)
    for value in operand:
        if is_container(value):
            position = f"position{len(arguments)}"  # inner lambdas have longer paths, so names do not clash
            found = is_json((*arguments, position), value, parameters)
            clauses.append(f"arrayExists({position} -> {found}, range(1, {length} + 1))")
    return f"({' AND '.join(clauses)})"


def _is_exact_item(path: str, typed: str) -> bool:
    """Whether no other leaf has the same item: the text is in it whole, and one ``=`` says where the path ends."""
    return len(typed.encode()) < ITEM_TEXT_BYTES and "=" not in path + typed


def _is_in_text_column(value: Any) -> bool:
    """Whether a column of texts has the value wherever the JSON has it, and nowhere else."""
    return isinstance(value, str) and value != "" and "\0" not in value


def _texts_of_arrays(value: Any, *, is_element: bool = False) -> Iterator[str]:
    """Texts that are elements of arrays, or are somewhere inside of one."""
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _texts_of_arrays(member, is_element=is_element)
    elif isinstance(value, list):
        for element in value:
            yield from _texts_of_arrays(element, is_element=True)
    elif is_element and isinstance(value, str):
        yield value


def _type_is(name: str, arguments: Arguments) -> str:
    return f"{_call('JSONType', arguments)} = '{name}'"


def _call(function: str, arguments: Arguments) -> str:
    return f"{function}({', '.join(arguments)})"


def is_container(value: Any) -> bool:
    """Whether it is an object or an array."""
    return isinstance(value, Mapping | list)


def canonical_json(values: list[Any]) -> str:
    """Scalars as stored JSON has them: ``5.0`` is ``5``."""
    canonical = [json_number(value) if isinstance(value, float) else value for value in values]
    return orjson.dumps(canonical).decode()
