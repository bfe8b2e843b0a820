"""Records whose values vary as those of real services do: the sets of the performance table.

- ``plain``: a service without an instrumentation of models. 11 attributes of mixed cardinality: a method of 4, a status
  of 5, a route of 50, an address, a URL and an id that hardly repeat, six words of 3,000. About 460 bytes per span.
- ``llm``: calls of a model with the attributes of OpenInference and GenAI, a prompt and an answer of words that no other
  span has in this order. About 2.0 KB per span.
- ``instrumentations``: the samples of real instrumentations in ``tests/data/samples``, one after the other, with new ids
  and times. Their texts repeat.

Ten spans per trace in the first two, one resource per record, starts 3 ms apart and ending at ``end_ns`` (by default
now). Deterministic: the same arguments give the same bytes. ``python -m bench.varied SET SPANS`` prints the sizes.

The first two sets are encoded by hand: a span takes 19 and 70 µs instead of 40 and 150 µs with the classes of protobuf.
Making a million takes part of every measurement, and a sender shares the processor with what it measures.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any, Final, Protocol

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.records import SAMPLE, SPANS_PER_TRACE, renewed, spans_of
from common.codec.protobuf_cut import encode_varint

STEP_NS: Final = 3_000_000
JITTER_NS: Final = 1_000_000
DURATION_NS_MAX: Final = 1_000_000_000
SPANS_PER_RECORD: Final = 500
SERVICES: Final = 10
ROUTES: Final = 50
USERS: Final = 100
SESSIONS: Final = 2_000
MODELS: Final = ("gpt-4o", "gpt-4o-mini", "claude-3-5-sonnet", "gemini-1.5-pro", "llama-3-70b")
NO_INSTRUMENTATION: Final = ("plain-sdk", "telemetrygen")
"""Samples of spans that no instrumentation of models wrote."""

Draw = random.Random


def _vocabulary(words_count: int) -> list[str]:
    draw = Draw(7)
    syllables = [consonant + vowel for consonant in "bcdfghklmnprstvz" for vowel in "aeiou"]
    return ["".join(draw.choices(syllables, k=draw.randrange(2, 5))) for _ in range(words_count)]


WORDS: Final = _vocabulary(3_000)


def words(draw: Draw, count: int) -> str:
    """Return words with spaces between them."""
    return " ".join(draw.choices(WORDS, k=count))


_LENGTHS: Final = [encode_varint(number) for number in range(8_192)]


def _sized(tag: bytes, content: bytes) -> bytes:
    """Return a field of protobuf that holds a text, bytes or a message."""
    size = len(content)
    return tag + (_LENGTHS[size] if size < len(_LENGTHS) else encode_varint(size)) + content


class _Key:
    """The key of an attribute of a span."""

    def __init__(self, name: str, *, tag: bytes = b"\x4a") -> None:
        self._tag = tag
        self._start = _sized(b"\x0a", name.encode())

    def text(self, value: str) -> bytes:
        """Return the encoded attribute with a text."""
        return _sized(self._tag, self._start + _sized(b"\x12", _sized(b"\x0a", value.encode())))

    def number(self, value: int) -> bytes:
        """Return the encoded attribute with a number that is not negative."""
        return _sized(self._tag, self._start + _sized(b"\x12", b"\x18" + encode_varint(value)))


_METHODS: Final = [_Key("http.method").text(method) for method in ("GET", "POST", "PUT", "DELETE")]
_STATUSES: Final = [_Key("http.status_code").number(status) for status in [200] * 16 + [201, 301, 404, 500]]
_ROUTES: Final = [_Key("http.route").text(f"/api/v1/resource{number}/{{id}}") for number in range(ROUTES)]
_URL: Final = _Key("http.url")
_PEER: Final = _Key("net.peer.ip")
_PORT: Final = _Key("net.peer.port")
_USERS: Final = [_Key("user.id").text(f"user-{number:03d}") for number in range(USERS)]
_REQUEST: Final = _Key("request.id")
_REGIONS: Final = [_Key("cloud.region").text(f"region-{number}") for number in range(8)]
_LOG: Final = _Key("log.text")
_SIZE: Final = _Key("http.response_size")


def _plain_attributes(draw: Draw) -> bytes:
    below, resource = draw.random, draw.randrange(ROUTES)
    path = f"/api/v1/resource{resource}/{int(below() * 1_000_000)}?page={int(below() * 100)}"
    return b"".join(
        (
            _METHODS[int(below() * len(_METHODS))],
            _STATUSES[int(below() * len(_STATUSES))],
            _ROUTES[resource],
            _URL.text(f"https://svc{int(below() * 20)}.example.com{path}"),
            _PEER.text(f"10.{int(below() * 4)}.{int(below() * 256)}.{int(below() * 256)}"),
            _PORT.number(1_024 + int(below() * 64_512)),
            _USERS[int(below() * USERS)],
            _REQUEST.text(f"{draw.getrandbits(64):016x}"),
            _REGIONS[int(below() * len(_REGIONS))],
            _LOG.text(words(draw, 6)),
            _SIZE.number(200 + int(below() * 199_800)),
        )
    )


_CONSTANT: Final = b"".join(
    _Key(key).text(value)
    for key, value in {
        "openinference.span.kind": "LLM",
        "llm.provider": "openai",
        "llm.system": "openai",
        "gen_ai.operation.name": "chat",
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
        "llm.input_messages.1.message.role": "user",
    }.items()
)
_MODELS: Final = [
    (model, _Key("llm.model_name").text(model) + _Key("gen_ai.request.model").text(model)) for model in MODELS
]
_PARAMETERS: Final = _Key("llm.invocation_parameters")
_INPUT: Final = _Key("input.value")
_OUTPUT: Final = _Key("output.value")
_MESSAGES: Final = _Key("gen_ai.input.messages")
_PROMPT: Final = (_Key("llm.token_count.prompt"), _Key("gen_ai.usage.input_tokens"))
_COMPLETION: Final = (_Key("llm.token_count.completion"), _Key("gen_ai.usage.output_tokens"))
_TOTAL: Final = _Key("llm.token_count.total")
_SESSIONS: Final = [_Key("session.id").text(f"session-{number}") for number in range(SESSIONS)]


def _llm_attributes(draw: Draw) -> bytes:
    question, (model, model_attributes) = words(draw, 25), draw.choice(_MODELS)
    prompt, completion = draw.randrange(100, 2_000), draw.randrange(20, 800)
    system, user = {"role": "system", "content": words(draw, 30)}, {"role": "user", "content": question}
    answer = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": words(draw, 45)}}
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    response = {"id": f"chatcmpl-{draw.getrandbits(64):x}", "choices": [answer], "usage": usage}
    parts = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
    parameters = {"temperature": draw.random(), "max_tokens": 1_024, "top_p": 1}
    return b"".join(
        (
            _CONSTANT,
            model_attributes,
            _PARAMETERS.text(json.dumps(parameters)),
            _INPUT.text(json.dumps({"messages": [system, user], "model": model})),
            _OUTPUT.text(json.dumps(response)),
            _MESSAGES.text(json.dumps(parts)),
            *(key.number(prompt) for key in _PROMPT),
            *(key.number(completion) for key in _COMPLETION),
            _TOTAL.number(prompt + completion),
            draw.choice(_SESSIONS),
            draw.choice(_USERS),
        )
    )


_IDS: Final = struct.Struct("<2s16s2s8s")
_TIMES: Final = struct.Struct("<cQcQ")
_NAMES: Final = [
    _sized(b"\x2a", f"operation-{number}".encode()) + b"\x30" for number in range(SPANS_PER_TRACE)
]  # followed by the kind
_RESOURCES: Final = [
    _sized(b"\x0a", _Key("service.name", tag=b"\x0a").text(f"service-{number}")) for number in range(SERVICES)
]
_SCOPE: Final = _sized(b"\x0a", _sized(b"\x0a", b"bench"))


def _spans(draw: Draw, first: int, last: int, begin_ns: int, attributes: Callable[[Draw], bytes]) -> Iterator[bytes]:
    """Yield spans as fields of a scope. A trace does not cross records: its ids are drawn with its first span."""
    parent = trace_id = b""
    for number in range(first, last):
        span_id, in_trace = draw.randbytes(8), number % SPANS_PER_TRACE
        if in_trace == 0 or number == first:
            trace_id, parent = draw.randbytes(16), b""
        start_ns = begin_ns + number * STEP_NS + draw.randrange(JITTER_NS)
        span = b"".join(
            (
                _IDS.pack(b"\x0a\x10", trace_id, b"\x12\x08", span_id),
                parent,
                _NAMES[in_trace],
                encode_varint(1 + number % 5),
                _TIMES.pack(b"\x39", start_ns, b"\x41", start_ns + draw.randrange(DURATION_NS_MAX)),
                attributes(draw),
            )
        )
        parent = parent or b"\x22\x08" + span_id
        yield _sized(b"\x12", span)


def _records(
    attributes: Callable[[Draw], bytes], spans_count: int, spans_per_record: int, seed: int, end_ns: int | None
) -> Iterator[bytes]:
    draw = Draw(seed)
    begin_ns = (time.time_ns() if end_ns is None else end_ns) - spans_count * STEP_NS
    for number, first in enumerate(range(0, spans_count, spans_per_record)):
        last = min(first + spans_per_record, spans_count)
        spans = _SCOPE + b"".join(_spans(draw, first, last, begin_ns, attributes))
        yield _sized(b"\x0a", _RESOURCES[number % SERVICES] + _sized(b"\x12", spans))


class RecordSet(Protocol):
    """A function that yields OTLP protobuf records of a set."""

    def __call__(
        self,
        spans_count: int,
        /,
        *,
        spans_per_record: int = SPANS_PER_RECORD,
        seed: int = 1,
        end_ns: int | None = None,
    ) -> Iterator[bytes]: ...


def plain_records(
    spans_count: int, /, *, spans_per_record: int = SPANS_PER_RECORD, seed: int = 1, end_ns: int | None = None
) -> Iterator[bytes]:
    """Yield records of the set ``plain``."""
    return _records(_plain_attributes, spans_count, spans_per_record, seed, end_ns)


def llm_records(
    spans_count: int, /, *, spans_per_record: int = SPANS_PER_RECORD, seed: int = 1, end_ns: int | None = None
) -> Iterator[bytes]:
    """Yield records of the set ``llm``."""
    return _records(_llm_attributes, spans_count, spans_per_record, seed, end_ns)


def instrumentation_records(
    spans_count: int, /, *, spans_per_record: int = SPANS_PER_RECORD, seed: int = 1, end_ns: int | None = None
) -> Iterator[bytes]:
    """Yield records of the samples of instrumentations, with at least ``spans_per_record`` spans each but the last."""
    draw = Draw(seed)
    begin_ns = (time.time_ns() if end_ns is None else end_ns) - spans_count * STEP_NS
    samples = cycle(_samples())
    record, in_record, count = ExportTraceServiceRequest(), 0, 0
    while count < spans_count:
        sample = next(samples)
        sample_spans = list(spans_of(sample))
        earliest_ns = min(span.start_time_unix_nano for span in sample_spans)
        record.MergeFrom(renewed(sample, begin_ns + count * STEP_NS - earliest_ns, draw))
        count, in_record = count + len(sample_spans), in_record + len(sample_spans)
        if in_record >= spans_per_record or count >= spans_count:
            yield record.SerializeToString()
            record, in_record = ExportTraceServiceRequest(), 0


def _samples() -> list[ExportTraceServiceRequest]:
    paths = sorted(SAMPLE.parent.glob("*.otlp_proto.bin"))
    return [
        ExportTraceServiceRequest.FromString(path.read_bytes())
        for path in paths
        if not path.name.startswith(NO_INSTRUMENTATION)
    ]


SETS: Final[Mapping[str, RecordSet]] = {
    "plain": plain_records,
    "llm": llm_records,
    "instrumentations": instrumentation_records,
}


def count_spans(records: Iterator[bytes]) -> int:
    """Return how many spans the records hold."""
    return sum(1 for record in records for _ in spans_of(ExportTraceServiceRequest.FromString(record)))


def main(name: str, spans_count: int) -> None:
    """Print the sizes of a set and how long it takes to make."""
    started_s = time.process_time()
    records = list(SETS[name](spans_count))
    took_s = time.process_time() - started_s
    spans = count_spans(iter(records))
    result: dict[str, Any] = {
        "set": name,
        "spans": spans,
        "records": len(records),
        "bytes_per_span": round(sum(map(len, records)) / spans),
        "cpu_us_per_span": round(took_s / spans * 1e6, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.varied", description=__doc__)
    parser.add_argument("set", choices=sorted(SETS), help="which spans")
    parser.add_argument("spans", type=int, help="how many")
    arguments = parser.parse_args()
    main(arguments.set, arguments.spans)
