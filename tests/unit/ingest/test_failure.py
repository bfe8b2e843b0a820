"""Failed model calls are found by one query, however they were reported."""

from __future__ import annotations

from typing import Any

import pytest

from common.ids import parse_span_id, parse_trace_id
from common.span import Event, Span
from ingest.normalize import normalize
from tests.support.instrumentation_page import MODEL_CALLS
from tests.support.sample_questions import FAILED_MODEL_CALLS
from tests.support.sample_records import NAMES, normals_of, spans_of

CHAT = {"gen_ai.operation.name": "chat"}


def ag_of(attributes: dict[str, Any], **members: Any) -> dict[str, Any]:
    span = Span(
        trace_id=parse_trace_id("a" * 32),
        span_id=parse_span_id("b" * 16),
        parent_id=None,
        name="work",
        kind=0,
        start_ns=0,
        end_ns=0,
        status_code=0,
        status_message=None,
        attributes=attributes,
    )
    (normalized,) = normalize([span._replace(**members)])
    ag: dict[str, Any] = normalized.attributes["ag"]
    return ag


def failure(attributes: dict[str, Any], **members: Any) -> tuple[Any, Any]:
    ag = ag_of(attributes, **members)
    return ag.get("exception"), ag["metrics"]["errors"].get("incremental")


def an_exception(**attributes: Any) -> Event:
    return Event("exception", 0, {f"exception.{name}": value for name, value in attributes.items()})


@pytest.mark.parametrize(
    ("attributes", "members", "exception"),
    [
        ({}, {"events": (an_exception(type="E", message="m"),)}, {"type": "E", "message": "m"}),
        ({}, {"events": (an_exception(type="E"),), "status_message": "s"}, {"type": "E", "message": "s"}),
        ({}, {"events": (an_exception(),)}, {}),
        ({"error.type": "T"}, {}, {"type": "T"}),
        ({"error.type": "T"}, {"status_code": 2, "status_message": "s"}, {"type": "T", "message": "s"}),
        ({"error.type": "T"}, {"events": (an_exception(message="m"),)}, {"type": "T", "message": "m"}),
        ({}, {"status_code": 2, "status_message": "s"}, {"message": "s"}),
        ({}, {"status_code": 2}, {}),
        ({"gen_ai.response.finish_reasons": ["error"]}, {}, {}),
        ({"error": True, "error.type": "T"}, {}, {"type": "T"}),
    ],
    ids=[
        "event",
        "event without message",
        "empty event",
        "error.type",
        "error.type and status",
        "event and error.type",
        "status",
        "status alone",
        "finish reason",
        "error.type beside error",
    ],
)
def test_each_way_to_report_a_failure_counts_as_one_error(
    attributes: dict[str, Any], members: dict[str, Any], exception: dict[str, str]
) -> None:
    assert failure(CHAT | attributes, **members) == (exception, 1)


def test_last_exception_describes_the_failure_and_each_counts() -> None:
    events = (an_exception(type="First"), an_exception(type="Last"), Event("log", 0, {"exception.type": "none"}))

    assert failure(CHAT, events=events) == ({"type": "Last"}, 2)


def test_events_without_an_exception_do_not_hide_a_failure() -> None:
    assert failure(CHAT, events=(Event("chunk", 0, {}),)) == (None, 0)
    assert failure(CHAT, events=(Event("chunk", 0, {}),), status_code=2) == ({}, 1)


def test_span_without_a_convention_fails_only_by_its_exceptions() -> None:
    assert failure({"error.type": "500"}, status_code=2, status_message="s") == (None, None)
    assert failure({"x": 1}, events=(an_exception(type="E"),)) == ({"type": "E"}, 1)


def test_sent_exception_is_kept() -> None:
    sent = {"ag.exception.type": "Mine"}

    assert failure(CHAT | sent, events=(an_exception(type="E"),)) == ({"type": "Mine"}, 1)


def test_successful_call_has_no_exception() -> None:
    assert failure(CHAT, status_code=1) == (None, None)


def test_failed_model_calls_of_all_samples_are_found() -> None:
    failed = {
        name: {
            span.span_id.hex()[-16:]
            for span, normalized in zip(spans_of(name), normals_of(name), strict=True)
            if normalized.span_type in MODEL_CALLS and "exception" in normalized.attributes["ag"]
        }
        for name in NAMES
    }

    assert {name: spans for name, spans in failed.items() if spans} == FAILED_MODEL_CALLS
