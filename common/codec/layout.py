"""Where the spans of a record lie in its bytes, and records with only some of them, every byte unchanged.

The same for every encoding. ``json_cut`` and ``protobuf_cut`` find the spans, and frame the pieces again with commas
and brackets, or with tags and lengths. A layout is computed once per record and used for any number of cuts: the cost
of a cut depends on what it returns, not on the size of the record. It takes 16 bytes per span: the smallest span has
two, so a record of 10 MiB may hold five million.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter, lt
from typing import Final, NamedTuple


class SpanPart(NamedTuple):
    """One span: the index of its scope, and its bytes from ``start`` to ``end``; without their frame they begin at
    ``content``.
    """

    scope: int
    start: int
    content: int
    end: int


class SpanParts:
    """The parts of many spans, stored as numbers."""

    def __init__(self) -> None:
        self._columns = (array("I"), array("I"), array("I"), array("I"))

    def add(self, scope: int, start: int, content: int, end: int) -> None:
        """Append one span."""
        scopes, starts, contents, ends = self._columns
        scopes.append(scope)
        starts.append(start)
        contents.append(content)
        ends.append(end)

    def runs(self, *, bytes_max: int) -> Iterator[tuple[int, int]]:
        """Yield the first and the last index of spans of one scope of which one follows another on the wire.

        They take at most ``bytes_max`` bytes, unless it is one span.
        """
        first, run_start, run_scope, run_end = 0, 0, -1, -1
        for index, (scope, start, end) in enumerate(
            zip(self._columns[0], self._columns[1], self._columns[3], strict=True)
        ):
            if start != run_end or scope != run_scope or end - run_start > bytes_max:
                if index:
                    yield first, index - 1
                first, run_start, run_scope = index, start, scope
            run_end = end
        if len(self):
            yield first, len(self) - 1

    def __getitem__(self, index: int) -> SpanPart:
        return SpanPart._make([column[index] for column in self._columns])

    def __iter__(self) -> Iterator[SpanPart]:
        return map(SpanPart, *self._columns)

    def __len__(self) -> int:
        return len(self._columns[0])


class ScopePart(NamedTuple):
    """One ``ScopeSpans``: the index of its resource, and everything in it except its spans as one piece."""

    resource: int
    wrapper: bytes


class Framing(NamedTuple):
    """How an encoding joins pieces: each function takes their wrapper and the pieces, and returns the next level.

    ``is_gap`` says whether two spans of one scope may stay one piece with these bytes between them.
    """

    scope: Callable[[bytes, list[bytes]], bytes]
    resource: Callable[[bytes, list[bytes]], bytes]
    request: Callable[[list[bytes]], bytes]
    is_gap: Callable[[bytes], object] = lambda _between: False


class Layout(NamedTuple):
    """The parts of a record that hold spans, each kind in wire order. ``resources`` are everything in a
    ``ResourceSpans`` except its scopes.
    """

    value: bytes
    framing: Framing
    resources: list[bytes]
    scopes: list[ScopePart]
    spans: SpanParts

    def content(self, span: SpanPart) -> bytes:
        """Return the bytes of one span."""
        return self.value[span.content : span.end]

    def groups(self) -> Iterator[tuple[ScopePart, Iterator[bytes]]]:
        """Yield the spans of each scope, in wire order. Read a group before you ask for the next one."""
        for scope, spans in groupby(self.spans, _scope_of):
            yield self.scopes[scope], map(self.content, spans)

    def cut(self, span_indexes: Sequence[int]) -> bytes:
        """Return a record with only these spans and their resources and scopes. Indexes past the end are ignored."""
        last = len(self.spans) - 1
        return self.request_of(self.spans[index] for index in ascending(span_indexes) if index <= last)

    def request_of(self, spans: Iterable[SpanPart]) -> bytes:
        """Return a request with these spans of this layout, given in wire order."""
        resources = groupby(spans, lambda span: self.scopes[span.scope].resource)
        return self.framing.request(
            [self.framing.resource(self.resources[resource], self._framed_scopes(own)) for resource, own in resources]
        )

    def _framed_scopes(self, spans: Iterable[SpanPart]) -> list[bytes]:
        return [
            self.framing.scope(self.scopes[scope].wrapper, list(pieces(self.value, own, is_gap=self.framing.is_gap)))
            for scope, own in groupby(spans, _scope_of)
        ]


def pieces(value: bytes, spans: Iterable[SpanPart], *, is_gap: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield the bytes of spans, in wire order; neighbors are one piece if ``is_gap`` accepts the bytes between them."""
    start = end = -1
    for span in spans:
        if start < 0:
            start = span.start
        elif not is_gap(value[end : span.start]):
            yield value[start:end]
            start = span.start
        end = span.end
    if start >= 0:
        yield value[start:end]


def ascending(span_indexes: Sequence[int]) -> Sequence[int]:
    """Return the indexes in ascending order, each once; unchanged if they are so already: there may be millions."""
    if all(map(lt, span_indexes, islice(span_indexes, 1, None))):
        return span_indexes
    return sorted(set(span_indexes))


_scope_of: Final = attrgetter("scope")
