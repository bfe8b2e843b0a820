"""What every codec returns, and the loop that all codecs share: a bad span is rejected, its neighbors are kept
(contract §4).

Knows no format. A codec gives groups of spans, or of log records, that share a resource and a scope, and a function
that reads one. The index of a log record in its record is called ``span_index``, too.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, repeat
from typing import Any, Final, Generic, NamedTuple, TypeVar

from common.codec.checks import check_paths, check_span_size
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.limits import SpanLimits
from common.log_record import LogRecord
from common.span import Resource, Scope, Span

IN_FULL_MAX: Final = 100
"""How many rejected spans of a record keep their reason and get a dead letter of their own (contract §4)."""

REASONS_MAX: Final = 10
"""How many reasons of the further rejected spans are kept."""

NO_TRACE_ID: Final = "The span has no trace id: "
"""The beginning of the reason if a span has no trace id at all. If all spans of a record lack it, the reasons get a
hint."""

NO_TIME: Final = "The log record has no time: "
"""The same for log records: a span that is read as a log record has no time."""

KNOWN_MAX: Final = 1_000
KNOWN_BYTES_MAX: Final = 64
"""Only small spans come in millions: 10 MiB hold 160,000 of this size."""

_T = TypeVar("_T")
_HINT: Final = " No span of the record has one: an export of logs or metrics looks like this."
_LOGS_HINT: Final = " No log record of the record has one: an export of spans or metrics looks like this."


class Rejection(NamedTuple):
    """A span, or a whole record if ``span_index`` is ``None``, that becomes a dead letter."""

    span_index: int | None
    code: RejectionCode
    reason: str


@dataclass(slots=True)
class Rejections:
    """What is rejected of one record, in bounded memory: a record of 10 MiB may hold five million bad spans.

    ``in_full`` are the first ``IN_FULL_MAX``. All further ones are kept as their indexes, a count per code, and the
    first ``REASONS_MAX`` in full.
    """

    in_full: list[Rejection] = field(default_factory=list)
    further_indexes: array[int] = field(default_factory=partial(array, "I"))
    further_codes: Counter[RejectionCode] = field(default_factory=Counter)
    further_examples: list[Rejection] = field(default_factory=list)

    @classmethod
    def of_record(cls, code: RejectionCode, reason: str) -> Rejections:
        """Return the rejection of a whole record."""
        return cls([Rejection(None, code, reason)])

    def __len__(self) -> int:
        """How many spans are rejected; a whole record counts as one."""
        return len(self.in_full) + len(self.further_indexes)

    @property
    def is_of_record(self) -> bool:
        """Whether the record is rejected as a whole."""
        return bool(self.in_full) and self.in_full[0].span_index is None

    def add(self, span_index: int, code: RejectionCode, reason: str) -> None:
        """Reject one span."""
        if len(self.in_full) < IN_FULL_MAX:
            self.in_full.append(Rejection(span_index, code, reason))
            return
        self.further_indexes.append(span_index)
        self.further_codes[code] += 1
        if len(self.further_examples) < REASONS_MAX:
            self.further_examples.append(Rejection(span_index, code, reason))

    def plus(self, more: Iterable[Rejection]) -> Rejections:
        """Return a copy that rejects further spans too."""
        both = Rejections(
            [*self.in_full], self.further_indexes[:], Counter(self.further_codes), [*self.further_examples]
        )
        for span_index, code, reason in more:
            assert span_index is not None  # noqa: S101 - narrows the type: a whole record is not one of several
            both.add(span_index, code, reason)
        return both

    def with_hint(self, hint: str) -> Rejections:
        """Return a copy with a sentence after each reason."""
        return Rejections(
            [rejection._replace(reason=rejection.reason + hint) for rejection in self.in_full],
            self.further_indexes,
            self.further_codes,
            [rejection._replace(reason=rejection.reason + hint) for rejection in self.further_examples],
        )


class Decoded(NamedTuple):
    """One record, decoded.

    ``spans`` and ``span_indexes`` are parallel; an index is the position in wire order over the whole record, from 0,
    with rejected spans counted. ``base64_ids_count`` counts ids that came as base64 where the format wants hex.
    ``layout`` is set if it was needed to decode the record.
    """

    spans: list[Span]
    span_indexes: list[int]
    rejections: Rejections
    base64_ids_count: int = 0
    layout: Layout | None = None

    def without_repeats(self) -> Decoded:
        """Keep one of spans with the same ids, as if each had come in a record of its own. For spans of one project."""
        if len({(span.trace_id, span.span_id) for span in self.spans}) == len(self.spans):
            return self
        kept = last_of_each(self.spans)
        return self._replace(spans=[self.spans[at] for at in kept], span_indexes=[self.span_indexes[at] for at in kept])


def last_of_each(spans: Sequence[Span], projects: Sequence[Hashable] | None = None) -> list[int]:
    """Return the positions of the spans that no other one with the same ids and project replaces: of several, the last
    that ended, else the last.
    """
    placed = list(zip(range(len(spans)), projects or repeat(None), spans, strict=False))
    if any(span.is_running for span in spans):
        placed.sort(key=lambda each: not each[2].is_running)
    return sorted({(project, span.trace_id, span.span_id): at for at, project, span in placed}.values())


class Group(NamedTuple):
    """Spans of one scope, in wire order, as the codec holds them. A rejected wrapper rejects its spans."""

    resource: Resource | Rejection
    scope: Scope | Rejection
    members: Iterable[Any]


class DecodedLogs(NamedTuple):
    """One record of log records, decoded. The members are those of ``Decoded``; ``indexes`` are the positions in wire
    order.
    """

    logs: list[LogRecord]
    indexes: list[int]
    rejections: Rejections
    base64_ids_count: int = 0
    layout: Layout | None = None


def gather(
    groups: Iterable[Group], read: Callable[[Any, Resource, Scope], Span], *, layout: Layout | None = None
) -> Decoded:
    """Return every span that ``read`` returns, repeats included, and a rejection for each for which it raises
    ``Rejected``.

    With a ``layout``, the members of the groups are the bytes of the spans; equal ones are rejected for equal reasons.
    """

    def read_checked(member: Any, resource: Resource, scope: Scope) -> Span:
        span = read(member, resource, scope)
        check_paths("attributes", span.attributes)
        for event in span.events:
            check_paths("events.attributes", event.attributes)
        return span

    found = _gathered(groups, read_checked, sign=NO_TRACE_ID, hint=_HINT, layout=layout)
    return Decoded(found.members, found.indexes, found.rejections, layout=layout)


def gather_logs(
    groups: Iterable[Group], read: Callable[[Any, Resource, Scope], LogRecord], *, layout: Layout | None = None
) -> DecodedLogs:
    """Do the same for log records."""

    def read_checked(member: Any, resource: Resource, scope: Scope) -> LogRecord:
        log = read(member, resource, scope)
        check_paths("attributes", log.attributes)
        check_paths("log", {"body": log.body})
        return log

    found = _gathered(groups, read_checked, sign=NO_TIME, hint=_LOGS_HINT, layout=layout)
    return DecodedLogs(found.members, found.indexes, found.rejections, layout=layout)


class _ReadMembers(NamedTuple, Generic[_T]):
    members: list[_T]
    indexes: list[int]
    rejections: Rejections


def _gathered(
    groups: Iterable[Group],
    read: Callable[[Any, Resource, Scope], _T],
    *,
    sign: str,
    hint: str,
    layout: Layout | None,
) -> _ReadMembers[_T]:
    """Return what ``read`` returns, and the rejections; with the hint if each reason begins with ``sign``."""
    kept: list[_T] = []
    kept_indexes: list[int] = []
    rejections = Rejections()
    known: dict[bytes, Rejection] = {}
    all_have_sign = True
    indexes = count()
    for resource, scope, members in groups:
        of_wrapper = next((wrapper for wrapper in (resource, scope) if isinstance(wrapper, Rejection)), None)
        # Members first: with the indexes first, zip would drop one at the end of each group.
        for member, index in zip(members, indexes, strict=False):
            rejection = of_wrapper
            if rejection is None and layout is not None:
                rejection = known.get(member)
            if rejection is None:
                try:
                    one = read(member, resource, scope)  # type: ignore[arg-type] # a rejected wrapper has a reason
                except Rejected as rejected:
                    rejection = _rejection_of(rejected)
                    if layout is not None and len(member) <= KNOWN_BYTES_MAX and len(known) < KNOWN_MAX:
                        known[member] = rejection
                else:
                    kept.append(one)
                    kept_indexes.append(index)
                    continue
            rejections.add(index, rejection.code, rejection.reason)
            all_have_sign = all_have_sign and rejection.reason.startswith(sign)
    if all_have_sign and not kept:
        rejections = rejections.with_hint(hint)
    return _ReadMembers(kept, kept_indexes, rejections)


def gather_split(
    layout: Layout,
    limits: SpanLimits,
    read: Callable[[bytes, Resource, Scope], Span],
    read_resource: Callable[[bytes], Resource],
    read_scope: Callable[[bytes], Scope],
) -> Decoded:
    """Parse every span alone, which is slow, so that a bad one costs only itself and few are in memory at once."""
    groups = _split_groups(layout, read_resource, read_scope)
    return gather(groups, _sized(read, limits, "span"), layout=layout)


def gather_logs_split(
    layout: Layout,
    limits: SpanLimits,
    read: Callable[[bytes, Resource, Scope], LogRecord],
    read_resource: Callable[[bytes], Resource],
    read_scope: Callable[[bytes], Scope],
) -> DecodedLogs:
    """Do the same for log records."""
    groups = _split_groups(layout, read_resource, read_scope)
    return gather_logs(groups, _sized(read, limits, "log record"), layout=layout)


def _split_groups(
    layout: Layout, read_resource: Callable[[bytes], Resource], read_scope: Callable[[bytes], Scope]
) -> Iterator[Group]:
    resources = [guarded(read_resource, wrapper) for wrapper in layout.resources]
    for part, members in layout.groups():
        yield Group(resources[part.resource], guarded(read_scope, part.wrapper), members)


def _sized(
    read: Callable[[bytes, Resource, Scope], _T], limits: SpanLimits, kind: str
) -> Callable[[bytes, Resource, Scope], _T]:
    def read_sized(raw: bytes, resource: Resource, scope: Scope) -> _T:
        check_span_size(len(raw), limits, kind)
        return read(raw, resource, scope)

    return read_sized


def guarded(read: Callable[..., _T], *found: Any) -> _T | Rejection:
    """Return what ``read`` returns, or the rejection that it raises."""
    try:
        return read(*found)
    except Rejected as rejected:
        return _rejection_of(rejected)


def missing_id(trace_id: bytes, *, trace_id_form: str, span_id_form: str) -> Rejected:
    """Return the rejection of a span whose trace id or span id is absent or all zeros."""
    if not trace_id:
        return Rejected(RejectionCode.INVALID_TRACE_ID, f"{NO_TRACE_ID}it must be {trace_id_form}.")
    if not any(trace_id):
        return Rejected(RejectionCode.INVALID_TRACE_ID, "The trace id is all zeros, which is not allowed.")
    return Rejected(RejectionCode.INVALID_SPAN_ID, f"The span id is absent or all zeros; it must be {span_id_form}.")


def missing_time(times: str) -> Rejected:
    """Return the rejection of a log record without any of its ``times``."""
    return Rejected(RejectionCode.ABSURD_TIME, f"{NO_TIME}it must have {times}.")


def _rejection_of(rejected: Rejected) -> Rejection:
    """Return why a span is rejected. The exception itself is not kept: its traceback takes 2 KB."""
    return Rejection(None, rejected.rejection, rejected.detail)
