"""Where the spans of an OTLP request lie in its bytes, and requests of some of them, every byte as it was.

One walk for both wire forms. How a form is followed, and how it puts pieces together again (commas and brackets, or tags
and lengths), stands in ``json_cut`` and ``protobuf_cut``. A layout is made once a record and then asked as often as
needed: a cut costs what it gives, however many spans the record has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple


class SpanPart(NamedTuple):
    """One span: the index of its scope, and its bytes from ``start`` to ``end``, without their frame from ``content`` on."""

    scope: int
    start: int
    content: int
    end: int


class ScopePart(NamedTuple):
    """One ``ScopeSpans``: the index of its resource, and everything in it but its spans as one piece."""

    resource: int
    wrapper: bytes


class Framing(NamedTuple):
    """How a wire form puts pieces together: what is around them, then the pieces, to the piece of the next level."""

    scope: Callable[[bytes, list[bytes]], bytes]
    resource: Callable[[bytes, list[bytes]], bytes]
    request: Callable[[list[bytes]], bytes]


class RequestLayout(NamedTuple):
    """The parts of a request, each kind in wire order. ``resources`` are everything in a ``ResourceSpans`` but its scopes."""

    value: bytes
    framing: Framing
    resources: list[bytes]
    scopes: list[ScopePart]
    spans: list[SpanPart]

    def content(self, span: SpanPart) -> bytes:
        """The bytes of one span."""
        return self.value[span.content : span.end]

    def groups(self) -> Iterator[tuple[ScopePart, Iterator[bytes]]]:
        """The spans of each scope that has any, in wire order; to be read before the next group is asked for."""
        for scope, spans in groupby(self.spans, _scope_of):
            yield self.scopes[scope], map(self.content, spans)

    def cut(self, span_indexes: Sequence[int]) -> bytes:
        """A request with these spans alone, their resource and scope beside them. What is not there is not in it."""
        last = len(self.spans) - 1
        return self.request_of(self.spans[index] for index in sorted(set(span_indexes)) if index <= last)

    def request_of(self, spans: Iterable[SpanPart]) -> bytes:
        """A request with these spans of ours, given in wire order."""
        resources = groupby(spans, lambda span: self.scopes[span.scope].resource)
        return self.framing.request(
            [self.framing.resource(self.resources[resource], self._framed_scopes(own)) for resource, own in resources]
        )

    def _framed_scopes(self, spans: Iterable[SpanPart]) -> list[bytes]:
        return [
            self.framing.scope(self.scopes[scope].wrapper, [self.value[span.start : span.end] for span in own])
            for scope, own in groupby(spans, _scope_of)
        ]


_scope_of: Final = attrgetter("scope")
