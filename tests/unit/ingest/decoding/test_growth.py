"""A small span never takes gigabytes or minutes: what grows many times is rejected or stays text, and costs that span
alone. Found by attacking the decoders: spans of 60 KB to 4 MB took up to 12 GB and 158 seconds.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.clickhouse import leaves
from common.codec import otlp_json, otlp_protobuf, span_json
from common.codec.protobuf_cut import encode_delimited, lay_out_request
from common.errors import RejectionCode
from common.ids import DEFAULT_PROJECT_ID
from common.json_values import _members_count
from common.kafka.record import CONTENT_TYPES, Partition, Record
from common.limits import SpanLimits
from common.nesting import GROWTH_MAX, has_long_paths
from common.settings import Encoding, TopicSettings
from common.steps import finished
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from query_api.intake.protobuf_check import kept_trace_ids
from query_api.request.route import PrepareContext
from tests.strategies import NOW_NS, hostile_text
from tests.support.intake import prepared_export

LIMITS = SpanLimits()
RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, LIMITS, DEFAULT_PROJECT_ID)
KEY = "k" * 3_000
NUMBERS = [0] * 3_000
LONG = {KEY: NUMBERS}
EMPTY, WITH_TIME = b"", b"\x09" + NOW_NS.to_bytes(8, "little")


def span(number: int, *members: bytes) -> bytes:
    """A span in protobuf; ``members`` are further members, encoded."""
    time = NOW_NS.to_bytes(8, "little")
    ids = encode_delimited(1, b"\1" * 16) + encode_delimited(2, number.to_bytes(8, "big"))
    return ids + b"\x39" + time + b"\x41" + time + b"".join(members)


def attribute(key: str, value: bytes) -> bytes:
    return encode_delimited(9, encode_delimited(1, key.encode()) + encode_delimited(2, value))


def text(content: str | bytes) -> bytes:
    return encode_delimited(1, content.encode() if isinstance(content, str) else content)


def array(*elements: bytes) -> bytes:
    return encode_delimited(5, b"".join(encode_delimited(1, element) for element in elements))


def integers(count: int) -> bytes:
    return array(*[b"\x18\x00"] * count)


def request(*spans: bytes, resource: bytes = b"") -> bytes:
    scope_spans = b"".join(encode_delimited(2, one) for one in spans)
    return encode_delimited(1, encode_delimited(1, resource) + encode_delimited(2, scope_spans))


def decode(*values: bytes, encoding: Encoding = Encoding.OTLP_PROTO) -> DecodedChunk:
    headers = (("content-type", CONTENT_TYPES[encoding].encode()),)
    records = [Record("t", 0, at, 5 + at, None, value, headers) for at, value in enumerate(values)]
    chunk = Chunk(records, {Partition("t", 0): "c/t/0"}, NOW_NS)
    together, one_by_one = (decode_chunk(chunk, replace(RULES, together_bytes_min=size)) for size in (0, 2**40))
    assert rejected(together) == rejected(one_by_one)
    assert repr(together.rows.to_pylist()) == repr(one_by_one.rows.to_pylist())
    return together


def rejected(chunk: DecodedChunk) -> list[tuple[int | None, RejectionCode]]:
    return [(one.span_index, one.code) for outcome in chunk.outcomes for one in outcome.rejections.in_full]


def at_intake(body: bytes) -> tuple[int, int]:
    """Return how many spans the API accepts and rejects."""
    context = PrepareContext({}, CONTENT_TYPES[Encoding.OTLP_PROTO], LIMITS, NOW_NS, 1, 1)
    prepared = prepared_export(body, context)
    return prepared.spans_count, prepared.rejected_count


@pytest.mark.parametrize(
    ("value", "is_long"),
    [
        (NUMBERS, True),
        ([[number] for number in NUMBERS], True),
        ({"a": {"b": NUMBERS}}, True),
        ([], False),
        ({str(number): KEY for number in range(100)}, False),
    ],
    ids=["array", "arrays in an array", "below objects", "nothing", "long texts"],
)
def test_paths_below_a_long_key_are_limited(value: Any, *, is_long: bool) -> None:
    assert has_long_paths(KEY, value) is is_long


def deepest(levels: int, members: int) -> Any:
    """Objects in each other below long keys, then an array: as long as the paths of so few members can be."""
    value: Any = [0] * members
    for _ in range(levels):
        value = {KEY: value}
    return value


@given(
    st.recursive(
        st.integers(0, 9) | hostile_text(40), lambda inner: st.lists(inner) | st.dictionaries(hostile_text(40), inner)
    )
)
@example(deepest(8, GROWTH_MAX - 9))
@example(deepest(23, GROWTH_MAX - 24))
@example([[[[[[[[[[[[[[[[[[[[[[[[0] * 8]]]]]]]]]]]]]]]]]]]]]]])
def test_few_members_have_no_long_paths(value: Any) -> None:
    count = _members_count(value, 100)

    assert not (0 <= count <= GROWTH_MAX and isinstance(value, dict | list) and has_long_paths("", value))


def test_members_are_counted_at_all_levels() -> None:
    assert _members_count(deepest(8, 24), 24) == 32
    assert _members_count({"a": [1, {"b": None}], "c": 0.5}, 24) == 5
    empty: list[Any] = ["text", 1, None, [], {}]
    assert [_members_count(value, 24) for value in empty] == [0] * 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("embedding.embeddings.0.embedding.vector", [0.5] * 100_000),
        ("a.path.of.180.characters" * 7, [0.5] * 100_000),
        ("llm.input_messages.11.message.tool_calls.3.tool_call.arguments", [0] * 100_000),
        ("scores", {f"a sentence of {number} that somebody uses as a key, " * 8: number for number in range(100)}),
        ("messages", [{"role": "user", "parts": [{"type": "text", "content": ""}]}] * 1_000),
    ],
    ids=["vector", "vector below a long path", "token ids", "sentences as keys", "messages"],
)
def test_real_values_are_far_below_the_limit(name: str, value: Any) -> None:
    assert not has_long_paths(name, value)


def test_array_below_a_long_key_costs_its_span_alone() -> None:
    bad, good = span(1, attribute(KEY, integers(3_000))), span(2, attribute("a", integers(3_000)))

    chunk = decode(request(bad, good), request(good))

    assert rejected(chunk) == [(0, RejectionCode.SPAN_TOO_LARGE)]
    assert chunk.rows.num_rows == 2
    assert at_intake(request(bad, good)) == (1, 1)


def test_event_with_an_array_below_a_long_key_costs_its_span_alone() -> None:
    key_value = encode_delimited(1, KEY.encode()) + encode_delimited(2, integers(3_000))
    bad = span(1, encode_delimited(11, WITH_TIME + encode_delimited(3, key_value)))

    assert rejected(decode(request(bad, span(2)))) == [(0, RejectionCode.SPAN_TOO_LARGE)]
    assert at_intake(request(bad, span(2))) == (1, 1)


@pytest.mark.parametrize("encoding", [Encoding.OTLP_JSON, Encoding.SPAN_JSON])
def test_array_below_a_long_key_is_rejected_in_json(encoding: Encoding) -> None:
    trace_id, span_id, now = "1" * 32, "2" * 16, str(NOW_NS)
    values = {"arrayValue": {"values": [{"intValue": 0}] * 3_000}}
    otlp = {"traceId": trace_id, "spanId": span_id, "startTimeUnixNano": now, "endTimeUnixNano": now}
    documents = {
        Encoding.OTLP_JSON: {
            "resourceSpans": [{"scopeSpans": [{"spans": [otlp | {"attributes": [{"key": KEY, "value": values}]}]}]}]
        },
        Encoding.SPAN_JSON: {"trace_id": trace_id, "span_id": span_id, "attributes": LONG},
    }

    chunk = decode(orjson.dumps(documents[encoding]), encoding=encoding)

    assert rejected(chunk) == [(0, RejectionCode.SPAN_TOO_LARGE)]


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("input.value", orjson.dumps(LONG)),
        ("llm.invocation_parameters", orjson.dumps(LONG)),
        (f"ag.data.inputs.{KEY}", b"@ag.type=json:" + orjson.dumps(NUMBERS)),
        ("ag.data.inputs", b"@ag.type=json:" + orjson.dumps(LONG)),
    ],
)
def test_json_that_would_grow_stays_text(key: str, content: bytes) -> None:
    span_kind = attribute("openinference.span.kind", text("LLM"))
    mime_type = attribute("input.mime_type", text("application/json"))

    chunk = decode(request(span(1, span_kind, mime_type, attribute(key, text(content)))))

    assert rejected(chunk) == []
    assert chunk.rows.nbytes < 20 * len(content)
    assert content.removeprefix(b"@ag.type=json:").decode() in str(chunk.rows["leaves"][0])


@pytest.mark.parametrize(("field", "small"), [(11, b"\x12\x01a"), (13, b"\x1a\x01a")], ids=["events", "links"])
def test_nearly_empty_events_and_links_are_limited(field: int, small: bytes) -> None:
    few = span(1, encode_delimited(field, EMPTY) * 16)
    bad = span(2, encode_delimited(field, EMPTY) * 17)
    bad_too = span(3, encode_delimited(field, small) * 1_000)
    usual = encode_delimited(1, b"\2" * 16) + encode_delimited(2, b"\3" * 8) if field == 13 else WITH_TIME
    good = span(4, encode_delimited(field, usual) * 1_000)
    record = request(few, bad, bad_too, good)

    assert rejected(decode(record)) == [(1, RejectionCode.SPAN_TOO_LARGE), (2, RejectionCode.SPAN_TOO_LARGE)]
    assert at_intake(record) == (2, 2)


@pytest.mark.parametrize(
    ("codec", "document"),
    [
        (span_json, {"trace_id": "1" * 32, "span_id": "2" * 16, "events": [{}] * 17}),
        (
            otlp_json,
            {"resourceSpans": [{"scopeSpans": [{"spans": [{"links": [{}] * 17, "startTimeUnixNano": str(NOW_NS)}]}]}]},
        ),
    ],
)
def test_nearly_empty_events_and_links_are_limited_in_json(codec: Any, document: dict[str, Any]) -> None:
    spans = document.get("spans", [document])
    if codec is otlp_json:
        spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
        spans[0] |= {"traceId": "1" * 32, "spanId": "2" * 16, "endTimeUnixNano": str(NOW_NS)}
    at = {"sent_ns": NOW_NS} if codec is span_json else {}

    found = codec.decode(orjson.dumps(document), limits=LIMITS, now_ns=NOW_NS, **at)

    assert [one.code for one in found.rejections.in_full] == [RejectionCode.SPAN_TOO_LARGE]


def test_reasons_quote_the_beginning_of_a_key() -> None:
    unknown_kind = b"\x40\x05"  # an index into a table of texts, which a span does not have
    bad = span(1, attribute("k" * 1_000_000, unknown_kind))

    (reason,) = (one.reason for one in decode(request(bad)).outcomes[0].rejections.in_full)

    assert reason.startswith("attributes.kkk")
    assert len(reason) < 300


def test_names_of_places_cost_nothing_while_nothing_is_wrong() -> None:
    def seconds(key: str) -> float:
        value = request(span(1, attribute(key, array(*[text("")] * 20_000))))
        began_s = time.process_time()
        otlp_protobuf.decode(value, limits=LIMITS, now_ns=NOW_NS)
        return time.process_time() - began_s

    # 35 times as long if each element names its place. Copies are made in C, so counting lines of Python shows nothing.
    assert min(seconds("k" * 1_000_000) for _ in range(5)) < 8 * min(seconds("k") for _ in range(5))


def test_paths_of_long_containers_are_not_cached() -> None:
    before = set(leaves._member_paths)

    leaves.SpanLeaves().append({f"{number}{'k' * 1_000}": {"a": 1} for number in range(10)})

    assert set(leaves._member_paths) <= before | {None}  # the root


def test_number_of_containers_with_cached_paths_is_bounded() -> None:
    leaves.SpanLeaves().append({str(number): {"a": 1} for number in range(leaves.CONTAINERS_MAX + 10)})

    assert len(leaves._member_paths) <= leaves.CONTAINERS_MAX


def test_nested_groups_are_judged_where_they_are() -> None:
    """Whatever is near the limit of the parser inside of a request has the same outcome in the API and the worker."""
    for depth in range(90, 101):
        body = request(span(1), resource=b"\x9b\x06" * depth + b"\x9c\x06" * depth)
        layout = lay_out_request(body)
        is_sure = finished(kept_trace_ids(layout, limits=LIMITS, now_ns=NOW_NS)) is not None

        is_kept = not otlp_protobuf.decode(body, limits=LIMITS, now_ns=NOW_NS).rejections

        assert is_kept or not is_sure, depth
        assert bool(decode(body).rows.num_rows) is is_kept, depth
