"""A character that no text may hold, or a value that is nested too deep, never costs a span (contract §4): whatever the
texts are, in every encoding, and in both ways of decoding.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import CONTENT_TYPES, Partition, Record
from common.limits import SpanLimits
from common.masking import MaskAction, MaskPlace, MaskRule, ProjectRules, pack
from common.settings import Encoding, TopicSettings
from common.telemetry import REPAIRED_SPANS
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk, records_of
from ingest.decoding.counts import count_records
from ingest.masking.dead_letters import Masking
from query_api.request.route import PrepareContext
from tests.strategies import NOW_NS
from tests.support.faulty_texts import BYTES, faulty_requests, with_bytes
from tests.support.intake import prepared_export
from tests.support.otlp_json import request_json
from tests.support.span_json import spans_json

LIMITS = SpanLimits()
RULES = Rules(
    {"t": TopicSettings(encoding=Encoding.OTLP_PROTO)},
    LIMITS,
    DEFAULT_PROJECT_ID,
    together_bytes_min=0,
    plain_spans_min=0,
)
SOURCE = Partition("t", 0)
_WITH_ZEROS = ("project_id", "trace_id", "span_id", "parent_id", "attributes_template", "leaves")
"""Columns that hold U+0000 whatever was sent."""


def in_all_encodings(request: ExportTraceServiceRequest) -> dict[Encoding, bytes]:
    """Return equal records, with bytes that are not UTF-8 and halves of surrogate pairs."""
    return {
        Encoding.OTLP_PROTO: with_bytes(request.SerializeToString(), b"\xff"),
        Encoding.OTLP_JSON: with_bytes(request_json(request), b"\\ud800"),
        Encoding.SPAN_JSON: with_bytes(spans_json(request), b"\xff"),
    }


def chunk_of(values: dict[Encoding, bytes], **members: Any) -> Chunk:
    records = [
        Record("t", 0, at, 5, None, value, (("content-type", CONTENT_TYPES[encoding].encode()),))
        for at, (encoding, value) in enumerate(values.items())
    ]
    return Chunk(records, {SOURCE: "c/t/0"}, NOW_NS, **members)


def rows(chunk: DecodedChunk) -> list[list[dict[str, Any]]]:
    """Return the rows of each record, without what says in which record they came."""
    all_rows = iter(chunk.rows.drop_columns(["version"]).to_pylist())
    return [list(itertools.islice(all_rows, outcome.rows_count)) for outcome in chunk.outcomes]


@given(faulty_requests())
def test_any_text_is_stored_equal_in_every_encoding(request: ExportTraceServiceRequest) -> None:
    decoded = decode_chunk(chunk_of(in_all_encodings(request)), RULES)

    assert not [outcome.rejections.in_full for outcome in decoded.outcomes if outcome.rejections]
    of_proto, of_json, of_spans = rows(decoded)
    assert repr(of_json) == repr(of_proto)
    assert repr(of_spans) == repr(of_proto)
    assert "\\x00" not in repr([row | dict.fromkeys(_WITH_ZEROS) for row in of_proto])


@given(faulty_requests())
def test_any_text_is_stored_equal_among_records_that_are_read_together(request: ExportTraceServiceRequest) -> None:
    plain = otlp_request().SerializeToString()
    value = in_all_encodings(request)[Encoding.OTLP_PROTO]
    records = [plain, value, plain, value, plain]
    chunk = Chunk([Record("t", 0, at, 5, None, one) for at, one in enumerate(records)], {SOURCE: "c/t/0"}, NOW_NS)

    together, one_by_one = (decode_chunk(chunk, replace(RULES, together_bytes_min=size)) for size in (0, 2**40))

    assert repr(together.rows.to_pylist()) == repr(one_by_one.rows.to_pylist())
    assert [one.repaired_count for one in together.outcomes] == [one.repaired_count for one in one_by_one.outcomes]


@given(faulty_requests())
def test_intake_accepts_what_can_be_repaired(request: ExportTraceServiceRequest) -> None:
    values = in_all_encodings(request)
    spans_count = sum(len(scope.spans) for one in request.resource_spans for scope in one.scope_spans)
    for encoding in (Encoding.OTLP_PROTO, Encoding.OTLP_JSON):
        context = PrepareContext({}, CONTENT_TYPES[encoding], LIMITS, NOW_NS, 1, 1)

        prepared = prepared_export(values[encoding], context)

        assert (prepared.spans_count, prepared.rejected_count) == (spans_count, 0)


def test_spans_with_repairs_are_counted() -> None:
    before = REPAIRED_SPANS._value.get()
    chunk = chunk_of(in_all_encodings(otlp_request(name=BYTES)))

    count_records(records_of(chunk, decode_chunk(chunk, RULES)))

    assert REPAIRED_SPANS._value.get() - before == 3


def test_masking_sees_the_repaired_text() -> None:
    rule = MaskRule(MaskAction.REDACT, None, "a\N{REPLACEMENT CHARACTER}b", tuple(MaskPlace))
    key = MaskRule(MaskAction.REDACT, "*.password", None, tuple(MaskPlace))
    masks = pack({DEFAULT_PROJECT_ID: ProjectRules((rule, key), b"k" * 32)})
    deep = AnyValue(string_value="S3cret")
    for level in range(26):
        inner, deep = deep, AnyValue()
        deep.kvlist_value.values.add(key="k" if level else "password").value.CopyFrom(inner)
    request = otlp_request(name="a\0b", attributes={"a\0b": AnyValue(string_value="x"), "deep": deep})
    topics = {"t": DEFAULT_PROJECT_ID}

    decoded = decode_chunk(chunk_of(in_all_encodings(request), masking=Masking(masks, topics)), RULES)

    for [row] in rows(decoded):
        assert row["name"] == "[masked]"
        assert json.loads(row["repaired"]) == ["span_name", "attributes.[masked]", "attributes.deep" + ".k" * 24]
        assert "S3cret" not in repr(row)
    assert len(rows(decoded)) == 3


def otlp_request(name: str = "chat", attributes: dict[str, AnyValue] | None = None) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name=name)
    span.trace_id, span.span_id = b"\1" * 16, b"\2" * 8
    span.start_time_unix_nano = span.end_time_unix_nano = NOW_NS
    for key, value in (attributes or {}).items():
        span.attributes.add(key=key).value.CopyFrom(value)
    return request
