"""From placed spans to records of span JSON: all of them are sound, or the request is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from common.codec import span_json
from common.errors import InvalidInput, Rejected, TooLarge
from common.ids import span_id_hex, trace_id_hex
from common.limits import SpanLimits
from common.span import Span
from query_api.intake.models import Json, SpanLink
from query_api.intake.publish import TraceRecord
from query_api.intake.trees import Placed

PROBLEMS_MAX: Final = 10
_TIMES: Final = ("start_time", "end_time", "start_time_unix_nano", "end_time_unix_nano")


class Prepared(NamedTuple):
    """What is published for a request, and what it is answered with. Of spans with the same ids only the last is in it."""

    records: list[TraceRecord]
    links: list[SpanLink]

    @property
    def trace_ids(self) -> list[str]:
        """The traces, in the order in which they came."""
        return [trace_id_hex(record.trace_id) for record in self.records]


def prepare(placed: Sequence[Placed], *, limits: SpanLimits, now_ns: int) -> Prepared:
    """One record a trace. Raises ``InvalidInput`` that names the path of each span that cannot be kept, and why; ``TooLarge`` where the
    times that spans lack make a record, or a span, too large for who reads it."""
    if not placed:
        return Prepared([], [])
    by_trace: dict[bytes, list[Json]] = defaultdict(list)
    links = []
    for place, span in _decoded(placed, limits=limits, now_ns=now_ns):
        by_trace[span.trace_id].append(_settled(place.span, span))
        links.append(SpanLink(trace_id=trace_id_hex(span.trace_id), span_id=span_id_hex(span.span_id)))
    records = [_record(trace_id, spans, limits=limits) for trace_id, spans in by_trace.items()]
    return Prepared(records, links)


def _record(trace_id: bytes, spans: Sequence[Json], *, limits: SpanLimits) -> TraceRecord:
    value = orjson.dumps({"spans": spans})
    if len(value) > limits.record_bytes_max:
        raise TooLarge(
            f"The spans of trace {trace_id_hex(trace_id)} take {len(value)} bytes, each with its time; "
            f"{limits.record_bytes_max} are the limit: send fewer."
        )
    if len(value) > limits.span_bytes_max:
        for span in spans:
            _check_size(span, limits)
    return TraceRecord(trace_id, value)


def _check_size(settled: Json, limits: SpanLimits) -> None:
    size = len(orjson.dumps(settled))
    if size > limits.span_bytes_max:
        raise TooLarge(
            f"The span {settled['span_id']} takes {size} bytes with its time; {limits.span_bytes_max} are the limit."
        )


def _decoded(placed: Sequence[Placed], *, limits: SpanLimits, now_ns: int) -> list[tuple[Placed, Span]]:
    """Each span beside its decoded form; of those with the same ids the last."""
    value = b'{"spans":[%b]}' % b",".join(map(_json, placed))
    try:
        decoded = span_json.decode(value, limits=limits, now_ns=now_ns).without_repeats()
    except Rejected as exc:
        raise InvalidInput(exc.detail) from exc
    if decoded.rejections:
        problems = [f"{placed[r.span_index or 0].path}: {r.reason}" for r in decoded.rejections.in_full[:PROBLEMS_MAX]]
        more = len(decoded.rejections) - len(problems)
        raise InvalidInput(" ".join([*problems, *([f"And {more} more."] if more else [])]))
    return [(placed[index], span) for index, span in zip(decoded.span_indexes, decoded.spans, strict=True)]


def _json(place: Placed) -> bytes:
    try:
        return orjson.dumps(place.span)
    except orjson.JSONEncodeError as exc:
        raise InvalidInput(f"{place.path}: {exc}; legal integers are -2^63 to 2^64-1.") from exc


def _settled(sent: Json, span: Span) -> Json:
    """The span with the time that its reader would otherwise make up: a record read twice gives the same span."""
    if any(sent.get(name) is not None for name in _TIMES):
        return sent
    return {**sent, "start_time_unix_nano": str(span.start_ns), "end_time_unix_nano": str(span.end_ns)}
