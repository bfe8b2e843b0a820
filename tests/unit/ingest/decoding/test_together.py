"""Records that are read together give the rows, outcomes and dead letters that each gives alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from common.codec import otlp_columns
from common.codec.otlp_schema import SCHEMA, VALUE_FIELDS
from common.codec.protobuf_cut import encode_delimited
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import CONTENT_TYPE_HEADER, PROJECT_HEADER, Partition, Record
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from ingest.decode import Rules
from ingest.decoding import plain_spans
from ingest.decoding.chunk import Chunk, DecodedChunk, RecordOutcome, decode_chunk
from ingest.decoding.together import ReadTogether, read_together
from tests.strategies import NOW_NS, hostile_text, int64, otlp_requests, valid_times
from tests.support.steps import steps_of

TOPICS = {"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}
SAMPLES = sorted((Path(__file__).parents[3] / "data/samples").glob("*.otlp_proto.bin"))
PROJECT = UUID(int=7)
NEVER = 2**60


@pytest.fixture(autouse=True, scope="module")
def plans_for_few_spans() -> Iterator[None]:
    """Let a single span with new keys be plain, so that examples are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("common.plans.USUAL_COUNT", 1)
        yield


def rules_with(limits: SpanLimits | None = None, *, together_bytes_min: int = 0) -> Rules:
    return Rules(
        TOPICS, limits or SpanLimits(), DEFAULT_PROJECT_ID, together_bytes_min=together_bytes_min, plain_spans_min=0
    )


def chunk_of(
    values: Sequence[bytes | None], *headers: tuple[str, bytes], unknown: frozenset[UUID] = frozenset()
) -> Chunk:
    records = [Record("t", at % 2, at, 5 + at, None, value, headers) for at, value in enumerate(values)]
    return Chunk(records, {Partition("t", 0): "c/t/0", Partition("t", 1): "c/t/1"}, NOW_NS, unknown)


def read(chunk: Chunk) -> ReadTogether:
    return read_together(
        chunk.records, chunk.partition_ids, rules_with(), now_ns=chunk.now_ns, without_plain=chunk.unknown
    )


def plain_count(chunk: Chunk) -> int:
    return len(read(chunk).position_of)


def check(chunk: Chunk, limits: SpanLimits | None = None) -> DecodedChunk:
    """Decode the records read together and one by one, and compare; return the former."""
    decoded = decode_chunk(chunk, rules_with(limits))
    expected = decode_chunk(chunk, rules_with(limits, together_bytes_min=NEVER))
    assert decoded.claimed == expected.claimed
    assert [comparable(one) for one in decoded.outcomes] == [comparable(one) for one in expected.outcomes]
    assert decoded.rows.schema == expected.rows.schema
    decoded.rows.validate(full=True)
    for name in expected.rows.schema.names:
        assert repr(decoded.rows[name].to_pylist()) == repr(expected.rows[name].to_pylist()), name
    return decoded


def comparable(outcome: RecordOutcome) -> Any:
    """Everything but the memory, which is approximate."""
    return outcome._replace(bytes_count=0)


def span(number: int, **members: Any) -> Span:
    given = {"trace_id": b"\1" * 16, "span_id": number.to_bytes(8, "big"), "name": f"span {number}"}
    times = {"start_time_unix_nano": NOW_NS - 10**9, "end_time_unix_nano": NOW_NS - 10**9 + number}
    return Span(**{**given, **times, **members})


def request(*spans: Span, resource: dict[str, str] | None = None, scope: str = "") -> bytes:
    scope_spans = ScopeSpans(scope=InstrumentationScope(name=scope) if scope else None, spans=spans)
    attributes = [KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in (resource or {}).items()]
    resource_spans = ResourceSpans(resource=Resource(attributes=attributes), scope_spans=[scope_spans])
    return ExportTraceServiceRequest(resource_spans=[resource_spans]).SerializeToString()


def _code(number: int) -> Any:
    return number


def attributes(**members: Any) -> list[KeyValue]:
    return [
        KeyValue(key=key.replace("__", "."), value=value if isinstance(value, AnyValue) else any_value(value))
        for key, value in members.items()
    ]


def any_value(value: Any) -> AnyValue:
    kinds = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value", bytes: "bytes_value"}
    return AnyValue(**{kinds[type(value)]: value})


# Equal for records that are sent


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_are_read_together(path):
    chunk = chunk_of([path.read_bytes()])

    assert check(chunk).rows.num_rows > 0
    assert list(read(chunk).records) == [0]


def test_all_samples_together():
    chunk = chunk_of([path.read_bytes() for path in SAMPLES])

    check(chunk)
    assert len(read(chunk).records) == len(SAMPLES)


SCALARS = st.one_of(
    hostile_text().map(any_value),
    st.booleans().map(any_value),
    int64.map(any_value),
    st.floats().map(any_value),
    st.sampled_from(["", "a", "chat", "openai", "1", "{}", "-0.0"]).map(any_value),
    st.sampled_from([0, 1, -1, 200, 2**53, 2**63 - 1]).map(any_value),
    st.sampled_from([0.0, -0.0, 5.0, 0.1, 1e22, 1e-7, 2.0**63, float("nan"), float("inf")]).map(any_value),
)
PLAIN_KEYS = ["a", "a.b", "a.b.c", "x.0", "x.1", "x.10", "http.method", "http.route", "", ".", 'é."', "zz", "a\\b.c"]
KNOWN_KEYS = ["user.id", "session.id", "gen_ai.system", "gen_ai.usage.input_tokens", "error.type", "ag.type.node", "ag"]
KNOWN_KEYS += ["llm.model_name", "llm", "gen_ai.agent.name", "openinference.span.kind", "ag.data.inputs.x", "error"]


def similar_spans() -> st.SearchStrategy[Span]:
    """Spans of few key sets, few traces and few ids, so that they are grouped, related, and sometimes repeated."""
    keys = st.lists(st.sampled_from(PLAIN_KEYS) | st.sampled_from(KNOWN_KEYS), max_size=5)
    event = st.builds(
        Span.Event,
        time_unix_nano=valid_times,
        name=st.sampled_from(["exception", "gen_ai.choice", "log"]),
        attributes=st.just([]) | st.just(attributes(exception__type="E", exception__message="m")),
    )
    return st.builds(
        Span,
        trace_id=st.sampled_from([b"\1" * 16, b"\2" * 16]),
        span_id=st.integers(1, 40).map(lambda number: number.to_bytes(8, "big")),
        parent_span_id=st.just(b"") | st.integers(0, 40).map(lambda number: number.to_bytes(8, "big")),
        name=st.sampled_from(["", "n", "é"]),
        kind=st.integers(0, 5),
        start_time_unix_nano=valid_times,
        end_time_unix_nano=valid_times,
        status=st.builds(Status, code=st.integers(0, 2), message=st.sampled_from(["", "failed"])),
        events=st.just([]) | st.just([]) | st.lists(event, max_size=2),
        links=st.just([]) | st.just([]) | st.just([Span.Link(trace_id=b"\3" * 16, span_id=b"\4" * 8)]),
        attributes=keys.flatmap(
            lambda keys: st.tuples(*[SCALARS for _ in keys]).map(
                lambda values: [KeyValue(key=key, value=value) for key, value in zip(keys, values, strict=True)]
            )
        ),
    )


@given(st.lists(st.lists(similar_spans(), max_size=6), max_size=4))
def test_similar_spans(records):
    check(chunk_of([request(*spans, scope="s") for spans in records]))


@given(st.lists(otlp_requests(), max_size=3))
def test_any_request(requests):
    check(chunk_of([one.SerializeToString() for one in requests]))


@given(
    st.lists(otlp_requests() | st.lists(similar_spans(), min_size=1).map(lambda spans: request(*spans)), min_size=1),
    st.randoms(),
)
def test_broken_records_among_others(requests, chance):
    values = [one if isinstance(one, bytes) else one.SerializeToString() for one in requests]

    check(chunk_of([broken(value, chance) if chance.random() < 0.7 else value for value in values]))


def broken(value: bytes, chance: random.Random) -> bytes:
    """The record with some bytes changed, repeated, left out or cut off."""
    raw = bytearray(value)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(raw) + 1)
        kind = chance.randrange(5)
        if kind == 0 and raw:
            raw[at % len(raw)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            raw[at:at] = raw[at : at + chance.randrange(40)]
        elif kind == 2:
            del raw[at : at + chance.randrange(1, 4)]
        elif kind == 3:
            raw[at:at] = chance.choice([b"\xff" * 9 + b"\1", b"\0", b"\x7a\0", b"\x48\1", b"\x0b\x0c", bytes(3)])
        else:
            del raw[at:]
    return bytes(raw)


# One bad record or span

GOOD = request(*[span(number, attributes=attributes(http__method="GET", n=number)) for number in range(1, 20)])


def fields(*parts: tuple[int, bytes]) -> bytes:
    return b"".join(encode_delimited(number, content) for number, content in parts)


def record(span_end: bytes = b"", *, scope_begin: bytes = b"", resource_begin: bytes = b"") -> bytes:
    """One span, with further bytes in it and around it."""
    scope_spans = scope_begin + fields((2, span(1).SerializeToString() + span_end))
    return fields((1, resource_begin + fields((2, scope_spans))))


def attribute(*parts: tuple[int, bytes]) -> bytes:
    return fields((9, fields(*parts)))


TEXT_VALUE = fields((1, b"a"))
HOSTILE = {
    "no id": request(span(1, span_id=b"")),
    "short id": request(span(1), span(2, span_id=b"\1" * 7)),
    "id of zeros": request(span(1), span(2, trace_id=bytes(16))),
    "short parent": request(span(1, parent_span_id=b"\1" * 7)),
    "absurd start": request(span(1, start_time_unix_nano=1)),
    "absurd end": request(span(1, end_time_unix_nano=2**64 - 1)),
    "unknown kind": request(span(1, kind=6)),
    "negative kind": request(span(1, kind=-1)),
    "unknown status": request(span(1, status=Status(code=_code(3)))),
    "null in a name": request(span(1, name="a\0")),
    "null in a status": request(span(1, status=Status(message="\0"))),
    "null in a trace state": request(span(1, trace_state="\0")),
    "null in a key": request(span(1, attributes=[KeyValue(key="a\0", value=any_value("x"))])),
    "null in a text": request(span(1), span(2, attributes=attributes(a="x", b="\0x"))),
    "null in a resource": request(span(1), resource={"a": "\0"}),
    "null in a scope": request(span(1), scope="\0"),
    "null in an event": request(span(1, events=[Span.Event(name="\0")])),
    "short id of a link": request(span(1, links=[Span.Link(trace_id=b"\1")])),
    "repeated ids": request(span(1, name="first"), span(2), span(1, name="second")),
    "not UTF-8": request(span(1, name="@@")).replace(b"@@", b"\xff\xff"),
    "nested too deep": request(span(1, attributes=attributes(a="@"))),
    "cut off": GOOD[:-5],
    "a length past all memory": fields((1, b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01ab")),
    "an empty span": fields((1, fields((2, fields((2, b"")))))),
    "no spans": request(),
    "nothing at all": b"",
    "not protobuf": b"{}",
    "status twice": record(fields((15, fields((2, b"a"))), (15, b"\x18\1"))),
    "name twice": record(fields((5, b"other"))),
    "scope twice": record(scope_begin=fields((1, fields((1, b"n"))), (1, fields((2, b"v"))))),
    "resource twice": record(resource_begin=fields((1, fields((1, fields((1, b"k"))))), (1, b"\x10\1"))),
    "two kinds of value": record(attribute((1, b"k"), (2, TEXT_VALUE + b"\x18\5"))),
    "two kinds of value, the other way round": record(attribute((1, b"k"), (2, b"\x18\5" + TEXT_VALUE))),
    "two kinds of bytes": record(attribute((1, b"k"), (2, TEXT_VALUE + fields((7, b"b"))))),
    "value twice": record(attribute((1, b"k"), (2, TEXT_VALUE), (2, b"\x18\5"))),
    "key twice": record(attribute((1, b"k"), (1, b"l"), (2, TEXT_VALUE))),
    "index of a text": record(attribute((1, b"k"), (2, b"\x40\5"))),
    "index of a key": record(attribute((2, TEXT_VALUE)) + fields((9, b"\x18\5"))),
    "no value": record(attribute((1, b"k"))),
    "no key": record(attribute((2, TEXT_VALUE))),
    "unknown field": record(b"\xf8\x3f\1"),
    "unknown group": record(b"\xfb\x3f\xfc\x3f"),
    "name as a number": record(b"\x28\1"),
    "kind of 64 bits": record(b"\x30\x81\x80\x80\x80\x80\x01"),
    "kind in too many bytes": record(b"\x30\x81\x00"),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_hostile_record_among_good_ones(hostile):
    chunk = chunk_of([GOOD, hostile, GOOD, hostile, None, GOOD])

    check(chunk)
    assert {0, 2, 5} <= read(chunk).records.keys()


@pytest.mark.parametrize("levels", [24, 25, 40, 5_000])
@pytest.mark.parametrize("is_array", [True, False])
def test_nested_value(levels, is_array):
    value = TEXT_VALUE
    for _ in range(levels):
        value = fields((5, fields((1, value)))) if is_array else fields((6, fields((1, fields((1, b"k"), (2, value))))))

    decoded = check(chunk_of([GOOD, record(attribute((1, b"a"), (2, value)))]))

    assert [outcome.repaired_count for outcome in decoded.outcomes] == [0, int(levels > 24)]


def test_zeros_on_the_wire_are_no_obstacle():
    """The Collector writes an empty parent for a root, JavaScript's SDK writes all counts."""
    zeros = b"\x22\0\x50\0\x60\0\x70\0\x30\0\x85\x01\0\0\0\0\x1a\0\x7a\4\x12\0\x18\0"
    chunk = chunk_of([record(zeros, scope_begin=fields((1, b""), (3, b"")), resource_begin=fields((1, b""), (3, b"")))])

    check(chunk)
    assert read(chunk).records


def test_many_refused_records_cost_few_tries(monkeypatch):
    tries: list[int] = []
    parse = otlp_columns._parsed

    def parsed(values: Sequence[bytes]) -> Any:
        tries.append(len(values))
        return parse(values)

    monkeypatch.setattr(otlp_columns, "_parsed", parsed)

    check(chunk_of([GOOD, *[b"\xff\xff"] * 2_000, GOOD]))
    assert len(tries) <= 2 * otlp_columns.HALVINGS_MAX + 2


# Projects, headers and settings


@pytest.mark.parametrize("resource", [{}, {"project.id": str(PROJECT)}, {"project.id": "none"}], ids=repr)
@pytest.mark.parametrize(
    "headers", [[], [(PROJECT_HEADER, b"\xff")], [(PROJECT_HEADER, str(UUID(int=8)).encode())]], ids=repr
)
@pytest.mark.parametrize("unknown", [frozenset(), frozenset({PROJECT})], ids=repr)
def test_projects(resource, headers, unknown):
    check(chunk_of([request(span(1), resource=resource), GOOD], *headers, unknown=unknown))


def test_two_projects_in_one_record():
    check(chunk_of([request(span(1), resource={"project.id": str(PROJECT)}) + request(span(2)), GOOD]))


@pytest.mark.parametrize("content_type", [b"application/x-protobuf", b"application/json", b"text/plain"])
def test_content_types(content_type):
    check(chunk_of([GOOD], (CONTENT_TYPE_HEADER, content_type)))


@pytest.mark.parametrize(
    "limits", [SpanLimits(record_bytes_max=100), SpanLimits(span_bytes_max=50), SpanLimits(nesting_depth_max=1)]
)
def test_limits(limits):
    nested = AnyValue(array_value=ArrayValue(values=[AnyValue(array_value=ArrayValue())]))
    values = [GOOD, request(span(1)), request(span(1, attributes=attributes(a=nested)))]

    check(chunk_of(values), limits)


def test_without_the_parser(monkeypatch):
    monkeypatch.setattr(otlp_columns, "ptars", None)

    assert not read(chunk_of([GOOD])).records
    assert check(chunk_of([GOOD])).rows.num_rows == 19


# What is plain, and what has an influence on others


def test_spans_that_are_plain():
    scalars = attributes(a__b='x"y\\z\n\x01é', a__c=1, a__d=True, a__e=0.5, a__f=-0.0, a__g=float("nan"), h="")
    known = attributes(user__id="u", session__id="s", c=1)
    chunk = chunk_of(
        [
            request(span(1), span(2, attributes=scalars), span(3, attributes=scalars), span(4, attributes=known)),
            request(span(1, attributes=known, parent_span_id=b"\5" * 8), span(2, end_time_unix_nano=NOW_NS + 7)),
        ]
    )

    rows = check(chunk).rows.to_pylist()
    assert plain_count(chunk) == 6
    assert [row["session_id"] for row in rows] == [None, None, None, "s", None, None]


NOT_PLAIN = {
    "an empty text that is copied": {"attributes": attributes(user__id="")},
    "a number that is copied": {"attributes": attributes(user__id=5)},
    "an error of a convention": {"attributes": attributes(user__id="u"), "status": Status(code=_code(2))},
    "a number of a convention": {"attributes": attributes(gen_ai__usage__input_tokens=5)},
    "colliding keys": {"attributes": attributes(a="x", a__b="y")},
    "one key twice": {"attributes": attributes(a="x") + attributes(a="y")},
    "an array": {"attributes": attributes(a=AnyValue(array_value=ArrayValue()))},
    "bytes": {"attributes": attributes(a=b"\0\1")},
    "no value": {"attributes": attributes(a=AnyValue())},
    "attributes of ag": {"attributes": attributes(ag__type__node="chat")},
    "an event": {"events": [Span.Event(name="exception")]},
    "a link": {"links": [Span.Link(trace_id=b"\1" * 16, span_id=b"\1" * 8)]},
    "a duration of weeks": {"start_time_unix_nano": NOW_NS - 10**15, "end_time_unix_nano": NOW_NS + 10**12},
    "many attributes": {"attributes": attributes(**{f"k{n}": n for n in range(plain_spans.KEYS_MAX + 1)})},
}


@pytest.mark.parametrize("members", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_spans_that_are_not_plain(members):
    other = {"trace_id": b"\2" * 16}
    chunk = chunk_of([request(span(1, **members), span(2, **other)), request(span(3, **other))])

    check(chunk)
    assert plain_count(chunk) == 2


def test_spans_above_one_that_is_not_plain_get_its_usage():
    usage = attributes(gen_ai__operation__name="chat", gen_ai__usage__input_tokens=5)
    chunk = chunk_of(
        [
            request(
                span(1),
                span(2, parent_span_id=(1).to_bytes(8, "big")),
                span(3, parent_span_id=(2).to_bytes(8, "big"), attributes=usage),
                span(4, parent_span_id=(1).to_bytes(8, "big")),
            ),
            request(span(1)),
        ]
    )

    rows = check(chunk).rows.to_pylist()
    assert plain_count(chunk) == 2
    assert [b'"tokens":{"cumulative"' in row["attributes_template"] for row in rows] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_spans_with_rare_keys_are_not_plain(monkeypatch):
    monkeypatch.setattr("common.plans.USUAL_COUNT", 4)
    usual = [span(number, attributes=attributes(usual=number)) for number in range(1, 5)]
    chunk = chunk_of([request(*usual, *[span(9 + n, attributes=attributes(**{f"rare{n}": n})) for n in range(3)])])
    plain_spans._plans._seen_once.clear()

    assert [plain_count(chunk) for _ in range(2)] == [4, 7]
    check(chunk)


def test_trace_with_a_link_is_an_annotation():
    link = Span.Link(trace_id=b"\1" * 16, span_id=b"\1" * 8)

    rows = check(chunk_of([request(span(1), span(2, links=[link]), span(3, trace_id=b"\2" * 16))])).rows

    assert rows["trace_type"].to_pylist() == ["annotation", "annotation", "invocation"]


def test_key_sets_with_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(plain_spans, "_WEIGHTS", plain_spans._WEIGHTS * 0)
    spans = [span(n, attributes=attributes(**{f"k{n % 3}": n, "t": "x"})) for n in range(1, 30)]

    check(chunk_of([request(*spans, span(40), span(41))]))


@pytest.mark.parametrize("micros", [-1, 0, 1, 10, 100, 999, 1_000, 1_001, 1_010, 12_345, 10**11 + 1, 10**12 - 1])
def test_durations(micros):
    start_ns = NOW_NS - 10**16
    times = {"start_time_unix_nano": start_ns, "end_time_unix_nano": start_ns + micros * 1000}

    check(chunk_of([request(span(1, **times))]))


def test_few_bytes_are_read_one_by_one():
    def read_count(values: Sequence[bytes]) -> int:
        chunk, rules = chunk_of(values), rules_with(together_bytes_min=2 * len(GOOD))
        return len(read_together(chunk.records, chunk.partition_ids, rules, now_ns=NOW_NS, without_plain=()).records)

    assert [read_count([GOOD]), read_count([GOOD, GOOD])] == [0, 2]


def test_few_plain_spans_beside_others_are_values():
    def plain_count(*calls: Span) -> int:
        chunk, rules = chunk_of([GOOD, *map(request, calls)]), replace(rules_with(), plain_spans_min=20)
        return sum(
            read_together(
                chunk.records, chunk.partition_ids, rules, now_ns=NOW_NS, without_plain=()
            ).plain_counts.values()
        )

    call = span(1, attributes=attributes(gen_ai__usage__input_tokens=5))

    assert [plain_count(), plain_count(span(1)), plain_count(call)] == [19, 20, 0]


def test_columns_take_a_tenth_of_the_steps():
    """Counted in lines of Python; a hundredth when this was written."""
    keys = ["http.method", "http.route", "net.peer.ip", "user.id", "request.id", "log.text"]
    texts = [{key: f"{key} {number}" for key in keys} for number in range(1, 2_001)]
    spans = [span(at, attributes=attributes(**one, size=at)) for at, one in enumerate(texts, 1)]
    chunk = chunk_of([request(*spans[first : first + 50]) for first in range(0, len(spans), 50)])

    together, one_by_one = rules_with(), rules_with(together_bytes_min=NEVER)

    assert 10 * steps_of(lambda: decode_chunk(chunk, together)) < steps_of(lambda: decode_chunk(chunk, one_by_one))


# The schema of the parser


def test_numbers_are_those_of_opentelemetry():
    published_messages = (ExportTraceServiceRequest, ResourceSpans, ScopeSpans, Span, Status, KeyValue, AnyValue)
    published = {
        message.name: {field.name: field.number for field in message.fields}
        for message in (one.DESCRIPTOR for one in published_messages)
    }
    published["Request"] = published["ExportTraceServiceRequest"]

    for message, own in SCHEMA.items():
        assert {name: number for name, number, _, _ in own}.items() <= published[message].items()
    assert (
        VALUE_FIELDS.items() == {number: name for name, number in published["AnyValue"].items() if number < 8}.items()
    )
    assert {name for name, _, _, _ in SCHEMA["Span"]} == published["Span"].keys()
