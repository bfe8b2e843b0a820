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
from collections.abc import Mapping, Sequence
from typing import Final

from query_api.spans.render import Rendered

LEVELS_MAX: Final = 256
"""Each is two levels of JSON, and attributes may add fifty: Python's own parser ends at 1,000, orjson at 1,024."""


def tree_json(spans: Sequence[Rendered]) -> bytes:
    """The object ``spans`` of one trace: name → span or list of spans, each with its own ``spans`` below.

    ``spans`` are those of one trace, in the order in which siblings are to stand.
    """
    return b"".join(tree_pieces(spans))


def tree_pieces(spans: Sequence[Rendered]) -> list[bytes]:
    """The same, not joined yet: an answer of many trees is joined once."""
    below = _below(spans)
    pieces = [b"{"]
    unfinished = [iter(_members(below[-1], below, spans))]  # of the objects around the place that is written
    while unfinished:
        for piece in unfinished[-1]:
            if isinstance(piece, int):
                pieces += (spans[piece].json[:-1], b',"spans":{')
                unfinished.append(iter(_members(below[piece], below, spans)))
                break
            pieces.append(piece)
        else:
            unfinished.pop()
            pieces.append(b"}}" if unfinished else b"}")
    return pieces


def _members(
    siblings: Sequence[int], below: Mapping[int, Sequence[int]], spans: Sequence[Rendered]
) -> list[bytes | int]:
    """The members of one object: JSON text, and between it the indexes of the spans that have others below them."""
    if len({spans[index].name for index in siblings}) < len(siblings):
        return _members_with_lists(siblings, below, spans)
    members: list[bytes | int] = []
    for index in siblings:
        span = spans[index]
        members += (b",", span.name, b":", index if index in below else span.json)
    return members[1:]


def _members_with_lists(
    siblings: Sequence[int], below: Mapping[int, Sequence[int]], spans: Sequence[Rendered]
) -> list[bytes | int]:
    """The same where names are the same: the spans of one name are a list in place of the first."""
    by_name: dict[bytes, list[int]] = {}
    for index in siblings:
        by_name.setdefault(spans[index].name, []).append(index)
    members: list[bytes | int] = []
    for name, indexes in by_name.items():
        members += (b",", name, b":[" if len(indexes) > 1 else b":")
        for index in indexes:
            members += (index if index in below else spans[index].json, b",")
        members[-1] = b"]" if len(indexes) > 1 else b""
    return members[1:]


def _below(spans: Sequence[Rendered]) -> Mapping[int, Sequence[int]]:
    """The indexes below each span that has others below it; under −1 those at the top."""
    below: dict[int, list[int]] = {-1: []}
    for index, parent in enumerate(_parents(spans)):
        below.setdefault(parent, []).append(index)
    return below


def _parents(spans: Sequence[Rendered]) -> list[int]:
    """The index of each span's parent, −1 at the top."""
    places: dict[bytes | None, int] = {span.version.span_id: index for index, span in enumerate(spans)}
    parents = [places.get(span.parent_id, -1) for span in spans]
    if any(map(operator.ge, parents, range(len(parents)))):  # else parents come first, as they mostly do: no cycles
        _open_cycles(parents, spans)
    if len(parents) > LEVELS_MAX:
        _cut_deep(parents)
    return parents


def _open_cycles(parents: list[int], spans: Sequence[Rendered]) -> None:
    """Let the earliest span of every cycle stand at the top."""
    walk_of = [-1] * len(spans)  # the walk upwards that came by here first
    for walk in range(len(spans)):
        index = walk
        while index != -1 and walk_of[index] == -1:
            walk_of[index] = walk
            index = parents[index]
        if index != -1 and walk_of[index] == walk:  # back on its own way: a cycle
            parents[_earliest(index, parents, spans)] = -1


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


def _earliest(member: int, parents: Sequence[int], spans: Sequence[Rendered]) -> int:
    """Of the cycle that ``member`` is in, the span that starts first."""
    cycle = [member]
    while parents[cycle[-1]] != member:
        cycle.append(parents[cycle[-1]])
    return min(cycle, key=lambda index: spans[index].version.position)
