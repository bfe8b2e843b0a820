"""Planned masking has the same result as masking value by value, whatever the rules, the spans and their encoding."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common import masking
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.masking import MaskAction, MaskPlace, MaskRule, ProjectRules, pack
from common.settings import Encoding, TopicSettings
from common.span import PROMOTED_TEXTS
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from ingest.masking import planned
from ingest.masking.dead_letters import Masking
from ingest.masking.planned import PlannedMask, planned_masks
from tests.support.otlp import START_NS
from tests.support.otlp_json import request_json
from tests.support.plain_masking import PlainMask

RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
CONTENT_TYPES = {
    Encoding.OTLP_PROTO: b"application/x-protobuf",
    Encoding.OTLP_JSON: b"application/json",
    Encoding.SPAN_JSON: b"application/vnd.clearspan.span+json",
}
SEGMENTS = ("user", "email", "Email", "input", "value", "0", "1", "x-1", "ſ", "sk-abc1", "a/b", 'a"b', "é", "")
KEYS = (
    "user.email",
    "input.value",
    "llm.input_messages.0.message.content",
    "output.value",
    "ag.data.inputs",
    "gen_ai.k",
)
PARTS = (*SEGMENTS, "*", "*", "user", "email", "S", "content", "ag", "data", "inputs", "e*l")
EXPRESSIONS = (
    r"sk-[a-z0-9]+", r"^sk-", r"\d$", r"\A1", r"b\z", r"\bemail\b", r"(?i)EMAIL", r"(?m)^b$", r"(?-m)^b$", r"a\nb",
    r"(?s)b.a", r"1\.5", r"\Qa.b", r"[^\x00-\x7f]", r'"email":', r"\\", r"user", r"\B-", r"[\s,]{2}", r"hash:|masked",
)  # fmt: skip
TEXTS = (
    '{"user": "sk-abc1", "n": NaN}', '{"e\\u006dail": "\\u0073k-abc1", "n": 1e999}', "{'email': 'sk-abc1'}",
    'say {"email": 1} and', '{"email": "sk-abc1"}\n{"a": {"user": 1}}', '{"user": {"email": "sk-', '{"email": 1, "email": 2}',
    "", "sk-abc1", "key sk-abc1, 1", "a\nb", "a.b", "email", "é ſ", "plain", "1", "1.50", '"sk-abc1"', "[", '{"a', " [1]",
    '"\\u0073k-abc1"', '{"e\\u006dail": 1}', '{"\\u212aey": "email"}', '[1.50, 1e3, true]', '"\\"sk-abc1\\""', "user\n",
)  # fmt: skip


def some_key(pick: random.Random) -> str:
    if pick.random() < 0.3:
        return pick.choice(KEYS)
    return ".".join(pick.choice(SEGMENTS) for _ in range(pick.randint(1, 3)))


def some_value(pick: random.Random, levels: int = 4) -> Any:
    kind = pick.random()
    if levels and kind < 0.15:
        return {some_key(pick): some_value(pick, levels - 1) for _ in range(pick.randint(0, 3))}
    if levels and kind < 0.3:
        return [some_value(pick, levels - 1) for _ in range(pick.randint(0, 3))]
    if levels and kind < 0.45:
        return json.dumps(some_value(pick, levels - 1), ensure_ascii=pick.random() < 0.5)
    return pick.choice((True, 1, 15, 1.5, -2, 10**15)) if kind < 0.6 else pick.choice(TEXTS)


def some_attributes(pick: random.Random) -> dict[str, Any]:
    return {some_key(pick): some_value(pick) for _ in range(pick.randint(0, 5))}


def some_rule(pick: random.Random) -> MaskRule:
    kind = pick.randint(0, 2)
    key = ".".join(pick.choice(PARTS) for _ in range(pick.randint(1, 3))) if pick.random() < 0.7 else pick.choice(KEYS)
    places = tuple(place for place in MaskPlace if pick.random() < 0.5) if pick.random() < 0.3 else ()
    return MaskRule(
        pick.choice(list(MaskAction)),
        key or "*" if kind != 1 else None,
        pick.choice(EXPRESSIONS) if kind != 0 else None,
        places,
    )


def write(value: Any, plain: Any) -> None:
    """Write a plain value into an ``AnyValue``."""
    if isinstance(plain, dict):
        value.kvlist_value.SetInParent()
        for key, member in plain.items():
            write(value.kvlist_value.values.add(key=key).value, member)
    elif isinstance(plain, list):
        value.array_value.SetInParent()
        for element in plain:
            write(value.array_value.values.add(), element)
    else:
        kind = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}[type(plain)]
        setattr(value, kind, plain)


def add_attributes(message: Any, attributes: Mapping[str, Any]) -> None:
    for key, value in attributes.items():
        write(message.attributes.add(key=key).value, value)


def otlp_request(pick: random.Random) -> Any:
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add(schema_url=pick.choice(TEXTS))
    add_attributes(resource_spans.resource, some_attributes(pick))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name, scope_spans.scope.version = pick.choice(TEXTS), pick.choice(TEXTS)
    add_attributes(scope_spans.scope, some_attributes(pick))
    for _ in range(pick.randint(1, 3)):
        span = scope_spans.spans.add(trace_id=pick.randbytes(15) + b"x", span_id=pick.randbytes(7) + b"x")
        span.name, span.trace_state, span.status.message = (pick.choice(TEXTS) for _ in range(3))
        span.start_time_unix_nano = START_NS if pick.random() < 0.9 else 1
        span.end_time_unix_nano = START_NS + 5
        add_attributes(span, some_attributes(pick))
        for _ in range(pick.randint(0, 1)):
            event = span.events.add(name=pick.choice((*TEXTS, "exception")), time_unix_nano=START_NS)
            add_attributes(event, some_attributes(pick))
            link = span.links.add(trace_id=b"y" * 16, span_id=b"y" * 8, trace_state=pick.choice(TEXTS))
            add_attributes(link, some_attributes(pick))
    return message


def span_object(pick: random.Random) -> dict[str, Any]:
    time = "2026-01-02T03:04:05Z"
    return {
        "trace_id": pick.randbytes(16).hex(),
        "span_id": pick.randbytes(8).hex(),
        "start_time": time,
        **{name: pick.choice(TEXTS) for name in ("span_name", "status_message", *PROMOTED_TEXTS)},
        "attributes": {**some_attributes(pick), "ag": {"data": {"inputs": some_value(pick), "outputs": some_value(pick)}}},
        "events": [{"name": pick.choice(TEXTS), "timestamp": time, "attributes": some_attributes(pick)}],
        "resource": {"attributes": some_attributes(pick)},
        "scope": {"name": pick.choice(TEXTS), "attributes": some_attributes(pick)},
        "references": [{"slug": pick.choice(TEXTS), "attributes": {"key": "application"}}],
    }  # fmt: skip


def some_record(pick: random.Random, encoding: Encoding) -> bytes:
    if encoding is Encoding.SPAN_JSON:
        return json.dumps({"spans": [span_object(pick) for _ in range(2)]}).encode()
    message = otlp_request(pick)
    return message.SerializeToString() if encoding is Encoding.OTLP_PROTO else request_json(message)


class PlainMasking(Masking):
    """The rules, applied value by value."""

    masks_of: Mapping[UUID, PlainMask]

    def by_project(self) -> Any:
        return self.masks_of


def masked(records: list[bytes], encoding: Encoding, rules: ProjectRules, *, is_plain: bool) -> DecodedChunk:
    headers = (("content-type", CONTENT_TYPES[encoding]),)
    kafka_records = [Record("t", 0, at, 5, b"key sk-abc1", value, headers) for at, value in enumerate(records)]
    kind = PlainMasking if is_plain else Masking
    applied = kind(pack({DEFAULT_PROJECT_ID: rules}), {"t": DEFAULT_PROJECT_ID})
    if is_plain:
        object.__setattr__(applied, "masks_of", {DEFAULT_PROJECT_ID: PlainMask(rules)})
    return decode_chunk(
        Chunk(kafka_records, {Partition("t", 0): "c/t/0"}, 1_800_000_000 * 10**9, masking=applied), RULES
    )


@pytest.mark.parametrize("encoding", list(Encoding))
@settings(max_examples=settings().max_examples * 2 // 5)  # an example is five records
@given(seed=st.integers(0, 2**32))
def test_planned_masking_equals_masking_value_by_value(encoding: Encoding, seed: int) -> None:
    pick = random.Random(seed)
    records = [some_record(pick, encoding) for _ in range(3)]
    records.append(records[0])
    rules = ProjectRules(tuple(some_rule(pick) for _ in range(pick.randint(1, 4))), b"k")

    planned = masked(records, encoding, rules, is_plain=False)
    plain = masked(records, encoding, rules, is_plain=True)

    assert planned.rows.to_pylist() == plain.rows.to_pylist()
    assert planned.masked == plain.masked
    assert planned.outcomes == plain.outcomes


DEEP = "[" * 100 + '"sk-abc1"' + "]" * 100


@pytest.mark.parametrize(
    ("rule", "is_kept"),
    [
        (MaskRule(MaskAction.REDACT, "user.email"), True),
        (MaskRule(MaskAction.REDACT, "a.*.email"), True),
        (MaskRule(MaskAction.REDACT, "user.email", "sk-"), True),
        (MaskRule(MaskAction.REDACT, value="^sk-"), False),
        (MaskRule(MaskAction.REDACT, "a.0.*1"), False),
    ],
)
def test_what_is_too_deep_is_redacted_only_where_a_rule_may_apply(rule: MaskRule, is_kept: bool) -> None:
    mask = PlannedMask(ProjectRules((rule,), b"k"))

    assert (mask.attributes(MaskPlace.ATTRIBUTES, {"a": DEEP})["a"] == DEEP) is is_kept


def test_masks_of_unchanged_rules_are_the_same_objects() -> None:
    rules = [ProjectRules((MaskRule(MaskAction.DROP, key),), b"k") for key in ("a", "b")]
    first, second = UUID(int=1), UUID(int=2)

    before = planned_masks(pack({first: rules[0], second: rules[0]}))
    after = planned_masks(pack({first: rules[0], second: rules[1]}))

    assert after[first] is before[first]
    assert after[second].attributes(MaskPlace.ATTRIBUTES, {"a": 1, "b": 1}) == {"a": 1}
    assert before[second].attributes(MaskPlace.ATTRIBUTES, {"a": 1, "b": 1}) == {"b": 1}


def test_plans_are_limited_and_stay_right_when_they_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "PLANS_MAX", 3)
    monkeypatch.setattr(planned, "CHECKS_MAX", 1)
    mask = PlannedMask(ProjectRules((MaskRule(MaskAction.DROP, "k1"), MaskRule(MaskAction.DROP, "*.x", "s")), b"k"))

    for at in range(20):
        attributes = {f"k{at % 5}": "s", f"r{at}": {"x": "s", "y": at}, "s": '{"x": "s"}'}
        masked = mask.attributes(MaskPlace.ATTRIBUTES, attributes)
        assert masked == {
            **({} if at % 5 == 1 else {f"k{at % 5}": "s"}),
            f"r{at}": {"y": at},
            "s": "{}",
        }
    assert sum(len(level.plans) for level in mask._levels.values()) <= 3


def test_time_of_key_patterns_counts_and_what_is_left_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "thread_time", iter(range(0, 1_000, 2)).__next__)
    mask = PlannedMask(ProjectRules((MaskRule(MaskAction.DROP, "*x*"),), b"k"))

    first = [mask.attributes(MaskPlace.ATTRIBUTES, {f"k{at}": at}) for at in range(3)]
    mask.begin()

    assert first[-1] == {"k2": "[masked]"}
    assert mask.attributes(MaskPlace.ATTRIBUTES, {"k3": 3}) == {"k3": 3}
