"""From a Kafka record to spans: which encoding it is in, and that encoding's codec (contract §4).

The formats themselves live in ``common/codec``. A tombstone and an empty value are records without spans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from common.codec import otlp_json, otlp_protobuf, span_json
from common.codec.checks import shown
from common.codec.decoded import Decoded, Rejections
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.kafka.record import Record
from common.limits import SpanLimits
from common.record_headers import CONTENT_TYPE_HEADER, ENCODINGS
from common.settings import Encoding


class _Decode(Protocol):
    def __call__(self, value: bytes, *, limits: SpanLimits, now_ns: int) -> Decoded: ...


class _Codec(NamedTuple):
    decode: _Decode
    lay_out: Callable[[bytes], Layout]


_CODECS: Final = {
    Encoding.OTLP_PROTO: _Codec(otlp_protobuf.decode, otlp_protobuf.lay_out),
    Encoding.OTLP_JSON: _Codec(otlp_json.decode, otlp_json.lay_out),
    Encoding.SPAN_JSON: _Codec(span_json.decode, span_json.lay_out),
}


def decode(record: Record, *, encoding: Encoding, limits: SpanLimits, now_ns: int) -> Decoded:
    """The spans of a record, and a refusal for each that cannot be kept.

    ``encoding`` is the topic's; the header ``content-type`` wins over it. Raises ``Rejected`` when the record as a whole
    cannot be read: unknown content type, too large, undecodable.
    """
    if not record.value:
        return Decoded([], [], Rejections())
    written = encoding_of(record, encoding)
    if written is Encoding.SPAN_JSON:  # the only one in which a span may have no time
        sent_ns = record.timestamp_ms * 1_000_000
        return span_json.decode(record.value, limits=limits, now_ns=now_ns, sent_ns=sent_ns)
    return _CODECS[written].decode(record.value, limits=limits, now_ns=now_ns)


def lay_out(record: Record, encoding: Encoding) -> Layout:
    """Where the spans of a record lie. Raises as ``decode`` does."""
    return _CODECS[encoding_of(record, encoding)].lay_out(record.value or b"")


def encoding_of(record: Record, encoding: Encoding) -> Encoding:
    """What the record's header says, else ``encoding``. Parameters of the content type and its case do not matter."""
    header = record.header(CONTENT_TYPE_HEADER)
    if header is None:
        return encoding
    content_type = header.decode("latin-1").partition(";")[0].strip().lower()
    found = ENCODINGS.get(content_type)
    if found is None:
        raise Rejected(
            RejectionCode.UNSUPPORTED_CONTENT_TYPE,
            f"The content type is {shown(content_type)}; it takes {', '.join(ENCODINGS)}.",
        )
    return found
