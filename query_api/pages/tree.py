"""The spans of a trace as a tree that keeps all of them (contract §3.1; reference §7).

A span is below its parent whenever the parent is in the trace, even if the span starts earlier. At the top are roots,
orphans, the earliest span of every cycle (a span that is its own parent is one), and every span that would be below
``LEVELS_MAX`` others, with its subtree: parsers reject JSON that nests deeper. Siblings are in the order of their
start; siblings of one name are a list.

Linear in spans and bytes, and without recursion: the JSON of the spans is joined, never parsed, and a chain of 100,000
spans costs as much as 100,000 siblings.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, TypeAlias

from query_api.spans.rows import Rendered
from query_api.spans.versions import Version

LEVELS_MAX: Final = 200
"""A response can be sent back: intake accepts 254 levels, about 240 where siblings share a name. Each level is two
levels of JSON, three in a list, and attributes may add fifty; Python's own parser accepts 1,000 levels, orjson
1,024."""


def tree_json(spans: Sequence[Rendered]) -> bytes:
    """Return the JSON object ``spans`` of one trace: name → span or list of spans, each with its own ``spans`` below.

    ``spans`` are those of one trace, in the order of siblings.
    """
    return b"".join(tree_pieces(spans))


def tree_pieces(spans: Sequence[Rendered]) -> list[bytes]:
    """Return the same, not joined yet: a response of many trees is joined once."""
    if not spans:
        return [b"{}"]
    versions, parent_ids, names, jsons = zip(*spans, strict=True)
    below = _below(_parents(versions, parent_ids))
    pieces = [b"{"]
    unfinished = [(_members(below[-1], names), b"}")]  # the open objects, and how each ends
    while unfinished:
        members, end = unfinished[-1]
        for index, before, after in members:
            if index in below:
                pieces += (before, jsons[index][:-1], b',"spans":{')
                unfinished.append((_members(below[index], names), b"}}" + after))
                break
            pieces += (before, jsons[index], after)
        else:
            pieces.append(end)
            unfinished.pop()
    return pieces


_Member: TypeAlias = tuple[int, bytes, bytes]
"""The index of a span, and the bytes before and after it in its object."""


def _members(siblings: Sequence[int], names: Sequence[bytes]) -> Iterator[_Member]:
    """Return the spans of one object, in its order."""
    own = [names[index] for index in siblings]
    if len(set(own)) < len(own):
        return _members_with_lists(siblings, names)
    before = [b",%b:" % name for name in own]
    before[0] = before[0][1:]
    return zip(siblings, before, repeat(b""))


def _members_with_lists(siblings: Sequence[int], names: Sequence[bytes]) -> Iterator[_Member]:
    """Return the same for equal names: the spans of one name are a list at the place of the first."""
    by_name: dict[bytes, list[int]] = {}
    for index in siblings:
        by_name.setdefault(names[index], []).append(index)
    comma = b""
    for name, [first, *others] in by_name.items():
        yield first, b"%b%b:%b" % (comma, name, b"[" if others else b""), b""
        for index in others:
            yield index, b",", b"]" if index == others[-1] else b""
        comma = b","


def _below(parents: Sequence[int]) -> Mapping[int, Sequence[int]]:
    """Return the indexes below each span that has others below it; under −1 those at the top."""
    below: dict[int, list[int]] = defaultdict(list)
    for index, parent in enumerate(parents):
        below[parent].append(index)
    return below


def _parents(versions: Sequence[Version], parent_ids: Sequence[bytes | None]) -> list[int]:
    """Return the index of each span's parent, −1 at the top."""
    places: dict[bytes | None, int] = {version.span_id: index for index, version in enumerate(versions)}
    parents = [places.get(parent_id, -1) for parent_id in parent_ids]
    if any(map(operator.ge, parents, range(len(parents)))):  # else parents come first, as is usual: no cycles
        _open_cycles(parents, versions)
    if len(parents) > LEVELS_MAX:
        _cut_deep(parents)
    return parents


def _open_cycles(parents: list[int], versions: Sequence[Version]) -> None:
    """Move the earliest span of every cycle to the top."""
    climb_of = [-1] * len(parents)  # the first climb that passed each span
    for climb in range(len(parents)):
        index = climb
        while index != -1 and climb_of[index] == -1:
            climb_of[index] = climb
            index = parents[index]
        if index != -1 and climb_of[index] == climb:  # back on its own path: a cycle
            parents[_earliest(index, parents, versions)] = -1


def _cut_deep(parents: list[int]) -> None:
    """Move spans below ``LEVELS_MAX`` levels to the top. Cycles are open already."""
    levels = [0] * len(parents)
    for start in range(len(parents)):
        path = []
        index = start
        while index != -1 and levels[index] == 0:
            path.append(index)
            index = parents[index]
        level = 0 if index == -1 else levels[index]
        for member in reversed(path):
            if level == LEVELS_MAX:
                parents[member], level = -1, 0
            level += 1
            levels[member] = level


def _earliest(member: int, parents: Sequence[int], versions: Sequence[Version]) -> int:
    """Return the span of the cycle of ``member`` that starts first."""
    cycle = [member]
    while parents[cycle[-1]] != member:
        cycle.append(parents[cycle[-1]])
    return min(cycle, key=lambda index: versions[index].position)
