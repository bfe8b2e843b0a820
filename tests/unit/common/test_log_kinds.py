"""What log records are, and what is refused of them."""

from __future__ import annotations

from typing import Any

import pytest

from common.codec.decoded import DecodedLogs, Rejections
from common.log_kinds import keep_logs
from common.log_record import EVALUATION, LogRecord
from common.log_refusals import EXAMPLES_MAX, REASONS, LogRefusal
from tests.support.agent_logs import log_of

IDS: dict[str, Any] = {"trace_id": b"1" * 16, "span_id": b"2" * 16}
AGENT: dict[str, Any] = {"body": "claude_code.auth", "attributes": {"session.id": "s"}}


def decoded(*logs: LogRecord) -> DecodedLogs:
    return DecodedLogs(list(logs), [2 * index for index in range(len(logs))], Rejections())


def test_log_records_are_sorted_by_what_they_are() -> None:
    evaluation = log_of(name=EVALUATION, attributes={"gen_ai.response.id": "r"})

    found = keep_logs(decoded(log_of(**IDS), log_of(**AGENT), evaluation, log_of()))

    assert [index for _, index in found.events] == [0, 4]
    assert found.span_indexes == [2]
    assert found.refusals.examples == [(6, LogRefusal.NAMES_NO_SPAN)]


@pytest.mark.parametrize(
    ("log", "refusal"),
    [
        (log_of(name=EVALUATION), LogRefusal.NAMES_NO_SPAN),
        (log_of(name=EVALUATION, attributes={"gen_ai.response.id": ""}), LogRefusal.NAMES_NO_SPAN),
        (log_of(name=EVALUATION, attributes={"gen_ai.response.id": 7}), LogRefusal.NAMES_NO_SPAN),
        (log_of(name=EVALUATION, attributes={"gen_ai.response.id": "é-ü"}), LogRefusal.NAMES_NO_SPAN),
        (log_of(attributes={"gen_ai.response.id": "r"}), LogRefusal.NAMES_NO_SPAN),
        (log_of(trace_id=b"1" * 16), LogRefusal.NAMES_NO_SPAN),
        (log_of(span_id=b"1" * 16), LogRefusal.NAMES_NO_SPAN),
        (log_of(), LogRefusal.NAMES_NO_SPAN),
    ],
)
def test_log_record_that_is_not_stored_is_refused(log: LogRecord, refusal: LogRefusal) -> None:
    found = keep_logs(decoded(log))

    assert not found.spans
    assert not found.events
    assert found.refusals.counts == {refusal: 1}


@pytest.mark.parametrize(
    "log",
    [
        *(log_of(**IDS), log_of(**IDS, **AGENT), log_of(**IDS, name=EVALUATION)),
        log_of(name=EVALUATION, attributes={"gen_ai.response.id": "r"}),
        log_of(attributes={"event.name": EVALUATION, "gen_ai.response.id": "r"}),
    ],
)
def test_log_record_that_names_a_span_or_a_response_is_an_event_of_it(log: LogRecord) -> None:
    found = keep_logs(decoded(log))

    assert not found.spans
    assert found.events == [(log, 0)]
    assert not found.refusals


def test_refusals_take_little_memory() -> None:
    found = keep_logs(decoded(*[log_of()] * 1_000))

    assert len(found.refusals) == 1_000
    assert len(found.refusals.examples) == EXAMPLES_MAX


def test_every_refusal_has_a_reason() -> None:
    assert set(REASONS) == set(LogRefusal)
