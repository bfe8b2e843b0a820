from __future__ import annotations

import weakref
from collections.abc import Sequence
from uuid import UUID

import pytest

from common.codec.decoded import Rejection
from common.errors import RejectionCode
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from ingest.batch import RECORD_BYTES, FlushPolicy, LastFlush, SpanBatch
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, decode_chunk, records_of
from tests.support.otlp import START_NS, request

RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
NEVER = LastFlush()


def filled(*requests: bytes, first_offset: int = 0, partition_id: str = "c/t/0", now_s: float = 0.0) -> SpanBatch:
    records = [Record("t", 0, offset, 5, None, value) for offset, value in enumerate(requests, first_offset)]
    chunk = Chunk(records, {Partition("t", 0): partition_id}, START_NS)
    batch = SpanBatch()
    for record in records_of(chunk, decode_chunk(chunk, RULES)):
        batch.add(record, now_s=now_s)
    return batch


def test_the_same_records_give_the_same_token() -> None:
    values = [request(["a"]), request(["b", "c"])]

    assert filled(*values).dedup_token == filled(*values).dedup_token


def test_records_that_take_the_offsets_of_lost_ones_give_another_token() -> None:
    """After a truncation of the log: the engine would drop them as a repetition."""
    at = Partition("t", 0)

    def token(timestamps_ms: Sequence[int]) -> str:
        records = [Record("t", 0, offset, ms, None, request(["a"])) for offset, ms in enumerate(timestamps_ms)]
        chunk, batch = Chunk(records, {at: "c/t/0"}, START_NS), SpanBatch()
        for decoded in records_of(chunk, decode_chunk(chunk, RULES)):
            batch.add(decoded, now_s=0.0)
        return batch.dedup_token

    assert token([1, 2, 9]) == token([1, 2, 9])
    assert token([1, 2, 9]) != token([1, 3, 9])


def test_batch_does_not_keep_the_rows_of_its_chunks_besides_its_own() -> None:
    chunk = Chunk([Record("t", 0, 0, 1, None, request(["a"]))], {Partition("t", 0): "c/t/0"}, START_NS)
    decoded, batch = decode_chunk(chunk, RULES), SpanBatch()
    for record in records_of(chunk, decoded):
        batch.add(record, now_s=0.0)
    rows = weakref.ref(decoded.rows)
    del decoded, record

    assert rows() is not None
    batch.rows()

    assert rows() is None


def test_other_records_give_another_token() -> None:
    a, b = request(["a"]), request(["b"])
    tokens = {
        filled(a).dedup_token,
        filled(a, b).dedup_token,
        filled(a, first_offset=1).dedup_token,
        filled(a, partition_id="other/t/0").dedup_token,
        filled(request(["a", "b"])).dedup_token,
    }

    assert len(tokens) == 5


def test_batch_is_full_at_exactly_its_rows() -> None:
    policy = FlushPolicy(rows_max=2)

    assert not policy.is_full(filled(request(["a"])))
    assert policy.is_full(filled(request(["a"]), request(["b"])))


def test_batch_is_full_at_exactly_its_bytes() -> None:
    batch = filled(request(["a"]))

    assert FlushPolicy(bytes_max=batch.bytes_count).is_full(batch)
    assert not FlushPolicy(bytes_max=batch.bytes_count + 1).is_full(batch)


def test_records_without_spans_count_against_the_bytes() -> None:
    assert filled(b"").bytes_count == RECORD_BYTES


def test_batch_is_due_at_its_age_and_an_empty_one_never() -> None:
    policy = FlushPolicy(age_s_max=0.5)

    assert not policy.is_due(filled(request(["a"]), now_s=10.0), NEVER, now_s=10.4)
    assert policy.is_due(filled(request(["a"]), now_s=10.0), NEVER, now_s=10.5)
    assert policy.is_due(filled(b"", now_s=10.0), NEVER, now_s=10.5)
    assert not policy.is_due(SpanBatch(), NEVER, now_s=1e9)


def test_first_batch_after_a_pause_is_due_at_once() -> None:
    policy = FlushPolicy(age_s_max=0.5, share=0.25)

    assert policy.is_due(filled(request(["a"]), now_s=10.0), NEVER, now_s=10.0)
    assert policy.is_due(filled(request(["a"]), now_s=10.0), LastFlush(ended_s=8.0, took_s=0.5), now_s=10.0)


def test_batches_are_flushed_for_their_share_of_the_time() -> None:
    policy, batch = FlushPolicy(age_s_max=0.5, share=0.25), filled(request(["a"]), now_s=10.0)
    quick, slow = (LastFlush(ended_s=10.0, took_s=took_s) for took_s in (0.1, 0.5))

    assert policy.due_s(batch, quick) == pytest.approx(10.3)
    assert policy.due_s(batch, slow) == 10.5, "the age is a limit"


def test_batches_get_older_if_ingest_gives_way() -> None:
    policy, batch = FlushPolicy(age_s_max=0.5, share=0.1, is_patient=True), filled(request(["a"]), now_s=10.0)
    quick, slow = (LastFlush(ended_s=10.0, took_s=took_s) for took_s in (0.1, 0.5))

    assert policy.due_s(batch, quick) == pytest.approx(10.9)
    assert policy.due_s(batch, slow) == 12.0


def test_row_is_traced_to_its_record_and_span_index() -> None:
    batch = filled(request(["a", "b"]), b"", request(["bad", "c"], absurd=["bad"]))

    dead_letters = {
        (decoded.record.offset, dead_letter.rejection) for decoded, dead_letter in batch.dead_letters({2: "no"})
    }

    assert (2, Rejection(1, RejectionCode.REJECTED_BY_STORE, "no")) in dead_letters
    assert [(offset, rejection.span_index) for offset, rejection in sorted(dead_letters)] == [(2, 0), (2, 1)]


def test_resource_decides_the_project_of_its_spans() -> None:
    project = UUID(int=7)
    batch = filled(request(["a"], project=str(project)), request(["b"]))

    assert batch.rows().column("project_id").to_pylist() == [project.bytes, DEFAULT_PROJECT_ID.bytes]


def test_batch_waits_longer_during_a_backlog() -> None:
    policy, batch = FlushPolicy(age_s_max=0.5, share=0.25), filled(request(["a"]), now_s=10.0)

    assert policy.is_due(batch, NEVER, now_s=10.5)
    assert not policy.is_due(batch, NEVER, now_s=11.9, is_behind=True)
    assert policy.is_due(batch, NEVER, now_s=12.0, is_behind=True)
