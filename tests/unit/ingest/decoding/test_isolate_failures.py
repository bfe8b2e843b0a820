"""What Clearspan itself fails on: a defect of ours costs the spans that show it."""

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
    """The names of the spans that each record has rows of, and its refusals."""
    chunk = Chunk(
        [Record("t", 0, at, 5, None, value) for at, value in enumerate(values)], {Partition("t", 0): "c/t/0"}, START_NS
    )
    found: DecodedChunk = decode_chunk(chunk, RULES)
    records = list(records_of(chunk, found))
    names = [each.rows["name"][each.first_row : each.first_row + each.outcome.rows_count] for each in records]
    return [each.to_pylist() for each in names], [each.outcome.rejections.in_full for each in records]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Sequence[Span]], bool]], None]:
    """Lets what is derived from spans fail where a condition on them holds."""

    def fail_where(fails: Callable[[Sequence[Span]], bool], *, error: type[Exception] = KeyError) -> None:
        def normalise_or_fail(spans: Sequence[Span], *rest: Any) -> Any:
            if fails(spans):
                raise error("a defect")
            return normalize(spans, *rest)

        monkeypatch.setattr("ingest.decoding.chunk.normalize", normalise_or_fail)

    return fail_where


def named(name: str) -> Callable[[Sequence[Span]], bool]:
    return lambda spans: any(span.name == name for span in spans)


def test_a_span_that_it_fails_on_is_refused_alone(failing: Any) -> None:
    failing(named("poison"))

    names, refusals = decoded(request(["a"]), request(["b", "poison", "bad", "c"], absurd=["bad"]), request(["d"]))

    assert names == [["a"], ["b", "c"], ["d"]]
    assert [[(each.span_index, each.code) for each in of_record] for of_record in refusals] == [
        [],
        [(2, RejectionCode.ABSURD_TIME), (1, RejectionCode.OUR_FAILURE)],
        [],
    ]
    assert refusals[1][1].reason.startswith(
        "Clearspan failed on it, which is a defect of Clearspan: KeyError, “'a defect'”"
    )
    assert "test_isolate_failures.py, line" in refusals[1][1].reason


def test_spans_that_it_fails_on_together_are_refused_together(failing: Any) -> None:
    failing(lambda spans: named("one")(spans) and named("other")(spans))

    names, refusals = decoded(request(["one", "a", "other"]), request(["one"]))

    assert names == [[], ["one"]]
    assert [each.span_index for each in refusals[0]] == [0, 1, 2]


def test_one_span_of_many_is_found_by_halving(failing: Any) -> None:
    tries: list[int] = []

    def fails(spans: Sequence[Span]) -> bool:
        tries.append(len(spans))
        return named("s700")(spans)

    failing(fails)

    names, refusals = decoded(request([f"s{number}" for number in range(1_000)]))

    assert (len(names[0]), [each.span_index for each in refusals[0]]) == (999, [700])
    assert len(tries) < 40


def test_a_record_that_cannot_be_opened_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    poison = request(["poison"])

    def decode_or_fail(record: Record, **rest: Any) -> Any:
        if record.value == poison:
            raise ZeroDivisionError
        return decode(record, **rest)

    monkeypatch.setattr("ingest.decode.decode", decode_or_fail)

    names, refusals = decoded(request(["a"]), poison, request(["b"]))

    assert names == [["a"], [], ["b"]]
    assert [(each.span_index, each.code) for each in refusals[1]] == [(None, RejectionCode.OUR_FAILURE)]


def test_memory_that_runs_out_is_no_fault_of_a_span(failing: Any) -> None:
    failing(named("poison"), error=MemoryError)

    with pytest.raises(MemoryError):
        decoded(request(["poison"]))
