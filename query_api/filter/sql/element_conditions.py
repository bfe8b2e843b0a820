"""Conditions on ``links references events hashes`` as SQL: arrays of objects, kept as the JSON text that answers show.

Partial elements that name the same members are looked for together: each element of the row becomes the tuple of its values
there, and the engine asks whether that is in the set of those wanted. So ten thousand ids cost a row what one does.
Before the JSON is read, the text is searched for what every match must hold. Values are taken as in ``json_conditions.py``,
in one call from the document, wanted ones too, so that both are written alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final, TypeAlias

import orjson

from query_api.filter.ast import Condition, Operator
from query_api.filter.elements import ATTRIBUTES, BELOW_ATTRIBUTES
from query_api.filter.sql.columns import ElementsColumn
from query_api.filter.sql.json_conditions import Arguments, canonical_json, is_container, is_json
from query_api.filter.sql.parameters import Parameters
from query_api.filter.sql.reference_conditions import REFERENCES, references_guard
from query_api.filter.totals import flattened

GUARDED_MAX: Final = 255
"""So many texts the engine searches for at once."""

Partial = Mapping[str, Any]

Keys: TypeAlias = tuple[str, ...]
"""The name of a member, and keys below it."""

Flat: TypeAlias = Mapping[Keys, Any]
"""A partial element as its scalars."""


def elements_condition(condition: Condition, column: ElementsColumn, parameters: Parameters) -> str:
    """The condition as an expression that is 0 or 1."""
    if condition.operator is Operator.EXISTS:
        return f"({column.name} NOT IN ('', '[]'))"
    wanted: Any = condition.operand
    clauses = list(_clauses(wanted, column.name, parameters, is_all=condition.is_all))
    joint = " AND " if condition.is_all else " OR "
    return f"({joint.join(clauses)})" if clauses else "0"


def _clauses(wanted: list[Partial], column: str, parameters: Parameters, *, is_all: bool) -> Iterator[str]:
    """Together they are the condition: one for all partial elements with scalars at the same places, one for each other."""
    both = [(partial, flattened(partial)) for partial in wanted]
    scalar = [flat for _, flat in both if flat is not None]
    for places, flats in groupby(sorted(scalar, key=_places), key=_places):
        yield _scalar_clause(places, list(flats), column, parameters, is_all=is_all)
    for partial, flat in both:
        if flat is None:
            yield _clause(partial, column, parameters)


def _places(flat: Flat) -> tuple[Keys, ...]:
    return tuple(sorted(flat))


def _scalar_clause(
    places: tuple[Keys, ...], flats: list[Flat], column: str, parameters: Parameters, *, is_all: bool
) -> str:
    if not places:
        return f"({column} NOT IN ('', '[]'))"
    documents = [parameters.text(canonical_json([flat[keys] for flat in flats])) for keys in places]
    wanted = _tuples([f"JSONExtractArrayRaw({document})" for document in documents], "arrayZip")
    members = _tuples([_Member(column, keys, parameters).raw() for keys in places], "tuple")
    held = f"arrayMap(position -> {members}, {_positions(column)})"
    if is_all:
        found = f"hasAll({held}, {wanted})"
    else:  # a subquery, because the engine makes a set of one, and goes through an array value by value
        found = f"arrayExists(held -> held IN (SELECT arrayJoin({wanted})), {held})"
    return f"({' AND '.join([*_guard(places, flats, column, parameters), found])})"


def _tuples(expressions: list[str], function: str) -> str:
    return expressions[0] if len(expressions) == 1 else f"{function}({', '.join(expressions)})"


def _guard(places: tuple[Keys, ...], flats: list[Flat], column: str, parameters: Parameters) -> Iterator[str]:
    """A text that one of the partial elements has stands in the JSON as the same program would write it."""
    if column == REFERENCES:
        named = [{".".join(keys): value for keys, value in flat.items()} for flat in flats]
        if (indexed := references_guard(named, parameters)) is not None:
            yield indexed
            return
    if len(flats) > GUARDED_MAX:
        return
    for keys in places:
        texts = [flat[keys] for flat in flats if isinstance(flat[keys], str) and flat[keys]]
        if len(texts) == len(flats):
            yield f"multiSearchAny({column}, {parameters.texts([_inside_json(text) for text in texts])})"
            return


def _inside_json(text: str) -> str:
    return orjson.dumps(text)[1:-1].decode()


def _clause(partial: Partial, column: str, parameters: Parameters) -> str:
    members = [_Member(column, (name,), parameters).equals(value) for name, value in partial.items()]
    found = f"arrayExists(position -> {' AND '.join(members)}, {_positions(column)})"
    scalars: Flat = {(name,): value for name, value in partial.items() if not is_container(value)}
    return f"({' AND '.join([*_guard(_places(scalars), [scalars], column, parameters), found])})"


class _Member:
    """What is at the keys in the element at ``position``: below ``attributes`` a name is first one key, then a way step by step."""

    def __init__(self, column: str, keys: Keys, parameters: Parameters) -> None:
        self._parameters = parameters
        self._ways: list[Arguments]
        self._below: Arguments = tuple(map(parameters.text, keys[1:]))
        name = keys[0]
        if not name.startswith(BELOW_ATTRIBUTES):
            self._ways = [(column, "position", parameters.text(name))]
            return
        key = name.removeprefix(BELOW_ATTRIBUTES)
        ways = [[key]] if "." not in key else [[key], key.split(".")]
        self._ways = [(column, "position", f"'{ATTRIBUTES}'", *map(parameters.text, way)) for way in ways]

    def raw(self) -> str:
        """Its JSON; ``''`` or ``null`` where there is none."""
        return self._whichever([_raw((*way, *self._below)) for way in self._ways])

    def equals(self, value: Any) -> str:
        """Whether it is ``value``."""
        if is_container(value):
            return self._whichever([is_json(way, value, self._parameters) for way in self._ways])
        wanted = f"JSONExtractArrayRaw({self._parameters.text(canonical_json([value]))})[1]"
        return f"({self.raw()} = {wanted})"

    def _whichever(self, expressions: list[str]) -> str:
        if len(expressions) == 1:
            return expressions[0]
        return f"if({_raw(self._ways[0])} NOT IN ('', 'null'), {expressions[0]}, {expressions[1]})"


def _raw(way: Arguments) -> str:
    return f"JSONExtractRaw({', '.join(way)})"


def _positions(column: str) -> str:
    return f"range(1, JSONLength({column}) + 1)"
