"""From the value of a Kafka record to what it holds: the codec for its signal and encoding.

The formats are in ``common/codec``. The records of a topic whose signal is logs hold log records, of which those of
known agents become spans (``common/log_kinds.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from common.codec import logs_json, logs_protobuf, otlp_json, otlp_protobuf, span_json
from common.codec.checks import shown
from common.codec.decoded import Decoded, DecodedLogs, Rejections
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.kafka.record import (
    CONTENT_TYPE_HEADER,
    CONTENT_TYPES,
    ENCODINGS,
    UNREAD_BATCH_HEADER,
    Encoding,
    Record,
    Signal,
)
from common.limits import SpanLimits
from common.log_kinds import keep_logs
from common.log_record import LogRecord
from common.log_refusals import LogRefusal

UNREAD_BATCH: Final = (
    "Its batch is too large when it is decompressed, so none of its records was read; the value names their offsets."
)


class _CodecModule(Protocol):
    """What a module of ``common/codec`` has: one per encoding."""

    def decode(self, value: bytes, *, limits: SpanLimits, now_ns: int) -> Decoded: ...

    def lay_out(self, value: bytes) -> Layout: ...


_CODECS: Final[Mapping[Encoding, _CodecModule]] = {
    Encoding.OTLP_PROTO: otlp_protobuf,
    Encoding.OTLP_JSON: otlp_json,
    Encoding.SPAN_JSON: span_json,
}


class _LogCodecModule(Protocol):
    """The same for log records."""

    def decode(self, value: bytes, *, limits: SpanLimits, now_ns: int) -> DecodedLogs: ...

    def lay_out(self, value: bytes) -> Layout: ...


_LOG_CODECS: Final[Mapping[Encoding, _LogCodecModule]] = {
    Encoding.OTLP_PROTO: logs_protobuf,
    Encoding.OTLP_JSON: logs_json,
}


def decode(record: Record, *, encoding: Encoding, limits: SpanLimits, now_ns: int) -> Decoded:
    """Return the spans of a record, and a rejection for each span that cannot be kept.

    ``encoding`` is that of the topic; the header ``content-type`` overrides it. Raises ``Rejected`` if the record as a
    whole cannot be read: unknown content type, too large, undecodable.
    """
    if not record.value:
        return Decoded([], [], Rejections())
    _check_is_read(record)
    sent_encoding = encoding_of(record, encoding)
    if sent_encoding is Encoding.SPAN_JSON:  # the only encoding in which a span may have no time
        sent_ns = record.timestamp_ms * 1_000_000
        return span_json.decode(record.value, limits=limits, now_ns=now_ns, sent_ns=sent_ns)
    return _CODECS[sent_encoding].decode(record.value, limits=limits, now_ns=now_ns)


class ReadLogs(NamedTuple):
    """What a record of log records holds: spans of agents, events of spans with their indexes, what is refused."""

    spans: Decoded
    events: Sequence[tuple[LogRecord, int]]
    refused: Mapping[LogRefusal, int]


def decode_logs(record: Record, *, encoding: Encoding, limits: SpanLimits, now_ns: int) -> ReadLogs:
    """Return what is kept of a record with log records. Raises like ``decode``."""
    _check_is_read(record)
    decoded = _log_codec(record, encoding).decode(record.value or b"", limits=limits, now_ns=now_ns)
    kept = keep_logs(decoded)
    spans = Decoded(kept.spans, kept.span_indexes, decoded.rejections, decoded.base64_ids_count, layout=decoded.layout)
    return ReadLogs(spans, kept.events, kept.refusals.counts)


def lay_out(record: Record, encoding: Encoding, signal: Signal = Signal.TRACES) -> Layout:
    """Return where the spans, or log records, of a record lie. Raises like ``decode``."""
    value = record.value or b""
    if signal is Signal.LOGS:
        return _log_codec(record, encoding).lay_out(value)
    return _CODECS[encoding_of(record, encoding)].lay_out(value)


def _check_is_read(record: Record) -> None:
    if record.header(UNREAD_BATCH_HEADER) is not None:
        raise Rejected(RejectionCode.RECORD_TOO_LARGE, UNREAD_BATCH)


def _log_codec(record: Record, encoding: Encoding) -> _LogCodecModule:
    sent_encoding = encoding_of(record, encoding)
    codec = _LOG_CODECS.get(sent_encoding)
    if codec is None:
        allowed = ", ".join(CONTENT_TYPES[each] for each in _LOG_CODECS)
        raise Rejected(
            RejectionCode.UNSUPPORTED_CONTENT_TYPE,
            f"The content type is {shown(CONTENT_TYPES[sent_encoding])}; allowed for log records: {allowed}.",
        )
    return codec


def count_logs(record: Record, encoding: Encoding) -> int:
    """Return how many log records a record has; 1 if that is not known."""
    try:
        return len(lay_out(record, encoding, Signal.LOGS).spans)
    except Rejected:
        return 1


def encoding_of(record: Record, encoding: Encoding) -> Encoding:
    """Return the encoding in the record's header, else ``encoding``. Ignore case and parameters of the content type."""
    header = record.header(CONTENT_TYPE_HEADER)
    if header is None:
        return encoding
    content_type = header.decode("latin-1").partition(";")[0].strip().lower()
    found = ENCODINGS.get(content_type)
    if found is None:
        raise Rejected(
            RejectionCode.UNSUPPORTED_CONTENT_TYPE,
            f"The content type is {shown(content_type)}; allowed: {', '.join(ENCODINGS)}.",
        )
    return found
