"""Convert bodies of spans as JSON to records and a response; one bad span rejects the whole request (reference §4,
contract §4).

Pure functions, one per route: large bodies are prepared in another process. A tree of spans is flattened first,
children before their parent, each with its JSON path. The spans are then decoded by the code that will read them from
Kafka again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from pydantic import BaseModel

from common.codec import span_json
from common.codec.repair import json_text, plain_json
from common.errors import InvalidInput, Rejected, TooLarge
from common.ids import parse_trace_id, span_id_hex, trace_id_hex
from common.limits import SpanLimits
from common.span import Span
from common.steps import finished
from query_api.intake.models import (
    Json,
    LinksResponse,
    SpanLink,
    SpansIngest,
    TraceIdResponse,
    TraceIdsResponse,
    TraceIngest,
    TracesIngest,
)
from query_api.intake.publish import PreparedIntake
from query_api.intake.records import Destination, IntakeRecord, IntakeRecords, destinations_of
from query_api.request.json_body import json_response
from query_api.request.route import PrepareContext

PROBLEMS_MAX: Final = 10
_SPANS: Final = b'{"spans":[%b]}'
_SPANS_AT: Final = _SPANS.index(b"%b")
_CLOSING_BYTES: Final = len(_SPANS) - _SPANS_AT - len(b"%b")
_TIMES: Final = ("start_time", "end_time", "start_time_unix_nano", "end_time_unix_nano")


class PlacedSpan(NamedTuple):
    """One span without its children. ``is_top`` if it has no parent in the request."""

    path: str
    span: Json
    is_top: bool


class TraceSpans(NamedTuple):
    """The records of a request, one per partition, and its spans. Of spans with the same ids it has the last."""

    records: list[IntakeRecord]
    links: list[SpanLink]

    @property
    def trace_ids(self) -> list[str]:
        """The traces in the order in which they were sent."""
        return list(dict.fromkeys(link.trace_id for link in self.links))


def spans_of_ingest(body: SpansIngest, context: PrepareContext) -> PreparedIntake:
    """Prepare any number of spans of any number of traces."""
    return _with_links(to_records(_placed_spans(body), context))


def spans_of_traces(body: TracesIngest, context: PrepareContext) -> PreparedIntake:
    """Prepare any number of traces."""
    if not body.traces:
        raise InvalidInput("Missing traces")
    placed = []
    for index, trace in enumerate(body.traces):
        placed += _placed_trace(trace, path=f"traces[{index}]")
    traces = to_records(placed, context)
    return with_response(traces, TraceIdsResponse(count=len(traces.trace_ids), trace_ids=traces.trace_ids))


def spans_of_new_trace(body: TraceIngest, context: PrepareContext) -> PreparedIntake:
    """Prepare one trace with exactly one root."""
    return _with_trace_id(to_records(_one_trace(body), context))


def spans_of_replaced_trace(body: TraceIngest, context: PrepareContext) -> PreparedIntake:
    """Prepare one trace with exactly one root, whose id is in the path."""
    placed = _one_trace(body)
    _check_path_id(context.path["trace_id"], placed, shows_payload_id=False)
    return _with_trace_id(to_records(placed, context))


def spans_of_new_trace_of_spans(body: SpansIngest, context: PrepareContext) -> PreparedIntake:
    """Prepare one trace with exactly one root, in the form of ``/tracing/spans/ingest``."""
    return _with_links(to_records(_one_trace_of_spans(body), context))


def spans_of_replaced_trace_of_spans(body: SpansIngest, context: PrepareContext) -> PreparedIntake:
    """Prepare one trace in the form of ``/tracing/spans/ingest``, whose id is in the path."""
    placed = _one_trace_of_spans(body)
    _check_path_id(context.path["trace_id"], placed, shows_payload_id=True)
    return _with_links(to_records(placed, context))


def with_response(traces: TraceSpans, response: BaseModel) -> PreparedIntake:
    """Add the response as JSON."""
    return PreparedIntake(IntakeRecords.of(traces.records), len(traces.links), json_response(response).body)


def _with_links(traces: TraceSpans) -> PreparedIntake:
    return with_response(traces, LinksResponse(count=len(traces.links), links=traces.links))


def _with_trace_id(traces: TraceSpans) -> PreparedIntake:
    return with_response(traces, TraceIdResponse(count=1, trace_id=traces.trace_ids[0]))


def _placed_spans(body: SpansIngest) -> list[PlacedSpan]:
    placed: list[PlacedSpan] = []
    for index, span in enumerate(body.spans or []):
        placed += flatten_node(span, path=f"spans[{index}]")
    for name, trace in (body.traces or {}).items():
        placed += flatten(trace.get("spans"), path=f"traces.{name}.spans")
    return placed


def _placed_trace(trace: Json, *, path: str) -> list[PlacedSpan]:
    """Flatten a tree whose spans all belong to one trace. Raises ``InvalidInput``."""
    placed = list(flatten(trace.get("spans"), path=f"{path}.spans"))
    if not placed:
        raise InvalidInput("Missing spans")
    ids = _trace_ids(placed) | ({_canonical(trace["trace_id"])} if trace.get("trace_id") is not None else set())
    if len(ids) > 1:
        raise InvalidInput("Trace payload must contain exactly one trace_id.")
    return placed


def _one_trace(body: TraceIngest) -> list[PlacedSpan]:
    if not body.trace:
        raise InvalidInput("Missing trace")
    placed = _placed_trace(body.trace, path="trace")
    _check_root(placed)
    return placed


def _one_trace_of_spans(body: SpansIngest) -> list[PlacedSpan]:
    if body.spans is None and not body.traces:
        raise InvalidInput("Missing trace")
    placed = _placed_spans(body)
    if not placed:
        raise InvalidInput("Missing spans")
    if len(_trace_ids(placed)) > 1 or len(body.traces or {}) > 1:
        raise InvalidInput("Too many traces")
    _check_root(placed)
    return placed


def _check_root(placed: Sequence[PlacedSpan]) -> None:
    roots_count = sum(1 for place in placed if place.is_top and place.span.get("parent_id") is None)
    if roots_count != 1:
        raise InvalidInput("Too many root spans" if roots_count else "Missing root span")


def _check_path_id(path_id: str, placed: Sequence[PlacedSpan], *, shows_payload_id: bool) -> None:
    payload_id = placed[0].span["trace_id"]
    try:
        is_same = parse_trace_id(path_id) == parse_trace_id(payload_id)
    except ValueError as exc:
        raise InvalidInput("Invalid trace_id in path or payload.") from exc
    if not is_same:
        named = f" '{payload_id}'" if shows_payload_id else ""
        raise InvalidInput(f"Path trace_id '{path_id}' does not match payload trace_id{named}.")


def _trace_ids(placed: Sequence[PlacedSpan]) -> set[str]:
    return {_canonical(place.span["trace_id"]) for place in placed}


def _canonical(trace_id: str) -> str:
    """Return one spelling of an id for comparison; an invalid one is rejected later, with its path."""
    try:
        return parse_trace_id(trace_id).hex()
    except ValueError:
        return trace_id


def flatten(nodes: Mapping[str, Any] | None, *, path: str, parent: Json | None = None) -> Iterator[PlacedSpan]:
    """Return the spans of a tree, given its roots by name; several roots of one name are a list."""
    for name, value in (nodes or {}).items():
        if isinstance(value, list):
            for index, node in enumerate(value):
                yield from flatten_node(node, path=f"{path}.{name}[{index}]", parent=parent)
        else:
            yield from flatten_node(value, path=f"{path}.{name}", parent=parent)


def flatten_node(node: Json, *, path: str, parent: Json | None = None) -> Iterator[PlacedSpan]:
    """Return the spans of a tree, given its root."""
    yield from flatten(node.get("spans"), path=f"{path}.spans", parent=node)
    span = {name: value for name, value in node.items() if name != "spans"}
    if parent is not None and span.get("parent_id") is None:
        span["parent_id"] = parent["span_id"]  # a nested span need not name its parent
    yield PlacedSpan(path, span, parent is None)


def to_records(placed: Sequence[PlacedSpan], context: PrepareContext) -> TraceSpans:
    """Return one record per partition; further ones if it would be too large.

    Raises ``InvalidInput`` with the path of each span that cannot be stored, and why; ``TooLarge`` if the times that
    are added make a record, or a span, too large for the worker.
    """
    if not placed:
        return TraceSpans([], [])
    limits = context.limits
    by_trace: dict[bytes, list[Json]] = defaultdict(list)
    links = []
    for place, span in _decode(placed, limits=limits, now_ns=context.now_ns):
        by_trace[span.trace_id].append(_with_times(place.span, span))
        links.append(SpanLink(trace_id=trace_id_hex(span.trace_id), span_id=span_id_hex(span.span_id)))
    destinations = finished(destinations_of(by_trace, context.span_partitions))
    by_destination: dict[Destination, list[tuple[bytes, bytes]]] = defaultdict(list)
    for trace_id, spans in by_trace.items():
        by_destination[destinations[trace_id]].append((trace_id, _value_of_trace(trace_id, spans, limits=limits)))
    records = [
        IntakeRecord(trace_id, value, destination.partition)
        for destination, traces in by_destination.items()
        for trace_id, value in _joined(traces, bytes_max=limits.record_bytes_max)
    ]
    return TraceSpans(records, links)


def _joined(traces: Sequence[tuple[bytes, bytes]], *, bytes_max: int) -> Iterator[tuple[bytes, bytes]]:
    """Join the values of traces to values of at most ``bytes_max`` bytes, each with the id of its first trace."""
    values: list[bytes] = []
    first, bytes_count = b"", 0
    for trace_id, value in traces:
        if values and bytes_count + len(value) > bytes_max:
            yield first, _join(values)
            values, bytes_count = [], 0
        if not values:
            first = trace_id
        values.append(value)
        bytes_count += len(value)
    if values:
        yield first, _join(values)


def _join(values: Sequence[bytes]) -> bytes:
    return _SPANS % b",".join(value[_SPANS_AT:-_CLOSING_BYTES] for value in values)


def _value_of_trace(trace_id: bytes, spans: Sequence[Json], *, limits: SpanLimits) -> bytes:
    value = _SPANS % b",".join(map(_written, spans))
    if len(value) > limits.record_bytes_max:
        raise TooLarge(
            f"The spans of trace {trace_id_hex(trace_id)} take {len(value)} bytes with their times;"
            f" the limit is {limits.record_bytes_max}. Send fewer at once."
        )
    if len(value) > limits.span_bytes_max:
        for span in spans:
            if (size := len(_written(span))) > limits.span_bytes_max:
                raise TooLarge(
                    f"The span {span['span_id']} takes {size} bytes with its times;"
                    f" the limit is {limits.span_bytes_max}."
                )
    return value


def _decode(placed: Sequence[PlacedSpan], *, limits: SpanLimits, now_ns: int) -> list[tuple[PlacedSpan, Span]]:
    """Return each span with its decoded form; of spans with the same ids the last."""
    value = _SPANS % b",".join(map(_json, placed))
    try:
        decoded = span_json.decode(value, limits=limits, now_ns=now_ns).without_repeats()
    except Rejected as exc:
        raise InvalidInput(exc.detail) from exc
    if decoded.rejections:
        problems = [f"{placed[r.span_index or 0].path}: {r.reason}" for r in decoded.rejections.in_full[:PROBLEMS_MAX]]
        more = len(decoded.rejections) - len(problems)
        raise InvalidInput(" ".join([*problems, *([f"And {more} more."] if more else [])]))
    return [(placed[index], span) for index, span in zip(decoded.span_indexes, decoded.spans, strict=True)]


def _json(place: PlacedSpan) -> bytes:
    try:
        return _written(place.span)
    except orjson.JSONEncodeError as exc:
        raise InvalidInput(f"{place.path}: {exc}; integers from -2^63 to 2^64-1 are allowed.") from exc


def _written(span: Json) -> bytes:
    try:
        return orjson.dumps(span)
    except orjson.JSONEncodeError:  # perhaps nested past 254 levels, which the worker repairs
        return json_text(span, lambda value: value, plain_json).encode()


def _with_times(sent: Json, span: Span) -> Json:
    """Add the time that the worker would otherwise make up, so that a record that is read twice gives the same span."""
    if any(sent.get(name) is not None for name in _TIMES):
        return sent
    end = {} if span.is_running else {"end_time_unix_nano": str(span.end_ns)}
    return {**sent, "start_time_unix_nano": str(span.start_ns), **end}
