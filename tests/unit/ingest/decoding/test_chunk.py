"""Rows and outcomes of a chunk: the record of each row, claimed projects, and what is rejected alone."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from common.codec.decoded import IN_FULL_MAX, Rejection
from common.errors import RejectionCode
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from common.span import Span
from common.span_version import version_of
from ingest.codecs import decode
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk, records_of
from ingest.normalize import normalize
from tests.support.attributes import attributes_of
from tests.support.otlp import START_NS, request

RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
PROJECT = UUID(int=7)


def chunk(*values: bytes | None) -> Chunk:
    records = [Record("t", at % 2, at, 5, None, value) for at, value in enumerate(values)]
    return Chunk(records, {Partition("t", 0): "c/t/0", Partition("t", 1): "c/t/1"}, START_NS)


def test_each_record_has_its_own_rows() -> None:
    given = chunk(request(["a", "b"]), None, b"\xff\xff", request(["bad", "c"], absurd=["bad"]), request([]))

    decoded = decode_chunk(given, RULES)

    records = list(records_of(given, decoded))
    rows = [record.rows["name"][record.first_row : record.first_row + record.outcome.rows_count] for record in records]
    assert [row.to_pylist() for row in rows] == [["a", "b"], [], [], ["c"], []]
    assert [record.record.offset for record in records] == [0, 1, 2, 3, 4]
    assert [record.partition_id for record in records] == ["c/t/0", "c/t/1", "c/t/0", "c/t/1", "c/t/0"]
    assert [record.outcome.is_undecodable for record in records] == [False, False, True, False, False]
    assert decoded.rows["partition_id"].to_pylist() == [b"c/t/0", b"c/t/0", b"c/t/1"]
    assert decoded.rows["version"].to_pylist() == [version_of(0), version_of(0), version_of(3)]


def test_records_share_the_memory_of_the_rows_by_their_size() -> None:
    decoded = decode_chunk(chunk(request(["a"] * 1), request([f"s{n}" for n in range(50)]), None), RULES)

    small, large, none = (outcome.bytes_count for outcome in decoded.outcomes)
    assert none == 0 < small < large
    assert decoded.rows.nbytes - 3 <= small + large <= decoded.rows.nbytes


def test_rejected_spans_of_a_shared_dead_letter_count_too() -> None:
    names = [f"s{n}" for n in range(2_000)]

    outcome = decode_chunk(chunk(request(names, absurd=names)), RULES).outcomes[0]

    letters_bytes = sum(len(dead_letter.value) for dead_letter in outcome.dead_letters)
    assert outcome.bytes_count >= letters_bytes + 4 * (2_000 - IN_FULL_MAX)


def test_claimed_projects_are_those_of_the_rows() -> None:
    given = chunk(request(["a"], project=str(PROJECT)), request(["b"]), request(["bad"], absurd=["bad"]))

    assert decode_chunk(given, RULES).claimed == {PROJECT, DEFAULT_PROJECT_ID}


def test_decoding_without_a_project_rejects_only_its_spans() -> None:
    given = chunk(request(["a"], project=str(PROJECT)), request(["b"]))

    decoded = decode_chunk(given.rejecting(frozenset({PROJECT})), RULES)

    assert decoded.rows["name"].to_pylist() == ["b"]
    assert decoded.claimed == {DEFAULT_PROJECT_ID}
    ((rejection,), ()) = (outcome.rejections.in_full for outcome in decoded.outcomes)
    assert (rejection.span_index, rejection.code) == (0, RejectionCode.UNKNOWN_PROJECT)


def test_excluded_projects_add_up() -> None:
    twice = chunk().rejecting(frozenset({PROJECT})).rejecting(frozenset({DEFAULT_PROJECT_ID}))

    assert twice.unknown == {PROJECT, DEFAULT_PROJECT_ID}


@pytest.mark.parametrize("value", [b"\xff\xff", request(["a"])])
def test_chunk_and_result_can_be_pickled(value: bytes) -> None:
    given = chunk(value)
    outcomes = decode_chunk(given, RULES).outcomes

    assert pickle.loads(pickle.dumps((given, RULES, outcomes))) == (given, RULES, outcomes)


def test_trace_of_two_projects_is_two_traces() -> None:
    spans = [
        used_five(1, PROJECT),
        used_five(2, DEFAULT_PROJECT_ID, parent=1, links=[]),
        used_five(3, PROJECT, parent=1),
    ]
    value = json.dumps({"spans": spans}).encode()
    record = Record("t", 0, 0, 5, None, value, (("content-type", b"application/vnd.clearspan.span+json"),))

    rows = decode_chunk(Chunk([record], {Partition("t", 0): "c/t/0"}, START_NS), RULES).rows

    tokens = [json.loads(text)["ag"]["metrics"]["tokens"] for text in attributes_of(rows)]
    assert [token["cumulative"]["total"] for token in tokens] == [10, 5, 5]
    assert rows["trace_type"].to_pylist() == ["invocation", "annotation", "invocation"]


def used_five(number: int, project: UUID, **members: Any) -> dict[str, Any]:
    if "parent" in members:
        members["parent_id"] = f"{members.pop('parent'):016x}"
    return {
        "trace_id": "a" * 32,
        "span_id": f"{number:016x}",
        "start_time_unix_nano": str(START_NS),
        "attributes": {"ag.metrics.tokens.incremental.total": 5},
        "resource": {"attributes": {"project.id": str(project)}},
        **members,
    }


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
    """Let ``normalize`` fail for spans that meet a condition, and reading together for all."""

    def fail_where(fails: Callable[[Sequence[Span]], bool], *, error: type[Exception] = KeyError) -> None:
        def normalize_or_fail(spans: Sequence[Span], *rest: Any) -> Any:
            if fails(spans):
                raise error("a defect")
            return normalize(spans, *rest)

        def fail(*_given: Any, **_options: Any) -> Any:
            raise error("a defect")

        monkeypatch.setattr("ingest.decoding.chunk.normalize", normalize_or_fail)
        monkeypatch.setattr("ingest.decoding.chunk.read_together", fail)

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
    assert "test_chunk.py, line" in rejections[1][1].reason


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

    monkeypatch.setattr("common.codec.otlp_columns.ptars", None)
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
