"""The loop that all codecs share: span after span, each refusal beside its neighbours (contract §4).

Knows no format. A codec gives groups of spans that share a resource and a scope, and a function that reads one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from common.codec.decoded import Decoded, Refusal
from common.errors import Rejected, RejectionCode
from common.span import Resource, Scope, Span

NO_TRACE_ID: Final = "The span has no trace id: "
"""How a refusal begins when there is nothing like an id; a whole record of these gets a hint."""
_Shared = TypeVar("_Shared", Resource, Scope)
_HINT: Final = " No span of the record has one: an export of logs or metrics looks like this."


class Group(NamedTuple):
    """Spans of one scope, in wire order, as the codec holds them. A wrapper that is refused refuses its spans."""

    resource: Resource | Rejected
    scope: Scope | Rejected
    members: Iterable[Any]


def gather(groups: Iterable[Group], read: Callable[[Any, Resource, Scope], Span]) -> Decoded:
    """Every span that ``read`` gives, those with the same ids too, and a refusal for each for which it raises ``Rejected``."""
    spans: list[Span] = []
    span_indexes: list[int] = []
    refusals: list[Refusal] = []
    span_index = 0
    for resource, scope, members in groups:
        for member in members:
            try:
                span = read(member, _usable(resource), _usable(scope))
            except Rejected as rejected:
                refusals.append(Refusal(span_index, rejected.rejection, rejected.detail))
            else:
                spans.append(span)
                span_indexes.append(span_index)
            span_index += 1
    return _hinted(Decoded(spans, span_indexes, refusals))


def missing_trace_id(legal: str) -> Rejected:
    """The refusal of a span that has no trace id at all."""
    return Rejected(RejectionCode.INVALID_TRACE_ID, f"{NO_TRACE_ID}it takes {legal}.")


def _usable(shared: _Shared | Rejected) -> _Shared:
    if isinstance(shared, Rejected):
        raise shared
    return shared


def _hinted(decoded: Decoded) -> Decoded:
    if decoded.spans or not all(refusal.reason.startswith(NO_TRACE_ID) for refusal in decoded.refusals):
        return decoded
    return decoded._replace(refusals=[refusal._replace(reason=refusal.reason + _HINT) for refusal in decoded.refusals])
