"""The spans of a trace as a tree that keeps all of them (contract §3.1; reference §7 says what others lose).

A span stands below its parent whenever that is in the trace, also when it starts earlier. At the top stand roots, orphans,
of every cycle (a span that is its own parent is one) the earliest span, and every span that would stand below
``LEVELS_MAX`` others, with what is below it: a deeper tree is JSON that parsers refuse. Siblings are in the order of their
start; of one name they are a list.

Linear in spans and bytes and without recursion: the JSON of the spans is spliced, never parsed, and a chain of 100,000
spans is no deeper for this code than a bush.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, TypeAlias

from query_api.spans.render import Rendered
from query_api.spans.version import Version

LEVELS_MAX: Final = 200
"""What is answered can be sent back: intake ends at 254, and at about 240 where siblings share a name. Each is two levels of JSON, three in a
list, and attributes may add fifty: Python's own parser ends at 1,000, orjson at 1,024."""


def tree_json(spans: Sequence[Rendered]) -> bytes:
    """The object ``spans`` of one trace: name → span or list of spans, each with its own ``spans`` below.

    ``spans`` are those of one trace, in the order in which siblings are to stand.
    """
    return b"".join(tree_pieces(spans))


def tree_pieces(spans: Sequence[Rendered]) -> list[bytes]:
    """The same, not joined yet: an answer of many trees is joined once."""
    if not spans:
        return [b"{}"]
    versions, parent_ids, names, jsons = zip(*spans, strict=True)
    below = _below(_parents(versions, parent_ids))
    pieces = [b"{"]
    unfinished = [(_members(below[-1], names), b"}")]  # the objects around the place that is written, and how they end
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
"""The index of a span, and what stands before and behind it in the object that it is in."""


def _members(siblings: Sequence[int], names: Sequence[bytes]) -> Iterator[_Member]:
    """The spans of one object, in its order."""
    own = [names[index] for index in siblings]
    if len(set(own)) < len(own):
        return _members_with_lists(siblings, names)
    before = [b",%b:" % name for name in own]
    before[0] = before[0][1:]
    return zip(siblings, before, repeat(b""))


def _members_with_lists(siblings: Sequence[int], names: Sequence[bytes]) -> Iterator[_Member]:
    """The same where names are the same: the spans of one name are a list in place of the first."""
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
    """The indexes below each span that has others below it; under −1 those at the top."""
    below: dict[int, list[int]] = defaultdict(list)
    for index, parent in enumerate(parents):
        below[parent].append(index)
    return below


def _parents(versions: Sequence[Version], parent_ids: Sequence[bytes | None]) -> list[int]:
    """The index of each span's parent, −1 at the top."""
    places: dict[bytes | None, int] = {version.span_id: index for index, version in enumerate(versions)}
    parents = [places.get(parent_id, -1) for parent_id in parent_ids]
    if any(map(operator.ge, parents, range(len(parents)))):  # else parents come first, as they mostly do: no cycles
        _open_cycles(parents, versions)
    if len(parents) > LEVELS_MAX:
        _cut_deep(parents)
    return parents


def _open_cycles(parents: list[int], versions: Sequence[Version]) -> None:
    """Let the earliest span of every cycle stand at the top."""
    walk_of = [-1] * len(parents)  # the walk upwards that came by here first
    for walk in range(len(parents)):
        index = walk
        while index != -1 and walk_of[index] == -1:
            walk_of[index] = walk
            index = parents[index]
        if index != -1 and walk_of[index] == walk:  # back on its own way: a cycle
            parents[_earliest(index, parents, versions)] = -1


def _cut_deep(parents: list[int]) -> None:
    """Let no span stand deeper than ``LEVELS_MAX``; there are no cycles any more."""
    levels = [0] * len(parents)
    for start in range(len(parents)):
        way = []
        index = start
        while index != -1 and levels[index] == 0:
            way.append(index)
            index = parents[index]
        level = 0 if index == -1 else levels[index]
        for each in reversed(way):
            if level == LEVELS_MAX:
                parents[each], level = -1, 0
            level += 1
            levels[each] = level


def _earliest(member: int, parents: Sequence[int], versions: Sequence[Version]) -> int:
    """Of the cycle that ``member`` is in, the span that starts first."""
    cycle = [member]
    while parents[cycle[-1]] != member:
        cycle.append(parents[cycle[-1]])
    return min(cycle, key=lambda index: versions[index].position)
