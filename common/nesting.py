"""From dotted attribute keys to nested objects (reference §2.2).

Keys are taken in order and split at each dot. A later key wins the place it names. Ours differs from the reference
where that one loses values:

- A leaf below a scalar (``a: 1``, then ``a.b: 2``) keeps its dotted rest at the level of the collision: ``{a: 1, "a.b": 2}``.
- What a later key pushes off its place returns to where its members still find room (``a.b: 1``, then ``a: {c: 2}``, is
  ``{a: {c: 2, b: 1}}``); a leaf gives way only where a later key has opened a container in its very place.
- Numbered segments make an array when they are 0…n−1 in whatever order, else an object with these keys; nothing is padded,
  so that ``a.999999999`` costs one member.
- A key opens at most ``SEGMENTS_MAX`` levels; what is left of it stays dotted. Text cannot make a tree that is too deep to walk.

Values are never changed: what is nested already is shared with the caller, and copied where a key reaches into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from common.plans import Plans

SEGMENTS_MAX: Final = 24

PLAN_CONTAINERS_MIN: Final = 4
"""With fewer a plan saves less than it costs to look for."""

PLANS_MAX: Final = 256
SPLITS_MAX: Final = 8_192
SPLIT_CHARACTERS_MAX: Final = 128
"""Of a single key: with their number, some 3 MB of the most hostile ones."""


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A new object with the members of ``flat``, nested at the dots of their keys. Never raises; empty segments are keys."""
    return nest_and_tell(flat)[0]


def nest_and_tell(flat: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """What ``nest`` gives, and whether every value stands exactly where its key says: nothing collided, no key was too long.

    An instrumentation writes the same keys again and again: where nothing collides they alone decide the shape, so that
    it is worked out once (17 keys of a model call: 4 µs instead of 14). Safe to call from several threads.
    """
    keys = tuple(flat)
    plan = _plans.get(keys)
    if plan is not None:
        return _carried_out(plan, flat.values()), True
    tree, is_regular = _grown(flat)
    if is_regular and len(tree.opened) >= PLAN_CONTAINERS_MIN:
        _plans.remember(keys)
    return (tree.finished() if tree.numbered or tree.displaced else tree.root), is_regular


def _grown(flat: Mapping[str, Any]) -> tuple[_Tree, bool]:
    tree = _Tree()
    root, opened = tree.root, tree.opened
    is_regular = True
    for key, value in flat.items():
        prefix, dot, leaf = _splits[key]
        place = (opened.get(prefix) or tree.opened_anew(prefix, leaf)) if dot else root
        if place is None or leaf in place:
            is_regular = False
            tree.put(key, value)
        else:
            place[leaf] = value
    return tree, is_regular


class _Splits(dict[str, tuple[str, str, str]]):
    """Keys, and where their last dot parts them. What is remembered brings its hashes along, so that a key that comes
    again, among whatever others, takes half the time."""

    def __missing__(self, key: str) -> tuple[str, str, str]:
        split = key.rpartition(".")
        if len(key) <= SPLIT_CHARACTERS_MAX:
            if len(self) >= SPLITS_MAX:
                self.clear()
            self[key] = split
        return split


_splits: Final = _Splits()


class _Plan(NamedTuple):
    """The shape of a set of keys, as the steps that make it.

    ``steps``: into which container, under which name, goes the next value, or, where the third says so, a new container;
    they are counted from the root, 0, as they are made. ``arrays``: where a container stands, which it is, and of which of
    its members it becomes an array; the inner ones first.
    """

    steps: tuple[tuple[int, str, bool], ...]
    arrays: tuple[tuple[int, str, int, tuple[str, ...]], ...]


def _carried_out(plan: _Plan, values: Iterable[Any]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    containers = [root]
    next_value = iter(values).__next__
    for at, name, opens in plan.steps:
        if opens:
            inner: dict[str, Any] = {}
            containers[at][name] = inner
            containers.append(inner)
        else:
            containers[at][name] = next_value()
    for at, name, numbered, members in plan.arrays:
        container = containers[numbered]
        containers[at][name] = [container[member] for member in members]
    return root


def _planned(keys: Iterable[str]) -> _Plan:
    steps: list[tuple[int, str, bool]] = []
    places: list[tuple[int, str]] = [(0, "")]
    members: list[list[str]] = [[]]
    opened: dict[str, int] = {}
    for key in keys:
        *above, leaf = key.split(".")
        at = 0
        for level, segment in enumerate(above, 1):
            prefix = ".".join(above[:level])
            if prefix not in opened:
                opened[prefix] = len(members)
                steps.append((at, segment, True))
                places.append((at, segment))
                members[at].append(segment)
                members.append([])
            at = opened[prefix]
        steps.append((at, leaf, False))
        members[at].append(leaf)
    arrays = []
    for container in reversed(range(1, len(members))):
        positions = tuple(map(str, range(len(members[container]))))
        if frozenset(positions) == frozenset(members[container]):
            arrays.append((*places[container], container, positions))
    return _Plan(tuple(steps), tuple(arrays))


_plans: Final = Plans(_planned, most=PLANS_MAX)


class _Tree:
    """The object while it grows.

    ``opened`` holds the containers that dotted keys have opened, by their prefix: these are ours, so they may be written to.
    ``numbered`` holds those that may become arrays, each with the place where it stands; ``displaced`` what was pushed off.
    """

    __slots__ = ("displaced", "numbered", "opened", "root")

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.opened: dict[str, dict[str, Any]] = {}
        self.numbered: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
        self.displaced: list[tuple[dict[str, Any], str, Any]] = []

    def opened_anew(self, prefix: str, below: str) -> dict[str, Any] | None:
        """The way of nearly every key: a new container at ``prefix``, for a member ``below``.

        ``None``, and nothing is done, where something stands in the way or the key has too many segments.
        """
        if prefix.count(".") >= SEGMENTS_MAX - 1:
            return None
        above, dot, segment = prefix.rpartition(".")
        place = (self.opened.get(above) or self.opened_anew(above, segment)) if dot else self.root
        if place is None or segment in place:
            return None
        inner: dict[str, Any] = {}
        place[segment] = self.opened[prefix] = inner
        if below[:1].isdigit() and _is_position(below):
            self.numbered.append((place, segment, inner))
        return inner

    def put(self, key: str, value: Any) -> None:
        """Put ``value`` where ``key`` says: opens what is missing on the way, displaces what stands there."""
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
        """The object, displaced values back where there is room, arrays made (not of two containers that had to be united)."""
        for place, leaf, earlier in self.displaced:
            _give_back(place, leaf, earlier)
        for place, leaf, members in reversed(self.numbered):  # the inner ones first
            if place.get(leaf) is members and all(str(index) in members for index in range(len(members))):
                place[leaf] = [members[str(index)] for index in range(len(members))]
        return self.root

    def _open(self, place: dict[str, Any], segments: list[str], index: int) -> dict[str, Any] | None:
        """The container in ``place`` that the segment names, ours to write to; ``None`` where a scalar is in the way."""
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
        """Forget the container at ``prefix`` and those that were opened inside it."""
        container = self.opened.pop(prefix, None)
        for name in container or ():
            self._close(f"{prefix}.{name}")


_NOTHING: Final = object()


def _is_position(segment: str) -> bool:
    return segment.isascii() and segment.isdigit() and (segment == "0" or segment[0] != "0")


def _give_back(place: dict[str, Any], leaf: str, earlier: Any) -> None:
    """Put what was displaced beside what displaced it, member by member. ``place`` is ours to write to.

    A leaf whose very place a later key has taken is superseded by it.
    """
    if leaf not in place:
        place[leaf] = earlier
    elif isinstance(earlier, dict | list):
        later = place[leaf]
        members = earlier.items() if isinstance(earlier, dict) else ((str(at), one) for at, one in enumerate(earlier))
        if isinstance(later, dict):
            place[leaf] = united = dict(later)
            for name, value in members:
                _give_back(united, name, value)
        else:
            for name, value in members:
                _give_back(place, f"{leaf}.{name}", value)
