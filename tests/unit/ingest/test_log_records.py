"""Records of topics whose signal is logs: rows, counts of what is refused, dead letters, projects and masking."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from common.errors import RejectionCode
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import CONTENT_TYPE_HEADER, PROJECT_HEADER, Partition, Record, Signal
from common.limits import SpanLimits
from common.log_refusals import LogRefusal
from common.masking import REDACTED, MaskAction, MaskRule, ProjectRules, pack
from common.settings import Encoding, TopicSettings
from common.telemetry import REFUSED_LOGS
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk, records_of
from ingest.decoding.counts import count_records
from ingest.masking.dead_letters import NO_MASKING, Masking
from tests.support.agent_logs import NAMES, NOW_NS, agent_record, in_json, in_protobuf, logs_request
from tests.support.attributes import attributes_of
from tests.support.otlp import request
from tests.support.otlp_json import logs_json

TOPICS = {
    "logs": TopicSettings(encoding=Encoding.OTLP_PROTO, signal=Signal.LOGS),
    "logs_json": TopicSettings(encoding=Encoding.OTLP_JSON, signal=Signal.LOGS),
    "spans": TopicSettings(encoding=Encoding.OTLP_PROTO),
    "spans_json": TopicSettings(encoding=Encoding.OTLP_JSON),
}
RULES = Rules(TOPICS, SpanLimits(), DEFAULT_PROJECT_ID)
PROJECT = UUID(int=7)
SECRET = "sk-Planted0Secret"


def decoded(
    *values: bytes, topic: str = "logs", rules: Rules = RULES, headers: Any = (), masking: Masking = NO_MASKING
):
    records = [Record(topic, 0, at, 5, None, value, tuple(headers)) for at, value in enumerate(values)]
    chunk = Chunk(records, {Partition(topic, 0): "c/0"}, NOW_NS, masking=masking)
    return chunk, decode_chunk(chunk, rules)


def rows_of(found: DecodedChunk) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.rows.to_pylist()
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_both_encodings_give_equal_rows(name: str) -> None:
    _, from_protobuf = decoded(in_protobuf(name))
    _, from_json = decoded(in_json(name), topic="logs_json")

    assert len(from_protobuf.rows) > 5
    assert repr(rows_of(from_protobuf)) == repr(rows_of(from_json))


def test_log_records_and_spans_of_one_chunk_keep_their_order() -> None:
    spans = request([f"s{number}" for number in range(400)], attributes={"k": "v" * 200})
    records = [
        Record(topic, 0, at, 5, None, value)
        for at, (topic, value) in enumerate([("logs", in_protobuf("codex")), ("spans", spans)] * 2)
    ]
    sources = {Partition(topic, 0): f"c/{topic}" for topic in TOPICS}

    together = decode_chunk(Chunk(records, sources, NOW_NS), RULES)

    alone = [decode_chunk(Chunk([record], sources, NOW_NS), RULES) for record in records]
    assert [outcome.rows_count for outcome in together.outcomes] == [20, 400, 20, 400]
    assert repr(rows_of(together)) == repr([row for found in alone for row in rows_of(found)])


def test_index_of_a_span_is_that_of_its_log_record() -> None:
    _, found = decoded(logs_request({}, agent_record(), {}, agent_record(event__sequence=2)))

    assert found.rows["span_index"].to_pylist() == [1, 3]
    assert found.outcomes[0].refused == {LogRefusal.NAMES_NO_SPAN: 2}
    assert not found.outcomes[0].dead_letters


def test_repeated_log_record_is_one_row() -> None:
    _, found = decoded(logs_request(agent_record(), agent_record()))

    assert len(found.rows) == 1


def test_what_is_refused_is_counted_by_reason() -> None:
    ids = {"trace_id": b"1" * 16, "span_id": b"2" * 8}
    chunk, found = decoded(logs_request({}, {}, ids, agent_record()))
    counter = {refusal: REFUSED_LOGS.labels("logs", refusal) for refusal in LogRefusal}
    before = {refusal: each._value.get() for refusal, each in counter.items()}

    count_records(records_of(chunk, found))

    counted = {refusal: each._value.get() - before[refusal] for refusal, each in counter.items()}
    assert {refusal: count for refusal, count in counted.items() if count} == {
        LogRefusal.NAMES_NO_SPAN: 2,
    }


@pytest.mark.parametrize(("topic", "value"), [("logs", in_protobuf("codex")), ("logs_json", in_json("codex"))])
def test_all_are_refused_and_none_is_rejected_if_logs_are_off(topic: str, value: bytes) -> None:
    _, found = decoded(value, b"\xff", topic=topic, rules=replace(RULES, takes_logs=False))

    assert not len(found.rows)
    assert [outcome.refused for outcome in found.outcomes] == [{LogRefusal.LOGS_OFF: 30}, {LogRefusal.LOGS_OFF: 1}]
    assert not any(outcome.dead_letters for outcome in found.outcomes)


def test_broken_log_record_is_a_dead_letter_of_its_own() -> None:
    _, found = decoded(logs_request(agent_record(), {"trace_id": b"short"}, agent_record(event__sequence=2)))

    [dead_letter] = found.outcomes[0].dead_letters
    assert (dead_letter.rejection.span_index, dead_letter.rejection.code) == (1, RejectionCode.INVALID_TRACE_ID)
    [log] = ExportLogsServiceRequest.FromString(dead_letter.value).resource_logs[0].scope_logs[0].log_records
    assert log.trace_id == b"short"
    assert len(found.rows) == 2
    _, again = decoded(dead_letter.value)
    assert again.outcomes[0].dead_letters[0].value == dead_letter.value


def test_ten_thousand_broken_log_records_have_a_hundred_and_one_dead_letters() -> None:
    _, found = decoded(logs_request(*[{"trace_id": b"short"}] * 10_000))

    assert len(found.outcomes[0].dead_letters) == 101
    assert found.outcomes[0].dead_letters[-1].codes == {RejectionCode.INVALID_TRACE_ID: 9_900}


@pytest.mark.parametrize(
    ("topic", "value", "reason"),
    [
        ("logs", request(["a"], attributes={"k": "v"}), "an export of spans or metrics looks like this"),
        ("spans", in_protobuf("codex"), "an export of logs or metrics looks like this"),
        ("logs_json", b'{"resourceSpans": []}', "it is not an export of log records"),
        ("spans_json", in_json("codex"), "it is not an export of spans"),
    ],
)
def test_record_of_the_other_signal_says_so(topic: str, value: bytes, reason: str) -> None:
    _, found = decoded(value, topic=topic)

    assert not len(found.rows)
    [outcome] = found.outcomes
    assert outcome.dead_letters
    assert all(reason in dead_letter.rejection.reason for dead_letter in outcome.dead_letters)


def test_log_records_are_no_span_json() -> None:
    headers = [(CONTENT_TYPE_HEADER, b"application/vnd.clearspan.span+json")]

    _, found = decoded(b"{}", headers=headers)

    [dead_letter] = found.outcomes[0].dead_letters
    assert dead_letter.rejection.code is RejectionCode.UNSUPPORTED_CONTENT_TYPE
    assert "allowed for log records: application/x-protobuf, application/json." in dead_letter.rejection.reason


@pytest.mark.parametrize("value", [b"", None])
def test_empty_record_has_nothing(value: Any) -> None:
    _, found = decoded(value)

    assert (len(found.rows), found.outcomes[0].refused, found.outcomes[0].dead_letters) == (0, {}, ())


def test_project_is_found_as_for_spans() -> None:
    other = UUID(int=8)

    _, by_resource = decoded(logs_request(agent_record(), project=str(PROJECT)))
    _, by_header = decoded(
        logs_request(agent_record(), project=str(PROJECT)), headers=[(PROJECT_HEADER, str(other).encode())]
    )
    _, by_none = decoded(logs_request(agent_record(), project="none"))

    assert (by_resource.claimed, by_header.claimed) == ({PROJECT}, {other})
    assert by_none.outcomes[0].dead_letters[0].rejection.code is RejectionCode.UNKNOWN_PROJECT


def masking(*rules: MaskRule) -> Masking:
    return Masking(pack({PROJECT: ProjectRules(rules, b"k")}), dict.fromkeys(TOPICS, PROJECT))


FIND = MaskRule(MaskAction.REDACT, value="sk-[A-Za-z0-9]+")


@pytest.mark.parametrize("topic", ["logs", "logs_json"])
def test_secret_is_neither_in_rows_nor_in_dead_letters(topic: str) -> None:
    good = agent_record(prompt=f"a {SECRET}", tool_name=SECRET)
    logs = [
        {**good, "body": {"text": [f"b {SECRET}"]}, "event_name": "claude_code.user_prompt", "severity_text": SECRET},
        {**good, "body": {"text": [f"b {SECRET}"]}, "span_id": b"short", "event_name": SECRET},
    ]
    value = logs_request(*logs, project=str(PROJECT))
    if topic == "logs_json":
        value = logs_json(ExportLogsServiceRequest.FromString(value))

    _, found = decoded(value, topic=topic, masking=masking(FIND))

    [row] = rows_of(found)
    assert SECRET not in json.dumps(row, default=repr)
    attributes = json.loads(attributes_of(found.rows)[0])
    assert attributes["ag"]["data"]["inputs"] == {"value": f"a {REDACTED}"}
    assert attributes["log"]["body"] == {"text": [f"b {REDACTED}"]}
    [dead_letter] = found.outcomes[0].dead_letters
    assert SECRET.encode() not in dead_letter.value
    assert REDACTED.encode() in dead_letter.value
    assert SECRET not in dead_letter.rejection.reason


def test_rules_for_ids_do_not_join_traces() -> None:
    values = [logs_request(agent_record(prompt__id=prompt), project=str(PROJECT)) for prompt in ("p", "q")]
    rule = MaskRule(MaskAction.REDACT, key="prompt.id")

    _, plain = decoded(*values)
    _, masked = decoded(*values, masking=masking(rule))

    assert plain.rows["trace_id"] == masked.rows["trace_id"]
    assert len(set(plain.rows["trace_id"].to_pylist())) == 2
    assert [json.loads(text)["prompt"]["id"] for text in attributes_of(masked.rows)] == [REDACTED, REDACTED]
