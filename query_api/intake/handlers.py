"""Spans over HTTP as JSON: validated, published to Kafka, answered when Kafka has acknowledged (contract §4).

All or nothing: one span that cannot be kept refuses the request, with the path at which it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.errors import InvalidInput
from common.ids import parse_trace_id
from common.kafka.record import Coordinates
from common.record_headers import CONTENT_TYPES
from common.settings import Encoding
from common.telemetry import INTAKE_SPANS
from common.threads import in_thread
from query_api.intake.models import (
    Json,
    LinksAnswer,
    SpansIngest,
    TraceIdAnswer,
    TraceIdsAnswer,
    TraceIngest,
    TracesIngest,
)
from query_api.intake.publish import coordinates_header, publish
from query_api.intake.span_records import Prepared, prepare
from query_api.intake.trees import Placed, flatten, flatten_node
from query_api.json_body import json_answer
from query_api.route import Answer, Call

SPAN_JSON: Final = CONTENT_TYPES[Encoding.SPAN_JSON]
ACCEPTED: Final = 202
OFF_LOOP_SPANS_MIN: Final = 200
"""A few milliseconds of work: from here on a thread does it, so that other requests go on."""


async def ingest_spans(call: Call) -> Answer:
    """Any number of spans of any number of traces."""
    prepared, where = await take_in(call, _placed_spans(call.body))
    return _links_answer(prepared, where)


async def ingest_traces(call: Call) -> Answer:
    """Any number of traces."""
    body: TracesIngest = call.body
    if not body.traces:
        raise InvalidInput("Missing traces")
    placed = []
    for index, trace in enumerate(body.traces):
        placed += _placed_trace(trace, path=f"traces[{index}]")
    prepared, where = await take_in(call, placed)
    answer = TraceIdsAnswer(count=len(prepared.trace_ids), trace_ids=prepared.trace_ids)
    return json_answer(answer, status=ACCEPTED, headers=coordinates_header(where))


async def create_trace(call: Call) -> Answer:
    """One trace with exactly one root."""
    placed = _one_trace(call.body)
    return await _take_in_trace(call, placed)


async def replace_trace(call: Call) -> Answer:
    """One trace with exactly one root, under the id of the path. Spans that the payload does not hold stay."""
    placed = _one_trace(call.body)
    _check_path_id(call.path["trace_id"], placed, shows_payload_id=False)
    return await _take_in_trace(call, placed)


async def create_trace_of_spans(call: Call) -> Answer:
    """One trace with exactly one root, in the shape of ``/tracing/spans/ingest``."""
    prepared, where = await take_in(call, _one_trace_of_spans(call.body))
    return _links_answer(prepared, where)


async def replace_trace_of_spans(call: Call) -> Answer:
    """One trace in the shape of ``/tracing/spans/ingest``, under the id of the path."""
    placed = _one_trace_of_spans(call.body)
    _check_path_id(call.path["trace_id"], placed, shows_payload_id=True)
    prepared, where = await take_in(call, placed)
    return _links_answer(prepared, where)


async def take_in(call: Call, placed: Sequence[Placed]) -> tuple[Prepared, list[Coordinates]]:
    """Publish the spans for the project of the call; where they are, when Kafka has acknowledged all of them.

    Raises ``InvalidInput`` with the path of each span that cannot be kept; then nothing was published.
    """
    settings = call.context.settings
    limits, now_ns = settings.limits.span_limits(), call.context.clock.now_ns()
    if len(placed) < OFF_LOOP_SPANS_MIN:
        prepared = prepare(placed, limits=limits, now_ns=now_ns)
    else:
        prepared = await in_thread(prepare, placed, limits=limits, now_ns=now_ns)
    where = await publish(
        call.context.publisher,
        prepared.records,
        topic=settings.kafka.intake_topic,
        content_type=SPAN_JSON,
        project_id=call.project_id,
    )
    INTAKE_SPANS.labels("span_json", "accepted").inc(len(prepared.links))
    return prepared, where


async def _take_in_trace(call: Call, placed: Sequence[Placed]) -> Answer:
    prepared, where = await take_in(call, placed)
    answer = TraceIdAnswer(count=1, trace_id=prepared.trace_ids[0])
    return json_answer(answer, status=ACCEPTED, headers=coordinates_header(where))


def _links_answer(prepared: Prepared, where: Sequence[Coordinates]) -> Answer:
    answer = LinksAnswer(count=len(prepared.links), links=prepared.links)
    return json_answer(answer, status=ACCEPTED, headers=coordinates_header(where))


def _placed_spans(body: SpansIngest) -> list[Placed]:
    placed = []
    for index, span in enumerate(body.spans or []):
        placed += flatten_node(span, path=f"spans[{index}]")
    for name, trace in (body.traces or {}).items():
        placed += flatten(trace.get("spans"), path=f"traces.{name}.spans")
    return placed


def _placed_trace(trace: Json, *, path: str) -> list[Placed]:
    """The spans of a tree that is all of one trace. Raises ``InvalidInput``."""
    placed = flatten(trace.get("spans"), path=f"{path}.spans")
    if not placed:
        raise InvalidInput("Missing spans")
    ids = _trace_ids(placed) | ({_canonical(trace["trace_id"])} if trace.get("trace_id") is not None else set())
    if len(ids) > 1:
        raise InvalidInput("Trace payload must contain exactly one trace_id.")
    return placed


def _one_trace(body: TraceIngest) -> list[Placed]:
    if not body.trace:
        raise InvalidInput("Missing trace")
    placed = _placed_trace(body.trace, path="trace")
    _check_root(placed)
    return placed


def _one_trace_of_spans(body: SpansIngest) -> list[Placed]:
    if body.spans is None and not body.traces:
        raise InvalidInput("Missing trace")
    placed = _placed_spans(body)
    if not placed:
        raise InvalidInput("Missing spans")
    if len(_trace_ids(placed)) > 1 or len(body.traces or {}) > 1:
        raise InvalidInput("Too many traces")
    _check_root(placed)
    return placed


def _check_root(placed: Sequence[Placed]) -> None:
    roots_count = sum(1 for place in placed if place.is_top and place.span.get("parent_id") is None)
    if roots_count != 1:
        raise InvalidInput("Too many root spans" if roots_count else "Missing root span")


def _check_path_id(path_id: str, placed: Sequence[Placed], *, shows_payload_id: bool) -> None:
    payload_id = placed[0].span["trace_id"]
    try:
        is_same = parse_trace_id(path_id) == parse_trace_id(payload_id)
    except ValueError as exc:
        raise InvalidInput("Invalid trace_id in path or payload.") from exc
    if not is_same:
        named = f" '{payload_id}'" if shows_payload_id else ""
        raise InvalidInput(f"Path trace_id '{path_id}' does not match payload trace_id{named}.")


def _trace_ids(placed: Sequence[Placed]) -> set[str]:
    return {_canonical(place.span["trace_id"]) for place in placed}


def _canonical(trace_id: str) -> str:
    """One spelling of an id, so that spellings compare; what cannot be read is refused later, with its path."""
    try:
        return parse_trace_id(trace_id).hex()
    except ValueError:
        return trace_id
