"""From dotted attribute keys to nested objects (reference §2.2), and how long the dotted paths of nested values are.

Keys are taken in order and split at each dot. If two keys name the same place, the later one wins. The rules differ
from the reference where that one loses values:

- A leaf below a scalar (``a: 1``, then ``a.b: 2``) keeps the dotted rest of its key at the level of the collision:
  ``{a: 1, "a.b": 2}``.
- An object that a later key displaces is merged back as far as its members do not collide (``a.b: 1``, then
  ``a: {c: 2}``, is ``{a: {c: 2, b: 1}}``); a leaf is dropped only if a later key opened a container at its place.
- Numbered segments make an array if they are 0…n−1 in any order, else an object with these keys. Nothing is padded, so
  ``a.999999999`` costs one member.
- A key opens at most ``SEGMENTS_MAX`` levels; the rest of it stays dotted. So no input makes a tree that is too deep
  for recursion.

Values are never changed: what is nested already is shared with the caller, and copied where a key reaches into it.

Each leaf of a value is stored with its path (``common/clickhouse/leaves.py``), which repeats the keys above it: 30,000
numbers below a key of 30,000 characters take 150 KB as sent, and 900 MB as leaves. So values are limited by this growth
(contract §4, “value too large”). Real ones stay below: a vector below a path of 180 characters and integers below one
of 60 are allowed, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from common.plans import Plans

SEGMENTS_MAX: Final = 24
SHAPES_MAX: Final = 512

GROWTH_MAX: Final = 32
"""How many characters of paths each character of a key or a text allows. A member counts as two more, a number with a
fraction as another four."""

CHARACTERS_FREE: Final = 4_096
"""What any value may take."""

_MEMBER_LENGTH: Final = 2
_FRACTION_LENGTH: Final = 4


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new object with the members of ``flat``, nested at the dots of their keys. Never raises; empty segments
    are keys.
    """
    return nested_as(_shapes.of(tuple(flat)), flat)


class Shape(NamedTuple):
    """The nested shape of a sequence of keys that do not collide, as the steps that build it.

    ``steps``: the container (counted from the root, 0, in the order in which they are made), the name in it, and
    whether a new container goes there instead of the next value. ``arrays``: containers that become arrays, inner ones
    first: the container around each and its name there, which container it is, and its members in order.
    """

    steps: tuple[tuple[int, str, bool], ...]
    arrays: tuple[tuple[int, str, int, tuple[str, ...]], ...]


def shape_of(keys: Iterable[str]) -> Shape | None:
    """Return the shape of these keys, whatever their values; ``None`` if keys collide or one has too many segments."""
    steps: list[tuple[int, str, bool]] = []
    places: list[tuple[int, str]] = [(0, "")]
    members: list[set[str]] = [set()]
    opened: dict[str, int] = {}
    for key in keys:
        *above, leaf = key.split(".")
        if len(above) >= SEGMENTS_MAX:
            return None
        at = 0
        for level, segment in enumerate(above, 1):
            prefix = ".".join(above[:level])
            if prefix not in opened:
                if segment in members[at]:
                    return None
                opened[prefix] = len(members)
                steps.append((at, segment, True))
                places.append((at, segment))
                members[at].add(segment)
                members.append(set())
            at = opened[prefix]
        if leaf in members[at]:
            return None
        steps.append((at, leaf, False))
        members[at].add(leaf)
    arrays = []
    for container in reversed(range(1, len(members))):
        positions = tuple(map(str, range(len(members[container]))))
        if members[container] == set(positions):
            arrays.append((*places[container], container, positions))
    return Shape(tuple(steps), tuple(arrays))


_shapes: Final = Plans(shape_of, max_count=SHAPES_MAX)


def nested_as(shape: Shape | None, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``flat`` nested; ``shape`` is that of its keys, in their order (17 keys of a model call: 4 µs instead of
    14).
    """
    if shape is None:
        tree = _Tree()
        for key, value in flat.items():
            tree.put(key, value)
        return tree.finished()
    root: dict[str, Any] = {}
    containers = [root]
    next_value = iter(flat.values()).__next__
    for at, name, opens in shape.steps:
        if opens:
            inner: dict[str, Any] = {}
            containers[at][name] = inner
            containers.append(inner)
        else:
            containers[at][name] = next_value()
    for at, name, numbered, members in shape.arrays:
        container = containers[numbered]
        containers[at][name] = [container[member] for member in members]
    return root


class Nesting:
    """Attributes as they were sent, and nested when somebody asks for it: of most spans only ``ag`` is needed. Two are
    equal if they are equal nested.
    """

    __slots__ = ("_nested", "flat", "shape")

    def __init__(self, flat: dict[str, Any], shape: Shape | None) -> None:
        self.flat = flat
        self.shape = shape
        self._nested: dict[str, Any] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nesting) and self.nested() == other.nested()

    __hash__ = None  # type: ignore[assignment]

    def nested(self) -> dict[str, Any]:
        """Return the attributes nested. It is shared, and must not be changed."""
        if self._nested is None:
            self._nested = nested_as(self.shape, self.flat)
        return self._nested


class _Tree:
    """The object while it grows, key by key: for keys that collide.

    ``opened`` holds the containers that dotted keys have opened, by their prefix: these are ours, so they may be
    written to. ``numbered`` holds those that may become arrays, each with its place; ``displaced`` holds values whose
    place a later key took.
    """

    __slots__ = ("displaced", "numbered", "opened", "root")

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.opened: dict[str, dict[str, Any]] = {}
        self.numbered: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
        self.displaced: list[tuple[dict[str, Any], str, Any]] = []

    def put(self, key: str, value: Any) -> None:
        """Put ``value`` at the place that ``key`` names: open missing containers, displace what is there."""
        segments = key.split(".", SEGMENTS_MAX - 1)
        place = self.root
        for index in range(len(segments) - 1):
            inner = self._open(place, segments, index)
            if inner is None:
                place[".".join(segments[index:])] = value
                return
            place = inner
        leaf = segments[-1]
        if isinstance(place.get(leaf), dict | list):
            self._displace(place, leaf, prefix=key)
        place[leaf] = value

    def finished(self) -> dict[str, Any]:
        """Return the object, with displaced values merged back and arrays made (never of two merged containers)."""
        for place, leaf, earlier in self.displaced:
            _give_back(place, leaf, earlier)
        for place, leaf, members in reversed(self.numbered):  # the inner ones first
            if place.get(leaf) is members and all(str(index) in members for index in range(len(members))):
                place[leaf] = [members[str(index)] for index in range(len(members))]
        return self.root

    def _open(self, place: dict[str, Any], segments: list[str], index: int) -> dict[str, Any] | None:
        """Return the container in ``place`` that the segment names, writable; ``None`` if a scalar is there."""
        prefix = ".".join(segments[: index + 1])
        inner = self.opened.get(prefix)
        if inner is not None:
            return inner
        segment = segments[index]
        standing = place.get(segment, _NOTHING)
        if standing is _NOTHING:
            inner, is_numbered = {}, _is_position(segments[index + 1])
        elif isinstance(standing, dict):
            inner, is_numbered = dict(standing), False
        elif isinstance(standing, list):
            inner, is_numbered = {str(position): value for position, value in enumerate(standing)}, True
        else:
            return None
        place[segment] = self.opened[prefix] = inner
        if is_numbered:
            self.numbered.append((place, segment, inner))
        return inner

    def _displace(self, place: dict[str, Any], leaf: str, *, prefix: str) -> None:
        self.displaced.append((place, leaf, place[leaf]))
        self._close(prefix)

    def _close(self, prefix: str) -> None:
        """Forget the container at ``prefix`` and those opened inside it."""
        container = self.opened.pop(prefix, None)
        for name in container or ():
            self._close(f"{prefix}.{name}")


_NOTHING: Final = object()


def _is_position(segment: str) -> bool:
    return segment.isascii() and segment.isdigit() and (segment == "0" or segment[0] != "0")


def _give_back(place: dict[str, Any], leaf: str, earlier: Any) -> None:
    """Merge a displaced value into the one that displaced it, member by member. ``place`` is writable.

    A leaf is dropped if a later key has taken exactly its place.
    """
    if leaf not in place:
        place[leaf] = earlier
    elif isinstance(earlier, dict | list):
        later = place[leaf]
        members = earlier.items() if isinstance(earlier, dict) else zip(map(str, count()), earlier, strict=False)
        if isinstance(later, dict):
            place[leaf] = united = dict(later)
            for name, value in members:
                _give_back(united, name, value)
        else:
            for name, value in members:
                _give_back(place, f"{leaf}.{name}", value)


def has_long_paths(name: str, value: dict[str, Any] | list[Any]) -> bool:
    """Return whether the paths of the leaves of an array or object take more than ``CHARACTERS_FREE`` and
    ``GROWTH_MAX`` times its keys and values. The nesting must be bounded. Those of at most ``GROWTH_MAX`` members, at
    all levels, do not: each character of a key is in at most as many paths.
    """
    return _excess(value, len(name)) > CHARACTERS_FREE + GROWTH_MAX * len(name)


def _excess(container: Any, path_length: int) -> int:
    """Return how many characters the paths take more than they may, here and below; negative if less.

    Each JSON text of each span is walked, so objects and arrays have a loop of their own: one for both takes 1.5 times
    as long.
    """
    count = len(container)
    below, keys_length, texts_length = 0, 0, 0
    if type(container) is dict:
        for key, member in container.items():
            keys_length += len(key)
            kind = type(member)
            if kind is str:
                texts_length += len(member)
            elif kind is float:
                texts_length += _FRACTION_LENGTH
            elif kind is dict or kind is list:
                below += _excess(member, path_length + 1 + len(key))
    else:
        length = path_length + 1 + len(str(count))
        for member in container:
            kind = type(member)
            if kind is str:
                texts_length += len(member)
            elif kind is float:
                texts_length += _FRACTION_LENGTH
            elif kind is dict or kind is list:
                below += _excess(member, length)
    taken = keys_length + count * (path_length + 1)
    return taken - GROWTH_MAX * (keys_length + texts_length + _MEMBER_LENGTH * count) + below
