"""Values in columns of JSON, selected by a path.

The scalars of ``attributes`` are looked up in ``leaves``, the map from path to typed text; before an equality the index
on short pairs ``path=text`` or the words of a longer text narrow the search. The JSON text answers the rest: whether a
container is an object or an array, and what is in it (``containers.py``). Facts about the engine's JSON functions,
which the agreement test holds:

- They serialize a value again: a double from 2^64 to 1e21 becomes bare digits, which are then read as a text. So a
  value is taken from the document in one call, with the whole path as arguments, and never from an extract of an
  extract.
- A number as argument is the position in an array **or object**: so the position of a numbered segment is looked up
  first, by the type of the container, and the path continues from it. The SQL of a path grows with its length, however
  many of its segments are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from common.clickhouse.leaves import ALWAYS_OBJECT_PATHS, HIDDEN, has_pair, typed_text
from common.clickhouse.select import ATTRIBUTES_COLUMN
from common.paths import LEVELS_MAX, is_index
from query_api.filter.language import ATTRIBUTES, SERVICE_NAME, Condition, ValuePlace
from query_api.filter.sql.containers import Arguments, call, canonical_json, is_json, type_is
from query_api.filter.sql.expressions import (
    Bounds,
    Parameters,
    Subject,
    condition_sql,
    let,
    ordered,
    scalar_leaf,
    typed_from_json,
    typed_text_condition,
    visible_typed,
)
from query_api.filter.text_search import TextSearch, words_of

WORDS_MAX: Final = 4
"""Words of a text that are looked up in the index before the text is compared."""

GUARDS_MAX: Final = 4
"""Scalars of an object that are looked up in the index before its JSON is read."""

LOOKED_UP_MAX: Final = 1_000
"""Texts of a list that are looked up in the index: most granules have one of more texts anyway."""

NOT_A_TEXT: Final = "\0"
"""The value of ``service_name`` for JSON that is not a text: no stored text holds U+0000."""


def json_condition(condition: Condition, parameters: Parameters) -> str:
    """Return a condition on a field of JSON as it is stored, as an expression that is 0 or 1."""
    place = json_place(ValuePlace(condition.field, condition.path), parameters)
    return "0" if place is None else condition_sql(condition, place)


def json_place(place: ValuePlace, parameters: Parameters) -> JsonPlace | None:
    """Return the value at a place in JSON; ``None`` if no span can have one there."""
    if any("\0" in segment for segment in place.path) or len(place.path) > LEVELS_MAX:
        return None  # no key holds U+0000; in the map of leaves it marks those that no key finds
    if place.field == ATTRIBUTES:
        return AttributePlace(place.path, parameters)
    if place == SERVICE_NAME:
        return ServiceName(*place, parameters)
    return JsonPlace(*place, parameters)


class JsonPlace(Subject):
    """The value at a path in a column of JSON text, which is empty if the span has none."""

    def __init__(self, column: str, path: Sequence[str], parameters: Parameters) -> None:
        self._column = column
        self._path = tuple(path)
        self._parameters = parameters

    def exists(self) -> str:
        is_value = self._by_segments(lambda arguments: f"{_raw(arguments)} NOT IN ('', 'null')")
        return f"({call('JSONHas', self._by_key())} OR {is_value})"

    def equals(self, operand: Any) -> str:
        if isinstance(operand, Mapping | list):
            exact = self._at(lambda arguments: is_json(arguments, operand, self._parameters))
            return f"({' AND '.join([*self._container_guards(operand), exact])})"
        return self._equals_scalar(operand)

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:
        wanted = list({typed_text(operand): operand for operand in operands}.values())
        return self._is_in(wanted, is_all=is_all) if wanted else "0"

    def has(self, operand: Any) -> str:
        if isinstance(operand, Mapping | list):
            return self.equals([operand])
        if not isinstance(operand, str) or "\0" in operand:
            return self._holds([operand], is_all=True)
        return self._has_member_or_element(operand)

    def compares(self, bounds: Bounds) -> str:
        if bounds[0][0] == "=" and isinstance(bounds[0][1], str):
            return self.equals(bounds[0][1])
        return self._compares(bounds)

    def reads(self, search: TextSearch) -> str:
        return let("visible", self.typed(), typed_text_condition("visible", search, self._parameters))

    def typed(self) -> str:
        """Return the typed text of the scalar as responses show it; ``''`` if there is none."""
        return let("typed", self._typed_scalar(), visible_typed("typed"))

    def _typed_scalar(self) -> str:
        return let("raw", self._at(_raw), typed_from_json("raw"))

    def _container_guards(self, operand: Any) -> list[str]:  # noqa: ARG002 - for subclasses
        """Conditions that an index answers and that hold wherever the value is the container ``operand``."""
        return []

    def _equals_scalar(self, operand: Any) -> str:
        return f"({self._at(_raw)} = {self._wanted([operand])}[1])"

    def _compares(self, bounds: Bounds) -> str:
        return let("typed", self._typed_scalar(), ordered("typed", bounds, self._parameters))

    def _is_in(self, wanted: list[Any], *, is_all: bool) -> str:
        """``is_in`` of at least one value, all different."""
        if is_all and len(wanted) > 1:
            return self._holds(wanted, is_all=True)

        def is_so(arguments: Arguments) -> str:
            is_scalar = f"has({self._wanted(wanted)}, {_raw(arguments)})"
            return f"({is_scalar} OR {self._is_array_with(wanted, arguments, is_all=is_all)})"

        return self._at(is_so)

    def _holds(self, scalars: list[Any], *, is_all: bool) -> str:
        """Whether the value is an array that holds one (all) of the scalars."""
        return self._at(partial(self._is_array_with, scalars, is_all=is_all))

    def _has_member_or_element(self, key: str) -> str:
        place = self._parameters.text(key)

        def is_so(arguments: Arguments) -> str:
            is_member = f"{_raw((*arguments, place))} NOT IN ('', 'null')"
            return f"if({type_is('Object', arguments)}, {is_member}, {self._is_array_with([key], arguments)})"

        return self._at(is_so)

    def _is_array_with(self, scalars: list[Any], arguments: Arguments, *, is_all: bool = True) -> str:
        elements = call("JSONExtractArrayRaw", arguments)
        held = f"{'hasAll' if is_all else 'hasAny'}({elements}, {self._wanted(scalars)})"
        return f"({held} AND {type_is('Array', arguments)})"

    def _wanted(self, scalars: list[Any]) -> str:
        """An array of scalars, each written as the engine writes those that it is compared with."""
        return f"JSONExtractArrayRaw({self._parameters.text(canonical_json(scalars))})"

    def _at(self, expression: Callable[[Arguments], str]) -> str:
        """``expression`` of the arguments that lead to the value (``common/paths.py``)."""
        if len(self._path) == 1:
            return self._by_segments(expression)
        by_key = self._by_key()
        has_key = f"{by_key[0]} != '' AND {call('JSONHas', by_key)}"
        return f"if({has_key}, {expression(by_key)}, {self._by_segments(expression)})"

    def _by_key(self) -> Arguments:
        """The arguments that lead to the value if names with dots do."""
        return (f"{self._column.removesuffix('_json')}_by_key", self._parameters.text(".".join(self._path)))

    def _by_segments(self, expression: Callable[[Arguments], str]) -> str:
        """``expression`` of the arguments that lead to the path, whether its numbered segments are indexes or keys."""
        arguments: Arguments = (self._column,)
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


class ServiceName(JsonPlace):
    """``service.name`` of the resource. The column ``service_name`` holds it if it is a text, else ``''`` or
    ``NOT_A_TEXT``."""

    def typed(self) -> str:
        return f"if(service_name IN ('', '\\0'), {super().typed()}, concat('s', service_name))"

    def _equals_scalar(self, operand: Any) -> str:
        if _is_in_text_column(operand):
            return f"(service_name = {self._parameters.text(operand)})"
        return super()._equals_scalar(operand)

    def _is_in(self, wanted: list[Any], *, is_all: bool) -> str:
        """The column decides on rows with a text, so that its index is used; the JSON decides on all others."""
        undecided = [NOT_A_TEXT, ""] if "" in wanted else [NOT_A_TEXT]
        in_json = super()._is_in(wanted, is_all=is_all)
        otherwise = f"(service_name IN ({self._parameters.texts(undecided)}) AND {in_json})"
        texts = [value for value in wanted if _is_in_text_column(value)]
        if not texts or (is_all and len(wanted) > 1):  # no text equals several values
            return otherwise
        return f"(service_name IN ({self._parameters.texts(texts)}) OR {otherwise})"


_TOTAL: Final = "ag.metrics.{}.incremental.total"
_LEAF_COLUMNS: Final = {_TOTAL.format("tokens"): "tokens_leaf", _TOTAL.format("costs"): "cost_leaf"}
"""Leaves that have a column of their own, which the engine reads without all other leaves."""


class AttributePlace(JsonPlace):
    """The value at a path in ``attributes``: ``leaves`` has the scalars, ``leaf_pairs`` and ``content`` are indexed."""

    def __init__(self, path: Sequence[str], parameters: Parameters) -> None:
        super().__init__(ATTRIBUTES_COLUMN, path, parameters)
        self._leaf_path = ".".join(path)

    def exists(self) -> str:
        if self._leaf_path in ALWAYS_OBJECT_PATHS:
            return "1"
        prefix = self._parameters.text(self._leaf_path + ".")
        beneath = f"arrayExists(path -> startsWith(path, {prefix}), mapKeys(leaves))"
        return f"({self._scalar()} != '' OR {beneath})"

    def reads(self, search: TextSearch) -> str:
        return self._where_it_occurs(typed_text_condition(self._scalar(), search, self._parameters))

    def typed(self) -> str:
        return scalar_leaf(self._scalar())

    def _scalar(self) -> str:
        """The typed text of the scalar; ``''`` if there is none."""
        return _LEAF_COLUMNS.get(self._leaf_path) or f"leaves[{self._parameters.text(self._leaf_path)}]"

    def _has_leaves(self, scalars: list[Any], *, is_all: bool) -> str:
        """Whether leaves one level below are one (all) of the scalars: so it is wherever an array holds them."""
        prefix = self._leaf_path + "."
        rest = f"substring(path, {len(prefix.encode()) + 1})"
        is_below = f"startsWith(path, {self._parameters.text(prefix)}) AND position({rest}, '.') = 0"
        leaves = f"arrayFilter((leaf, path) -> {is_below}, mapValues(leaves), mapKeys(leaves))"
        return f"{'hasAll' if is_all else 'hasAny'}({leaves}, {self._typed_texts(scalars)})"

    def _typed_texts(self, scalars: list[Any]) -> str:
        return self._parameters.texts(list(map(typed_text, scalars)))

    def _container_guards(self, operand: Any) -> list[str]:
        scalars = islice(self._scalars_in(operand), GUARDS_MAX)
        guards = [self._narrowed(scalar, path, path + HIDDEN) for path, scalar in scalars]
        texts = [text for text in _texts_of_arrays(operand) if words_of(text)]
        words = self._word_of_each(texts[:GUARDS_MAX])
        return [*guards, f"hasAllTokens(content, {words})"] if words else guards

    def _equals_scalar(self, operand: Any) -> str:
        found = self._narrowed(operand, self._leaf_path)
        if _is_exact_pair(self._leaf_path, typed_text(operand)):
            return found  # the index alone answers, and the map of leaves is not read
        return f"({found} AND {self._scalar()} = {self._parameters.text(typed_text(operand))})"

    def _compares(self, bounds: Bounds) -> str:
        return self._where_it_occurs(ordered(self._scalar(), bounds, self._parameters))

    def _is_in(self, wanted: list[Any], *, is_all: bool) -> str:
        held = self._holds(wanted, is_all=is_all)
        return held if is_all and len(wanted) > 1 else f"({self._is_scalar_of(wanted)} OR {held})"

    def _is_scalar_of(self, wanted: list[Any]) -> str:
        found = f"has({self._typed_texts(wanted)}, {self._scalar()})"
        if not self._word_of_each(wanted):
            return found
        path = self._parameters.text(self._leaf_path)
        short = [value for value in wanted if has_pair(typed_text(value))]
        pairs = f"arrayMap(typed -> concat({path}, '=', typed), {self._typed_texts(short)})"
        words = self._word_of_each([value for value in wanted if not has_pair(typed_text(value))])
        in_pairs = [f"hasAny(leaf_pairs, {pairs})"] if short else []
        in_words = [f"hasAnyTokens(content, {words})"] if words else []
        return f"({' OR '.join([*in_pairs, *in_words])}) AND {found}"

    def _holds(self, scalars: list[Any], *, is_all: bool) -> str:
        """Leaves would have to be looked up under every index of the array; instead the words of its texts are."""
        held = f"({self._has_leaves(scalars, is_all=is_all)} AND {super()._holds(scalars, is_all=is_all)})"
        words = self._word_of_each(scalars)
        return f"({'hasAllTokens' if is_all else 'hasAnyTokens'}(content, {words}) AND {held})" if words else held

    def _has_member_or_element(self, key: str) -> str:
        member = AttributePlace((*self._path, key), self._parameters)
        may_have = f"({self._has_leaves([key], is_all=True)} OR {member.exists()})"
        return f"({may_have} AND {super()._has_member_or_element(key)})"

    def _where_it_occurs(self, comparison: str) -> str:
        """Evaluate a comparison only where the index says that the path may occur. ``indexHint`` is true of every
        row.
        """
        return f"({self._may_occur(self._leaf_path)} AND {comparison})"

    def _may_occur(self, *paths: str) -> str:
        occur = (f"mapContains(leaves, {self._parameters.text(path)})" for path in paths)
        return f"indexHint({' OR '.join(occur)})"

    def _scalars_in(self, operand: Any, path: str = "") -> Iterator[tuple[str, Any]]:
        """The leaves that a value must have to be ``operand``: those reached through objects alone."""
        if not isinstance(operand, Mapping):
            return
        for key, member in operand.items():
            member_path = f"{path or self._leaf_path}.{key}"
            if isinstance(member, Mapping):
                yield from self._scalars_in(member, member_path)
            elif member is not None and not isinstance(member, list):
                yield member_path, member

    def _narrowed(self, scalar: Any, *paths: str) -> str:
        """Return a condition that an index answers, and that may be true of rows without the scalar at one of the paths
        too."""
        typed, parameters = typed_text(scalar), self._parameters
        if has_pair(typed):
            pairs = [f"concat({parameters.text(path)}, '=', {parameters.text(typed)})" for path in paths]
            return f"has(leaf_pairs, {pairs[0]})" if len(pairs) == 1 else f"hasAny(leaf_pairs, [{', '.join(pairs)}])"
        words = _rarest(words_of(scalar)) if isinstance(scalar, str) else []
        return f"hasAllTokens(content, {parameters.texts(words)})" if words else self._may_occur(*paths)

    def _word_of_each(self, values: list[Any]) -> str | None:
        """The placeholder of the longest word of each value; ``None`` unless each value has a word in the index."""
        if not 0 < len(values) <= LOOKED_UP_MAX:
            return None
        words = {max(words_of(value), key=len, default="") if isinstance(value, str) else "" for value in values}
        return None if "" in words else self._parameters.texts(sorted(words))


def _raw(arguments: Arguments) -> str:
    """The JSON of the value, which serves as a text to compare scalars by; ``''`` or ``null`` if there is none."""
    return call("JSONExtractRaw", arguments)


def _position_of(arguments: Arguments, segment: str, as_key: str) -> str:
    """The position of a numbered segment: of an element of an array or a member of an object; 0 if there is none."""
    key_position = f"indexOf({call('JSONExtractKeys', arguments)}, {as_key})"
    return f"if({call('JSONType', arguments)} = 'Array', {int(segment) + 1}, {key_position})"


def _is_exact_pair(path: str, typed: str) -> bool:
    """Whether the index of pairs holds the leaf, and no other leaf has the same pair: its only ``=`` ends the path."""
    return has_pair(typed) and "=" not in path + typed


def _rarest(words: Iterable[str]) -> list[str]:
    """Return the words of a text that are likely the rarest: those with a digit, then the longest."""
    by_likelihood = sorted(set(words), key=lambda word: (not word.isalpha(), len(word), word), reverse=True)
    return by_likelihood[:WORDS_MAX]


def _is_in_text_column(value: Any) -> bool:
    """Whether the column has the value exactly where the JSON has it."""
    return isinstance(value, str) and value != "" and "\0" not in value


def _texts_of_arrays(value: Any, *, is_element: bool = False) -> Iterator[str]:
    """Texts that are elements of arrays, or are anywhere inside of one."""
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _texts_of_arrays(member, is_element=is_element)
    elif isinstance(value, list):
        for element in value:
            yield from _texts_of_arrays(element, is_element=True)
    elif is_element and isinstance(value, str):
        yield value
