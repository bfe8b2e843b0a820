"""From tables to the rows that apply to a set of keys, planned: ``engine.py`` carries them out.

Pure; thread-safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from common.plans import Keys
from ingest.semconv.conventions import CONVENTIONS
from ingest.semconv.converters import always
from ingest.semconv.rows import ALL, Row

Step: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...], Callable[..., Any], int, str]
"""One row for one set of keys: ``(key, keys, below, names, read, place, leaf)``. Not a named tuple: a plain one unpacks
in half the time.

``key``: the one key that is read, or ``keys``: several that are read together, or ``below``: the path of the container
that is read, and ``names``: which of its members, all if empty. A container may also be read together with keys, as the
last. ``place`` and ``leaf``: where the result goes; without a leaf, member by member.
"""


class KeyMapping(NamedTuple):
    """The rows that apply to a set of keys.

    ``places``: the objects that may be made, outer ones first, each with the object around it (counted from ``ag``, the
    first) and its name there. ``roots``: keys that may hold nested attributes of an instrumentation, as an object.
    ``contested``: the targets that several rows write to, if some need not be read.
    """

    steps: tuple[Step, ...] = ()
    places: tuple[tuple[int, str], ...] = ()
    roots: tuple[str, ...] = ()
    contested: Contested | None = None


class Contested(NamedTuple):
    """How to read only what is kept of the targets that several rows write to.

    It holds for spans that have JSON in all ``keys``, those of the first row of each target: then this row has a value
    (``Converter.has_value_of_json``), and the target its place among the members around it, whatever the others say.
    ``steps``: all steps, of each of these targets only one that holds its place; ``last_first``: the steps that have
    its values, of which the first value is kept.
    """

    keys: tuple[str, ...]
    steps: tuple[Step, ...]
    last_first: tuple[Step, ...]


HELD: Final = "\0"
"""In the place of a contested target until its value is known. No text of a span is like it."""


_ROWS: Final = tuple(row for convention in CONVENTIONS for row in convention.rows)
_SOURCES: Final = frozenset(source for row in _ROWS for source in row.sources)
ROOTS: Final = frozenset(source.partition(".")[0] for source in _SOURCES if "." in source)
"""The first segments of all dotted keys in the tables."""

_KNOWN: Final = re.compile(
    "\0(?:" + "|".join(sorted({re.escape(source.partition(".")[0]) for source in _SOURCES})) + r")[.\0]"
)


def _is_known(keys: tuple[str, ...]) -> bool:
    """Return whether some key begins like one of a table. One search in C over all keys."""
    return _KNOWN.search("\0" + "\0".join(keys) + "\0") is not None


class _Keys:
    """A set of keys and the queries of rows on it, in time linear in their length. No key holds U+0000."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = frozenset(keys)
        self.in_order = keys
        self._joined = "\0" + "\0".join(keys) + "\0"

    def has(self, beginning: str) -> bool:
        return _beginnings[beginning].search(self._joined) is not None

    def has_source(self, source: str) -> bool:
        return self.has_at_or_below(source.removesuffix(ALL)) if source.endswith(ALL) else source in self.keys

    def has_at_or_below(self, prefix: str) -> bool:
        return prefix in self.keys or f"\0{prefix}." in self._joined


_beginnings: Final = {
    pattern: re.compile(f"\0(?:{pattern})") for row in _ROWS for pattern in (row.requires, row.unless) if pattern
}


def mapping_of(keys: Keys) -> KeyMapping | None:
    """Return the rows that apply to a set of keys; ``None`` if no table says anything about them."""
    if not _is_known(keys):
        return None
    key_set = _Keys(keys)
    roots = tuple(key for key in keys if key in ROOTS)
    applied = [(row, names) for row in _ROWS if (names := _names_read(row, key_set)) is not None]
    if not applied and not roots:
        return None
    beginnings = (path[:at] for row, _ in applied for path in [_place(row)] for at in range(len(path) + 1))
    paths = sorted(dict.fromkeys(beginnings), key=len)
    places = tuple((paths.index(path[:-1]), path[-1]) if path else (0, "") for path in paths)
    steps = tuple(_step(row, names, paths) for row, names in applied)
    return KeyMapping(steps, places, roots, _contested([row for row, _ in applied], steps))


def _contested(rows: Sequence[Row], steps: Sequence[Step]) -> Contested | None:
    """Return the targets that several of these rows write to, and no row member by member; ``None`` if there are none
    of which a row need not be read.
    """
    spread = {place for *_, place, leaf in steps if not leaf}
    by_target: dict[tuple[int, str], list[int]] = {}
    for number, (*_, place, leaf) in enumerate(steps):
        if place not in spread:
            by_target.setdefault((place, leaf), []).append(number)
    targets = [numbers for numbers in by_target.values() if len(numbers) > 1]
    targets = [numbers for numbers in targets if rows[numbers[0]].reading.has_value_of_json]
    if not targets:
        return None
    held = {numbers[0]: ("", ("",), (), (), always(HELD).read, *steps[numbers[0]][-2:]) for numbers in targets}
    left_out = {number for numbers in targets for number in numbers} - held.keys()
    return Contested(
        tuple(rows[numbers[0]].sources[0] for numbers in targets),
        tuple(held.get(number, step) for number, step in enumerate(steps) if number not in left_out),
        tuple(steps[number] for numbers in targets for number in reversed(numbers)),
    )


def _names_read(row: Row, key_set: _Keys) -> tuple[str, ...] | None:
    """Return the members of its container that the row reads, empty for all; ``None`` if the row does not apply."""
    if row.requires and not key_set.has(row.requires):
        return None
    if row.unless and key_set.has(row.unless):
        return None
    if not row.sources[0].endswith(ALL):
        return () if any(map(key_set.has_source, row.sources)) else None
    prefix = row.sources[0].removesuffix(ALL)
    if not key_set.has_at_or_below(prefix):
        return None
    if not row.target.endswith(ALL):
        return ()
    taken = _taken_below[prefix]
    below = dict.fromkeys(
        key[len(prefix) + 1 :].partition(".")[0] for key in key_set.in_order if key.startswith(prefix + ".")
    )
    return tuple(name for name in below if name not in taken) or None


_taken_below: Final = {
    prefix: frozenset(
        source.removeprefix(prefix + ".").partition(".")[0]
        for source in _SOURCES
        if source.startswith(prefix + ".") and source != prefix + ALL
    )
    for prefix in (source.removesuffix(ALL) for source in _SOURCES if source.endswith(ALL))
}
"""The members below a prefix that have rows of their own."""


def _place(row: Row) -> tuple[str, ...]:
    """Return the path of the object that the row writes to."""
    if row.target.endswith(ALL):
        return tuple(row.target.removesuffix(ALL).split("."))
    return tuple(row.target.split(".")[:-1])


def _step(row: Row, names: tuple[str, ...], paths: Sequence[tuple[str, ...]]) -> Step:
    *keys, last = row.sources
    is_container = last.endswith(ALL)
    is_several = bool(keys)
    if is_several and not is_container:
        keys.append(last)
    return (
        "" if is_container or is_several else last,
        tuple(keys),
        tuple(last.removesuffix(ALL).split(".")) if is_container else (),
        names,
        row.reading.read,
        paths.index(_place(row)),
        "" if row.target.endswith(ALL) else row.target.rpartition(".")[2],
    )
