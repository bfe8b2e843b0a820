"""Conditions on ``links references events hashes``: arrays of objects, stored as the JSON text that responses show.

Partial elements that name the same members are looked for together: each element of the row becomes the tuple of its
values there, and the engine asks whether that is in the set of wanted tuples. So ten thousand ids cost as much per row
as one. Before the JSON is read, an index or a search in the text rules out rows. Stored and wanted values are both
taken from a document in one call, as in ``json.py``, so that both are written alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

import orjson

from query_api.filter.elements import BELOW_ATTRIBUTES
from query_api.filter.language import ATTRIBUTES, Condition, flattened
from query_api.filter.sql.containers import Arguments, canonical_json, is_container, is_json
from query_api.filter.sql.expressions import Parameters, Subject, condition_sql

REFERENCES: Final = "references"

SEARCHED_MAX: Final = 255
"""Texts that the engine's ``multiSearchAny`` takes."""

LOOKED_UP_MAX: Final = 1_000
"""Texts that are looked up in the index of ``references``: 10 ms in a part. Looking up ten thousand takes longer than
reading the JSON of a usual window."""

_IDENTIFYING: Final = ("id", "slug", "version")
"""Members of a reference that few spans share, the most selective first; most spans share the values of the others."""

_TOKENIZER: Final = r"""'splitByString([\'"\'])'"""
"""The tokenizer of the index. Each call names it: the engine knows it by itself only where it uses the index."""

Partial: TypeAlias = Mapping[str, Any]

Keys: TypeAlias = tuple[str, ...]
"""The name of a member, and keys below it."""

Flat: TypeAlias = Mapping[Keys, Any]
"""A partial element as its scalars."""


def elements_condition(condition: Condition, parameters: Parameters) -> str:
    """Return a condition on a field of elements as an expression that is 0 or 1."""
    return condition_sql(condition, _Elements(condition.field, parameters))


@dataclass(frozen=True, slots=True)
class _Elements(Subject):
    column: str
    parameters: Parameters

    def exists(self) -> str:
        return f"({self.column} NOT IN ('', '[]'))"

    def is_in(self, operands: list[Partial], *, is_all: bool) -> str:
        clauses = list(self._clauses(operands, is_all=is_all))
        return f"({(' AND ' if is_all else ' OR ').join(clauses)})" if clauses else "0"

    def _clauses(self, wanted: list[Partial], *, is_all: bool) -> Iterator[str]:
        """One clause for all partial elements with scalars at the same places, and one for each other element."""
        both = [(partial, flattened(partial)) for partial in wanted]
        flats = [flat for _, flat in both if flat is not None]
        for places, group in groupby(sorted(flats, key=_places), key=_places):
            yield self._scalar_clause(places, list(group), is_all=is_all)
        for partial, flat in both:
            if flat is None:
                yield self._clause(partial)

    def _scalar_clause(self, places: tuple[Keys, ...], flats: list[Flat], *, is_all: bool) -> str:
        if not places:
            return self.exists()
        documents = [self.parameters.text(canonical_json([flat[keys] for flat in flats])) for keys in places]
        wanted = _tuples([f"JSONExtractArrayRaw({document})" for document in documents], "arrayZip")
        members = _tuples([_Member(self.column, keys, self.parameters).raw() for keys in places], "tuple")
        held = f"arrayMap(position -> {members}, {self._positions()})"
        if is_all:
            found = f"hasAll({held}, {wanted})"
        else:  # a subquery, because the engine makes a set of one, and compares with an array value by value
            found = f"arrayExists(held -> held IN (SELECT arrayJoin({wanted})), {held})"
        return f"({' AND '.join([*self._guard(places, flats), found])})"

    def _clause(self, partial: Partial) -> str:
        members = [_Member(self.column, (name,), self.parameters).equals(value) for name, value in partial.items()]
        found = f"arrayExists(position -> {' AND '.join(members)}, {self._positions()})"
        scalars: Flat = {(name,): value for name, value in partial.items() if not is_container(value)}
        return f"({' AND '.join([*self._guard(_places(scalars), [scalars]), found])})"

    def _positions(self) -> str:
        return f"range(1, JSONLength({self.column}) + 1)"

    def _guard(self, places: tuple[Keys, ...], flats: list[Flat]) -> Iterator[str]:
        """Yield at most one condition that is true of every row with one of the partial elements, and cheaper than
        reading JSON.
        """
        if self.column == REFERENCES and (indexed := self._index_guard(flats)) is not None:
            yield indexed
            return
        if len(flats) > SEARCHED_MAX:
            return
        for keys in places:
            texts = [flat[keys] for flat in flats if isinstance(flat[keys], str) and flat[keys]]
            if len(texts) == len(flats):
                searched = self.parameters.texts(list(map(_inside_json, texts)))
                yield f"multiSearchAny({self.column}, {searched})"
                return

    def _index_guard(self, flats: list[Flat]) -> str | None:
        """Return a condition that the index of ``references`` answers.

        The index holds each text between two quotes of the JSON as a whole: ids, slugs, versions, keys. It does not
        know which member has a text.
        """
        if len(flats) == 1:
            return self._has_tokens("hasAllTokens", [text for value in flats[0].values() if (text := _token(value))])
        tokens = [_most_selective(flat) for flat in flats]
        known = [token for token in tokens if token is not None]
        return self._has_tokens("hasAnyTokens", known) if len(known) == len(flats) else None

    def _has_tokens(self, function: str, tokens: Sequence[str]) -> str | None:
        distinct = list(dict.fromkeys(tokens))
        if not 0 < len(distinct) <= LOOKED_UP_MAX:
            return None
        return f"{function}({REFERENCES}, {self.parameters.texts(distinct)}, {_TOKENIZER})"


def _places(flat: Flat) -> tuple[Keys, ...]:
    return tuple(sorted(flat))


def _tuples(expressions: list[str], function: str) -> str:
    return expressions[0] if len(expressions) == 1 else f"{function}({', '.join(expressions)})"


def _most_selective(flat: Flat) -> str | None:
    values = [*(flat[(name,)] for name in _IDENTIFYING if (name,) in flat), *flat.values()]
    return next((token for value in values if (token := _token(value))), None)


def _token(value: Any) -> str | None:
    """A text as the index has it; ``None`` for other values, the empty text, and a text that a quote splits."""
    return _inside_json(value) if isinstance(value, str) and value and '"' not in value else None


def _inside_json(text: str) -> str:
    """A text as the JSON of a row has it between quotes: the same program wrote it."""
    return orjson.dumps(text)[1:-1].decode()


class _Member:
    """The value at keys in the element at ``position``. A name below ``attributes`` is tried as one key, then as a
    path."""

    def __init__(self, column: str, keys: Keys, parameters: Parameters) -> None:
        self._parameters = parameters
        self._below: Arguments = tuple(map(parameters.text, keys[1:]))
        self._paths: list[Arguments]
        name = keys[0]
        if not name.startswith(BELOW_ATTRIBUTES):
            self._paths = [(column, "position", parameters.text(name))]
            return
        key = name.removeprefix(BELOW_ATTRIBUTES)
        paths = [[key]] if "." not in key else [[key], key.split(".")]
        self._paths = [(column, "position", f"'{ATTRIBUTES}'", *map(parameters.text, path)) for path in paths]

    def raw(self) -> str:
        """Return its JSON; ``''`` or ``null`` if there is none."""
        return self._first_present([_raw((*path, *self._below)) for path in self._paths])

    def equals(self, value: Any) -> str:
        """Return whether it is ``value``."""
        if is_container(value):
            return self._first_present([is_json(path, value, self._parameters) for path in self._paths])
        wanted = f"JSONExtractArrayRaw({self._parameters.text(canonical_json([value]))})[1]"
        return f"({self.raw()} = {wanted})"

    def _first_present(self, expressions: list[str]) -> str:
        if len(expressions) == 1:
            return expressions[0]
        return f"if({_raw(self._paths[0])} NOT IN ('', 'null'), {expressions[0]}, {expressions[1]})"


def _raw(path: Arguments) -> str:
    return f"JSONExtractRaw({', '.join(path)})"
