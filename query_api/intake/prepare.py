"""From bodies of spans as JSON to what is published and answered: all spans are sound, or the request is refused (contract §4).

Pure functions: for large bodies they run in another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel

from common.errors import InvalidInput
from common.ids import parse_trace_id
from query_api.intake.models import (
    Json,
    LinksResponse,
    SpansIngest,
    TraceIdResponse,
    TraceIdsResponse,
    TraceIngest,
    TracesIngest,
)
from query_api.intake.publish import TraceRecords
from query_api.intake.span_records import Prepared, prepare
from query_api.intake.trees import Placed, flatten, flatten_node
from query_api.request.json_body import json_response
from query_api.request.route import PrepareContext


class PreparedIntake(NamedTuple):
    """What a request publishes, and the body of its answer once Kafka has acknowledged."""

    records: TraceRecords
    spans_count: int
    response_body: bytes
    rejected_count: int = 0


def spans_of_ingest(body: SpansIngest, context: PrepareContext) -> PreparedIntake:
    """Any number of spans of any number of traces."""
    return _with_links(prepared(_placed_spans(body), context))


def spans_of_traces(body: TracesIngest, context: PrepareContext) -> PreparedIntake:
    """Any number of traces."""
    if not body.traces:
        raise InvalidInput("Missing traces")
    placed = []
    for index, trace in enumerate(body.traces):
        placed += _placed_trace(trace, path=f"traces[{index}]")
    made = prepared(placed, context)
    return with_response(made, TraceIdsResponse(count=len(made.trace_ids), trace_ids=made.trace_ids))


def spans_of_new_trace(body: TraceIngest, context: PrepareContext) -> PreparedIntake:
    """One trace with exactly one root."""
    return _with_trace_id(prepared(_one_trace(body), context))


def spans_of_replaced_trace(body: TraceIngest, context: PrepareContext) -> PreparedIntake:
    """One trace with exactly one root, under the id of the path."""
    placed = _one_trace(body)
    _check_path_id(context.path["trace_id"], placed, shows_payload_id=False)
    return _with_trace_id(prepared(placed, context))


def spans_of_new_trace_of_spans(body: SpansIngest, context: PrepareContext) -> PreparedIntake:
    """One trace with exactly one root, in the shape of ``/tracing/spans/ingest``."""
    return _with_links(prepared(_one_trace_of_spans(body), context))


def spans_of_replaced_trace_of_spans(body: SpansIngest, context: PrepareContext) -> PreparedIntake:
    """One trace in the shape of ``/tracing/spans/ingest``, under the id of the path."""
    placed = _one_trace_of_spans(body)
    _check_path_id(context.path["trace_id"], placed, shows_payload_id=True)
    return _with_links(prepared(placed, context))


def prepared(placed: Sequence[Placed], context: PrepareContext) -> Prepared:
    """The records of the spans. Raises ``InvalidInput`` with the path of each span that cannot be kept."""
    return prepare(placed, limits=context.limits, now_ns=context.now_ns)


def with_response(made: Prepared, answer: BaseModel) -> PreparedIntake:
    """What is published, and the answer as JSON."""
    return PreparedIntake(TraceRecords.of(made.records), len(made.links), json_response(answer).body)


def _with_links(made: Prepared) -> PreparedIntake:
    return with_response(made, LinksResponse(count=len(made.links), links=made.links))


def _with_trace_id(made: Prepared) -> PreparedIntake:
    return with_response(made, TraceIdResponse(count=1, trace_id=made.trace_ids[0]))


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
