"""A defect of Clearspan rejects only the spans that trigger it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from common.codec.decoded import Rejection
from common.errors import RejectionCode
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from common.span import Span
from ingest.decode import Rules, decode
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk, records_of
from ingest.normalize import normalize
from tests.support.otlp import START_NS, request

RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)


def decoded(*values: bytes) -> tuple[list[list[str]], list[Sequence[Rejection]]]:
    """Return for each record the names of the spans that have rows, and its rejections."""
    chunk = Chunk(
        [Record("t", 0, at, 5, None, value) for at, value in enumerate(values)], {Partition("t", 0): "c/t/0"}, START_NS
    )
    found: DecodedChunk = decode_chunk(chunk, RULES)
    records = list(records_of(chunk, found))
    names = [record.rows["name"][record.first_row : record.first_row + record.outcome.rows_count] for record in records]
    return [name.to_pylist() for name in names], [record.outcome.rejections.in_full for record in records]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Sequence[Span]], bool]], None]:
    """Let ``normalize`` fail for spans that meet a condition."""

    def fail_where(fails: Callable[[Sequence[Span]], bool], *, error: type[Exception] = KeyError) -> None:
        def normalize_or_fail(spans: Sequence[Span], *rest: Any) -> Any:
            if fails(spans):
                raise error("a defect")
            return normalize(spans, *rest)

        monkeypatch.setattr("ingest.decoding.chunk.normalize", normalize_or_fail)

    return fail_where


def named(name: str) -> Callable[[Sequence[Span]], bool]:
    return lambda spans: any(span.name == name for span in spans)


def test_span_that_fails_is_rejected_alone(failing: Any) -> None:
    failing(named("poison"))

    names, rejections = decoded(request(["a"]), request(["b", "poison", "bad", "c"], absurd=["bad"]), request(["d"]))

    assert names == [["a"], ["b", "c"], ["d"]]
    assert [[(rejection.span_index, rejection.code) for rejection in of_record] for of_record in rejections] == [
        [],
        [(2, RejectionCode.ABSURD_TIME), (1, RejectionCode.OUR_FAILURE)],
        [],
    ]
    assert rejections[1][1].reason.startswith(
        "Clearspan failed on it, which is a defect of Clearspan: KeyError, “'a defect'”"
    )
    assert "test_isolate_failures.py, line" in rejections[1][1].reason


def test_spans_that_fail_only_together_are_rejected_together(failing: Any) -> None:
    failing(lambda spans: named("one")(spans) and named("other")(spans))

    names, rejections = decoded(request(["one", "a", "other"]), request(["one"]))

    assert names == [[], ["one"]]
    assert [rejection.span_index for rejection in rejections[0]] == [0, 1, 2]


def test_failing_span_of_many_is_found_by_halving(failing: Any) -> None:
    tries: list[int] = []

    def fails(spans: Sequence[Span]) -> bool:
        tries.append(len(spans))
        return named("s700")(spans)

    failing(fails)

    names, rejections = decoded(request([f"s{number}" for number in range(1_000)]))

    assert (len(names[0]), [rejection.span_index for rejection in rejections[0]]) == (999, [700])
    assert len(tries) < 40


def test_record_whose_decoding_fails_is_rejected_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    poison = request(["poison"])

    def decode_or_fail(record: Record, **rest: Any) -> Any:
        if record.value == poison:
            raise ZeroDivisionError
        return decode(record, **rest)

    monkeypatch.setattr("ingest.decode.decode", decode_or_fail)

    names, rejections = decoded(request(["a"]), poison, request(["b"]))

    assert names == [["a"], [], ["b"]]
    assert [(rejection.span_index, rejection.code) for rejection in rejections[1]] == [
        (None, RejectionCode.OUR_FAILURE)
    ]


def test_memory_error_rejects_no_span(failing: Any) -> None:
    failing(named("poison"), error=MemoryError)

    with pytest.raises(MemoryError):
        decoded(request(["poison"]))
