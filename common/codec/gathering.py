"""The loop that all codecs share: span after span, each refusal beside its neighbours (contract §4).

Knows no format. A codec gives groups of spans that share a resource and a scope, and a function that reads one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final, NamedTuple

from common.codec.decoded import Decoded, Rejections
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.span import Resource, Scope, Span

NO_TRACE_ID: Final = "The span has no trace id: "
"""How a refusal begins when there is nothing like an id; a whole record of these gets a hint."""
KNOWN_MAX: Final = 1_000
KNOWN_BYTES_MAX: Final = 64
"""Only small spans come in millions: one of 10 MiB has room for 160,000 of this size."""

_HINT: Final = " No span of the record has one: an export of logs or metrics looks like this."


class Group(NamedTuple):
    """Spans of one scope, in wire order, as the codec holds them. A wrapper that is refused refuses its spans."""

    resource: Resource | Rejected
    scope: Scope | Rejected
    members: Iterable[Any]


def gather(
    groups: Iterable[Group], read: Callable[[Any, Resource, Scope], Span], *, layout: Layout | None = None
) -> Decoded:
    """Every span that ``read`` gives, those with the same ids too, and a rejection for each for which it raises ``Rejected``.

    With a ``layout``, the members of the groups are the bytes of the spans; equal ones are rejected for equal reasons.
    """
    spans: list[Span] = []
    span_indexes: list[int] = []
    rejections = Rejections()
    known: dict[bytes, _Reason] = {}
    none_has_a_trace_id = True
    indexes = count()
    for resource, scope, members in groups:
        of_wrapper = _reason_of(resource, scope)
        for member, span_index in zip(
            members, indexes, strict=False
        ):  # members first: else an index is lost at each end
            reason = of_wrapper
            if reason is None and layout is not None:
                reason = known.get(member)
            if reason is None:
                try:
                    span = read(member, resource, scope)  # type: ignore[arg-type] # a rejected wrapper has a reason
                except Rejected as rejected:
                    reason = _Reason(rejected.rejection, rejected.detail)
                    if layout is not None and len(member) <= KNOWN_BYTES_MAX and len(known) < KNOWN_MAX:
                        known[member] = reason
                else:
                    spans.append(span)
                    span_indexes.append(span_index)
                    continue
            rejections.add(span_index, reason.code, reason.text)
            none_has_a_trace_id = none_has_a_trace_id and reason.text.startswith(NO_TRACE_ID)
    if none_has_a_trace_id and not spans:
        rejections = rejections.with_hint(_HINT)
    return Decoded(spans, span_indexes, rejections, layout=layout)


def missing_trace_id(legal: str) -> Rejected:
    """The refusal of a span that has no trace id at all."""
    return Rejected(RejectionCode.INVALID_TRACE_ID, f"{NO_TRACE_ID}it takes {legal}.")


class _Reason(NamedTuple):
    """Why a span is rejected. No exception is kept or raised again: it holds its traceback, which grows each time."""

    code: RejectionCode
    text: str


def _reason_of(resource: Resource | Rejected, scope: Scope | Rejected) -> _Reason | None:
    """Why all spans of a group are rejected, if they are."""
    for wrapper in (resource, scope):
        if isinstance(wrapper, Rejected):
            return _Reason(wrapper.rejection, wrapper.detail)
    return None
