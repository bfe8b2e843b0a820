"""A secret planted anywhere in real records is neither in rows nor in dead letters (contract §9 “Masking”)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.errors import RejectionCode
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import PROJECT_HEADER, Partition, Record
from common.limits import SpanLimits
from common.masking import REDACTED, MaskAction, MaskPlace, MaskRule, ProjectRules, pack
from common.settings import Encoding, TopicSettings
from common.span import PROMOTED_TEXTS
from ingest.batch import SpanBatch
from ingest.decode import Rules
from ingest.decoding import chunk as chunk_module
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk, records_of
from ingest.masking import spans as masking_spans
from ingest.masking.dead_letters import Masking
from ingest.rejected_spans import CutDeadLetter
from ingest.semconv.details import DETAILS_EVENT
from tests.support.attributes import attributes_of
from tests.support.otlp import START_NS, request
from tests.support.scale import rest_is_long

SAMPLES = sorted((Path(__file__).parents[2] / "data" / "samples").glob("*.otlp_*"))
FEW_SAMPLES = [
    *SAMPLES[::5],
    *(pytest.param(each, marks=pytest.mark.long) for each in SAMPLES if each not in SAMPLES[::5]),
]
"""Every fifth, in either encoding, in `make test`."""

NOW_NS = 1_800_000_000_000_000_000
RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
SECRET = "sk-Planted0Secret"
MASKED, PLAIN = UUID(int=7), UUID(int=8)
FIND = MaskRule(MaskAction.REDACT, value="sk-[A-Za-z0-9]+")


def masking(*rules: MaskRule, keeps_unmaskable: bool = False) -> Masking:
    masks = pack({MASKED: ProjectRules(rules or (FIND,), b"k")})
    return Masking(masks, {"t": DEFAULT_PROJECT_ID}, keeps_unmaskable)


def of(
    value: bytes, *, project: UUID | None = MASKED, content_type: str = "application/x-protobuf", **given: Any
) -> Chunk:
    headers = [("content-type", content_type.encode())]
    if project is not None:
        headers.append((PROJECT_HEADER, str(project).encode()))
    record = Record("t", 0, 0, 5, given.pop("key", None), value, (*headers, *given.pop("headers", ())))
    return Chunk([record], {Partition("t", 0): "c/t/0"}, NOW_NS, masking=given.pop("masking", masking()), **given)


def everything_in(decoded: DecodedChunk) -> str:
    """All values of all columns, leaves included, without the escapes of JSON."""
    return unescaped(json.dumps(decoded.rows.to_pylist(), default=repr))


def unescaped(text: str) -> str:
    """Resolve the escape that ``plant`` writes, at any level of JSON inside of JSON."""
    while "\\\\" in text:
        text = text.replace("\\\\", "\\")
    return text.replace("\\u006b", "k")


def plant_in_protobuf(message: Any, plant: Callable[[str], str]) -> int:
    """Change every text of a message, also inside of JSON and in names; return how many there were."""
    count = 0
    for field, content in message.ListFields():
        if field.message_type is not None:
            for each in content if field.is_repeated else (content,):
                count += plant_in_protobuf(each, plant)
        elif field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated and field.name != "key":
            setattr(message, field.name, plant(content))
            count += 1
    return count


def plant(text: str) -> str:
    """Add the secret to a text; in JSON to each text in it, escaped."""
    try:
        document = json.loads(text)
    except ValueError:
        return f"{text} {SECRET}"
    if not isinstance(document, dict | list):
        return f"{text} {SECRET}"
    return json.dumps(_planted(document)).replace(SECRET, SECRET.replace("k", "\\u006b", 1))


def _planted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _planted(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_planted(element) for element in value]
    return plant(value) if isinstance(value, str) else value


def plant_in_json(value: Any) -> Any:
    """The same in OTLP/JSON: every text except ids, keys and the kinds of enums and times."""
    if isinstance(value, list):
        return [plant_in_json(element) for element in value]
    if not isinstance(value, dict):
        return value
    kept = ("traceId", "spanId", "parentSpanId", "key", "kind", "code", "intValue", "doubleValue", "bytesValue")
    return {
        name: plant(member)
        if isinstance(member, str) and name not in kept and not name.endswith("UnixNano")
        else plant_in_json(member)
        for name, member in value.items()
    }


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("action", rest_is_long([MaskAction.REDACT, MaskAction.HASH]))
def test_secret_planted_in_every_text_of_a_sample_is_not_stored(sample: Path, action: MaskAction) -> None:
    if sample.suffix == ".bin":
        message = ExportTraceServiceRequest.FromString(sample.read_bytes())
        assert plant_in_protobuf(message, plant) > 10
        value, content_type = message.SerializeToString(), "application/x-protobuf"
    else:
        planted = plant_in_json(json.loads(sample.read_bytes()))
        value, content_type = json.dumps(planted).encode(), "application/json"
    rules = masking(MaskRule(action, value=FIND.value))

    plain = decode_chunk(of(value, project=PLAIN, content_type=content_type), RULES)
    masked = decode_chunk(of(value, content_type=content_type, masking=rules), RULES)

    assert SECRET in everything_in(plain)
    assert SECRET not in everything_in(masked)
    assert masked.rows.num_rows == plain.rows.num_rows > 0
    assert not masked.outcomes[0].rejections
    assert masked.masked[MASKED] > 10
    assert plain.masked == {}


@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.suffix == ".bin"], ids=lambda path: path.name)
def test_rules_that_find_nothing_change_nothing(sample: Path) -> None:
    value = sample.read_bytes()

    masked = decode_chunk(
        of(value, masking=masking(MaskRule(MaskAction.DROP, "no.such.key"), MaskRule(MaskAction.DROP, value=SECRET))),
        RULES,
    )
    plain = decode_chunk(of(value, masking=Masking()), RULES)

    assert masked.rows.to_pylist() == plain.rows.to_pylist()


def test_key_of_a_derived_attribute_masks_it_and_what_is_read_from_it() -> None:
    value = request(["a"], attributes={"session.id": "s1", "ag.session.id": "s1", "ag.data.inputs.question": "why"})
    rules = masking(MaskRule(MaskAction.HASH, key="ag.session.id"), MaskRule(MaskAction.REDACT, key="ag.data.inputs"))

    rows = decode_chunk(of(value, masking=rules), RULES).rows

    ag = json.loads(attributes_of(rows)[0])["ag"]
    row = rows.to_pylist()[0]
    assert row["session_id"] == ag["session"]["id"] != "s1"
    assert ag["data"]["inputs"] == REDACTED


@pytest.mark.parametrize(
    "attributes",
    [
        {"error": True, "error.type": SECRET},
        {"error.type": SECRET, "error": True},
        {"error": {"": True, "type": SECRET}},
        {"x": {"error": True}, "error": True, "error.type": SECRET},
    ],
)
def test_rule_masks_the_key_that_was_sent(attributes: dict[str, Any]) -> None:
    span = {
        "trace_id": "1" * 32,
        "span_id": "2" * 16,
        "start_time": "2026-05-01T12:00:00Z",
        "attributes": attributes,
    }
    rule = MaskRule(MaskAction.REDACT, key="error.type")
    chunk = of(
        json.dumps({"spans": [span]}).encode(),
        content_type="application/vnd.clearspan.span+json",
        masking=masking(rule),
    )

    [stored] = attributes_of(decode_chunk(chunk, RULES).rows)

    assert SECRET not in stored.decode()
    assert REDACTED in stored.decode()


def test_span_json_is_masked_in_every_member() -> None:
    span = {
        "trace_id": "a" * 32,
        "span_id": "b" * 16,
        "span_name": f"n {SECRET}",
        "status_message": SECRET,
        **dict.fromkeys(PROMOTED_TEXTS, SECRET),
        "trace_state": f"x={SECRET}",
        "start_time": "2026-01-02T03:04:05Z",
        "attributes": {"ag": {"data": {"inputs": {SECRET: [SECRET, {"x": f'"{SECRET}"'}]}}}, "k": SECRET},
        "events": [{"name": SECRET, "timestamp": "2026-01-02T03:04:05Z", "attributes": {"k": SECRET}}],
        "links": [{"trace_id": "c" * 32, "span_id": "d" * 16, "attributes": {"key": SECRET}, "trace_state": SECRET}],
        "references": [{"slug": SECRET, "attributes": {"key": "application"}}],
        "resource": {"attributes": {"service": {"name": SECRET}}, "schema_url": SECRET},
        "scope": {"name": SECRET, "version": SECRET, "attributes": {"k": SECRET}},
    }
    value = json.dumps({"spans": [span, {**span, "span_id": "e" * 16, "parent_id": "b" * 16}]}).encode()

    decoded = decode_chunk(of(value, content_type="application/vnd.clearspan.span+json"), RULES)

    assert decoded.rows.num_rows == 2
    assert SECRET not in everything_in(decoded)


@pytest.mark.parametrize(
    "rule",
    [
        MaskRule(MaskAction.REDACT, value="sk-[A-Za-z0-9]+"),
        MaskRule(MaskAction.REDACT, value="sk-[A-Za-z0-9]+", places=(MaskPlace.EVENTS,)),
        MaskRule(MaskAction.REDACT, value="sk-[A-Za-z0-9]+", places=(MaskPlace.ATTRIBUTES,)),
        MaskRule(MaskAction.REDACT, key="gen_ai.input.messages"),
        MaskRule(MaskAction.DROP, key="gen_ai.input.messages"),
        MaskRule(MaskAction.REDACT, key="ag.data.inputs"),
    ],
)
def test_content_of_an_event_is_masked_in_ag(rule: MaskRule) -> None:
    said = {"gen_ai.input.messages": [{"role": "user", "content": f"My key is {SECRET}"}], "gen_ai.request.model": "m"}
    event = {"name": DETAILS_EVENT, "timestamp": "2026-01-02T03:04:05Z", "attributes": said}
    span = {
        "trace_id": "1" * 32,
        "span_id": "2" * 16,
        "start_time": "2026-01-02T03:04:05Z",
        "attributes": {"gen_ai.operation.name": "chat"},
        "events": [event],
    }
    chunk = of(json.dumps(span).encode(), content_type="application/vnd.clearspan.span+json", masking=masking(rule))

    [stored] = attributes_of(decode_chunk(chunk, RULES).rows)

    assert SECRET not in stored.decode()
    assert json.loads(stored)["ag"]["meta"]["request"] == {"model": "m"}


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (FIND, [{"name": "n", "label": REDACTED, "explanation": f"as {REDACTED}"}]),
        (
            MaskRule(MaskAction.DROP, key="gen_ai.evaluation.explanation"),
            [{"name": "n", "label": SECRET}],
        ),
        (MaskRule(MaskAction.DROP, key="gen_ai.evaluation.score.label"), []),
        (MaskRule(MaskAction.DROP, key="gen_ai.evaluation.name"), []),
    ],
)
@pytest.mark.parametrize("is_event", [True, False])
def test_scores_are_masked_by_the_keys_of_evaluations(rule: MaskRule, shown: list[Any], is_event: bool) -> None:
    said = {"name": "n", "label": SECRET, "explanation": f"as {SECRET}"}
    event = {
        "name": "gen_ai.evaluation.result",
        "attributes": {f"gen_ai.evaluation.{key.replace('label', 'score.label')}": text for key, text in said.items()},
    }
    span = {
        "trace_id": "1" * 32,
        "span_id": "2" * 16,
        "start_time": "2026-01-02T03:04:05Z",
        **({"events": [event]} if is_event else {"scores": [said]}),
    }
    sent = of(json.dumps(span).encode(), content_type="application/vnd.clearspan.span+json", masking=masking(rule))

    [row] = decode_chunk(sent, RULES).rows.to_pylist()

    source = {"source": {"kind": "event"}, "at": "2026-01-02T03:04:05Z"}
    assert json.loads(row["scores"] or "[]") == [each | source for each in shown]
    assert (SECRET in str(row["score_labels"])) == (bool(shown) and rule is not FIND)


def test_scores_of_a_dead_letter_are_masked() -> None:
    said = {"name": "n", "label": "good", "explanation": "why", "source": {"evaluator": SECRET}, SECRET: 1}
    span = {"trace_id": "x", "span_id": "2" * 16, "scores": [said, SECRET]}
    rules = masking(FIND, MaskRule(MaskAction.DROP, key="gen_ai.evaluation.explanation"))
    sent = of(json.dumps(span).encode(), content_type="application/vnd.clearspan.span+json", masking=rules)

    [letter] = letters(sent)

    kept = {"name": "n", "label": "good", "source": {"evaluator": REDACTED}, REDACTED: 1}
    assert json.loads(letter.value)["scores"] == [kept, REDACTED]


def test_place_of_a_repair_that_a_rule_drops_is_gone() -> None:
    places = ["attributes.a", f"attributes.{SECRET}"]
    span = {"trace_id": "a" * 32, "span_id": "b" * 16, "start_time": "2026-01-02T03:04:05Z", "repaired": places}
    rules = masking(MaskRule(MaskAction.DROP, value=FIND.value))
    sent = of(json.dumps(span).encode(), content_type="application/vnd.clearspan.span+json", masking=rules)

    [row] = decode_chunk(sent, RULES).rows.to_pylist()

    assert json.loads(row["repaired"]) == ["attributes.a"]


@pytest.mark.parametrize(
    ("rule", "attributes", "place"),
    [
        (MaskRule(MaskAction.REDACT, value=r"^\d{9}$"), {"123456789": "\0"}, "attributes.[masked]"),
        (
            MaskRule(MaskAction.REDACT, "users.*", "[^@]+@[^@]+"),
            {"users": {"a@x.org": "\0"}},
            "attributes.[masked]",
        ),
        (MaskRule(MaskAction.REDACT, value="^sk-[a-z]{250}$"), {"a": {"sk-" + "k" * 250: "\0"}}, "attributes.a"),
    ],
)
def test_place_of_a_repair_does_not_show_a_masked_key(rule: MaskRule, attributes: Any, place: str) -> None:
    span = {"trace_id": "a" * 32, "span_id": "b" * 16, "start_time": "2026-01-02T03:04:05Z", "attributes": attributes}
    sent = of(json.dumps(span).encode(), content_type="application/vnd.clearspan.span+json", masking=masking(rule))

    [row] = decode_chunk(sent, RULES).rows.to_pylist()

    assert json.loads(row["repaired"]) == [place]


def test_only_spans_of_the_masked_project_are_masked() -> None:
    mixed = request([f"a {SECRET}"], project=str(MASKED)) + request([f"b {SECRET}"], project=str(PLAIN))

    names = decode_chunk(of(mixed, project=None), RULES).rows["name"].to_pylist()

    assert names == [f"a {REDACTED}", f"b {SECRET}"]


# Dead letters.


def letters(chunk: Chunk) -> list[CutDeadLetter]:
    outcome = decode_chunk(chunk, RULES).outcomes[0]
    return list(outcome.dead_letters)


def shown(letter: CutDeadLetter) -> str:
    """Everything that is published of a dead letter."""
    return repr(letter)


def rejected(sample: Path) -> tuple[bytes, str]:
    """A sample with the secret in every text and times that are refused, and its content type."""
    if sample.suffix == ".bin":
        message = ExportTraceServiceRequest.FromString(sample.read_bytes())
        plant_in_protobuf(message, plant)
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    span.start_time_unix_nano = 1
        return message.SerializeToString(), "application/x-protobuf"
    document = plant_in_json(json.loads(sample.read_bytes()))
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                span["startTimeUnixNano"] = "1"
    return json.dumps(document).encode(), "application/json"


@pytest.mark.parametrize("fault", [b"\\ud800", b"\xff"], ids=["half a pair", "no UTF-8"])
def test_rejected_span_with_a_text_that_is_repaired_keeps_its_masked_value(fault: bytes) -> None:
    span = {"trace_id": "a" * 32, "span_id": "b" * 16, "start_time": "1970-01-02", "span_name": f"@@ {SECRET}"}
    value = json.dumps(span).encode().replace(b"@@", fault)

    [letter] = letters(of(value, content_type="application/vnd.clearspan.span+json"))

    assert json.loads(letter.value)["span_name"] == "\ufffd [masked]"


@pytest.mark.parametrize("sample", FEW_SAMPLES, ids=lambda path: path.name)
def test_secret_of_a_rejected_span_is_not_in_its_dead_letter(sample: Path) -> None:
    value, content_type = rejected(sample)
    found = letters(
        of(value, content_type=content_type, key=f"key {SECRET}".encode(), headers=[("x", SECRET.encode())])
    )
    plain = letters(of(value, content_type=content_type, project=PLAIN))

    assert len(found) == len(plain) > 0
    assert any(SECRET in shown(letter) for letter in plain)
    for letter in found:
        assert letter.value
        assert SECRET not in shown(letter)
        assert SECRET not in _unescaped(letter.value, content_type)
        again = decode_chunk(of(letter.value, content_type=content_type), RULES).outcomes[0].rejections
        assert {rejection.code for rejection in again.in_full} == {RejectionCode.ABSURD_TIME}


def _unescaped(value: bytes, content_type: str) -> str:
    message = value if content_type == "application/json" else str(ExportTraceServiceRequest.FromString(value)).encode()
    return unescaped(message.decode())


def test_word_in_place_of_an_id_is_neither_in_value_nor_in_reason() -> None:
    message = ExportTraceServiceRequest.FromString(request(["a"]))
    message.resource_spans[0].scope_spans[0].spans[0].trace_id = f"id {SECRET}".encode()

    [plain] = letters(of(message.SerializeToString(), project=PLAIN))
    [letter] = letters(of(message.SerializeToString()))

    assert SECRET in plain.rejection.reason
    assert SECRET not in shown(letter)
    assert "masks content" in letter.rejection.reason


@pytest.mark.parametrize("project", [MASKED, None], ids=["named", "not named"])
def test_record_that_cannot_be_decoded_keeps_size_and_digest_only(project: UUID | None) -> None:
    value = f"not a record {SECRET}".encode()

    [letter] = letters(of(value, project=project))
    [kept] = letters(of(value, project=project, masking=masking(keeps_unmaskable=True)))
    [plain] = letters(of(value, project=PLAIN))
    [without_rules] = letters(of(value, project=project, masking=Masking()))

    assert letter.value == b""
    assert f"{len(value)} bytes with the SHA-256 {hashlib.sha256(value).hexdigest()}" in letter.rejection.reason
    assert SECRET not in shown(letter)
    assert kept.value == plain.value == without_rules.value == value


def test_span_that_the_parser_refuses_keeps_size_and_digest_only() -> None:
    name = f"a {SECRET}"
    value = request([name], absurd=[name]).replace(SECRET.encode(), SECRET[:-1].encode() + b"\xff")

    [letter] = letters(of(value))

    assert letter.rejection.code is RejectionCode.ABSURD_TIME
    assert (letter.value, SECRET[:-1] in shown(letter)) == (b"", False)


def test_rejected_spans_of_several_projects_are_masked_each_by_its_own_rules() -> None:
    names = [f"{SECRET} {at}" for at in range(150)]
    value = request(names, project=str(MASKED), absurd=names) + request([SECRET], project=str(PLAIN), absurd=[SECRET])

    found = letters(of(value, project=None))

    assert found[-1].rejection.code is RejectionCode.MANY_SPANS
    assert sum(shown(letter).count(SECRET) for letter in found) == 1
    assert SECRET not in found[-1].rejection.reason


def test_unknown_fields_of_protobuf_are_not_in_a_dead_letter() -> None:
    value = request(["a"], absurd=["a"]) + b"\xa2\x06" + bytes([len(SECRET)]) + SECRET.encode()
    unknown_in_span = ExportTraceServiceRequest.FromString(request(["a"], absurd=["a"]))
    span = unknown_in_span.resource_spans[0].scope_spans[0].spans[0]
    span.MergeFromString(b"\xa2\x06" + bytes([len(SECRET)]) + SECRET.encode())

    for each in (value, unknown_in_span.SerializeToString()):
        [letter] = letters(of(each))
        assert SECRET.encode() not in letter.value


def test_span_that_the_store_rejects_is_dead_lettered_masked() -> None:
    chunk = of(request([f"a {SECRET}", "b"]))
    batch = SpanBatch()
    for record in records_of(chunk, decode_chunk(chunk, RULES)):
        batch.add(record, now_s=0)

    [(_, letter)] = batch.dead_letters({0: f"the engine says {SECRET}"})

    assert letter.rejection.code is RejectionCode.REJECTED_BY_STORE
    assert SECRET not in shown(letter)
    assert b"a " + REDACTED.encode() in letter.value


@pytest.mark.parametrize("broken", ["pass 1", "pass 2"])
def test_span_that_cannot_be_masked_is_rejected_and_not_stored(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)

    if broken == "pass 1":
        monkeypatch.setattr(masking_spans, "_masked", fail)
    else:
        monkeypatch.setattr("ingest.normalize.masked_ag", fail)

    decoded = decode_chunk(of(request(["a", "b"])), RULES)

    assert decoded.rows.num_rows == 0
    assert [rejection.code for rejection in decoded.outcomes[0].rejections.in_full] == [RejectionCode.OUR_FAILURE] * 2
    assert all(SECRET not in shown(letter) for letter in decoded.outcomes[0].dead_letters)


def test_dropping_everything_leaves_spans_that_can_be_stored() -> None:
    everything = masking(
        *(MaskRule(action, key="*") for action in MaskAction), MaskRule(MaskAction.DROP, value="(?s).")
    )

    for sample in SAMPLES[::3]:  # in either encoding
        content_type = "application/x-protobuf" if sample.suffix == ".bin" else "application/json"
        plain = decode_chunk(of(sample.read_bytes(), content_type=content_type, project=PLAIN), RULES)
        for rules in (
            everything,
            masking(MaskRule(MaskAction.REDACT, key="*")),
            masking(MaskRule(MaskAction.HASH, "ag")),
        ):
            masked = decode_chunk(of(sample.read_bytes(), content_type=content_type, masking=rules), RULES)
            assert masked.rows.num_rows == plain.rows.num_rows
            assert not masked.outcomes[0].rejections


def test_places_restrict_rules_of_spans() -> None:
    rules = masking(MaskRule(MaskAction.REDACT, value="sk-[A-Za-z0-9]+", places=(MaskPlace.SPAN_NAME,)))

    rows = decode_chunk(of(request([SECRET], attributes={"k": SECRET}), masking=rules), RULES).rows

    assert (rows["name"][0].as_py(), json.loads(attributes_of(rows)[0])["k"]) == (REDACTED, SECRET)


def test_message_that_becomes_the_name_of_a_span_is_masked_as_one() -> None:
    sent = {"logfire.msg_template": "Ask {key}", "logfire.msg": f"Ask {SECRET}"}
    of_names = masking(MaskRule(MaskAction.REDACT, value="sk-[A-Za-z0-9]+", places=(MaskPlace.SPAN_NAME,)))
    of_key = masking(MaskRule(MaskAction.REDACT, key="logfire.msg"))

    names = [
        decode_chunk(of(request(["Ask {key}"], attributes=sent), masking=rules), RULES).rows["name"][0].as_py()
        for rules in (of_names, of_key, masking(MaskRule(MaskAction.REDACT, key="other")))
    ]

    assert names == [f"Ask {REDACTED}", REDACTED, f"Ask {SECRET}"]


def test_chunk_without_rules_never_looks_at_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Sequence[Any]) -> Any:
        raise AssertionError

    monkeypatch.setattr(chunk_module, "masked_record", fail)

    assert decode_chunk(of(request(["a"]), masking=Masking()), RULES).rows.num_rows == 1
    assert START_NS > 0
