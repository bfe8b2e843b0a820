"""Insert, dead-letter, commit: the order holds if a step fails, if partitions move and at the end."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from common.errors import InvalidStatement, Overloaded, RejectionCode, ServiceError, TooLarge, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import LostPartition, Partition, TopicReplaced
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from common.telemetry import LOST_BATCHES
from ingest.batch import FlushPolicy
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from ingest.decoding.decoder import ThreadDecoder
from ingest.joining.chunk import JoiningChunk
from ingest.policy import Dependencies, Policy
from ingest.worker import FLUSHING_POLL_S, Worker
from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.kafka import MemoryBroker, MemorySource
from tests.fakes.sink import RecordingSink
from tests.support.otlp import names_in, request

TOPIC = "otlp_spans"
DEAD = "spans.dead_letter"
PROJECT = UUID(int=7)

RULES = Rules({TOPIC: TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
POLICY = Policy(rules=RULES, flush=FlushPolicy(rows_max=100, age_s_max=0.01), poll_s_max=0.02, shutdown_grace_s=5.0)


class SomeProjects:
    """Knows one project; unavailable for the first ``faults_count`` lookups."""

    def __init__(self) -> None:
        self.faults_count = 0

    async def exists(self, project_id: UUID, /) -> bool:
        if self.faults_count:
            self.faults_count -= 1
            raise Unavailable("Postgres is unavailable.")
        return project_id == PROJECT


class Bench:
    """A worker on an in-memory broker, and a record of what it did."""

    def __init__(self, policy: Policy = POLICY, broker: MemoryBroker | None = None) -> None:
        self.broker = broker or MemoryBroker(partitions=2)
        self.sink = RecordingSink(self.broker.journal)
        self.dead_letters = MemoryDeadLetters(self.broker.journal)
        self.projects = SomeProjects()
        self.slept_s: list[float] = []
        self.source: MemorySource = self.broker.source(TOPIC)
        self.dependencies = Dependencies(
            source=self.source,
            decoder=ThreadDecoder(policy.rules),
            sinks=(self.sink,),
            positions=RecordingSink(),
            dead_letters=self.dead_letters,
            publisher=self.broker.publisher(),
            projects=self.projects,
            sleep=self._sleep,
        )
        self.worker = Worker(policy, self.dependencies)
        self.waits_red: list[dict[str, str]] = []

    @property
    def committed_count(self) -> int:
        """Records below the committed offsets."""
        return sum(self.broker.committed().values())

    async def _sleep(self, seconds: float) -> None:
        if seconds == 2.0:  # the interval of the watcher
            await asyncio.sleep(0.02)
            return
        self.slept_s.append(seconds)
        self.waits_red.append(self.dependencies.readiness.reasons)
        await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the worker inside the context; stop it and await its end on exit."""
        running = asyncio.create_task(self.worker.run())
        try:
            yield
        finally:
            self.worker.stop()
            async with asyncio.timeout(60):
                await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for is the effect of a loop that tells nobody
            await asyncio.sleep(0.001)


async def test_published_spans_are_stored_and_committed() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["a", "b"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == ["a", "b"]


async def test_batch_is_stored_then_dead_lettered_then_committed() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["good", "bad"], absurd=["bad"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.broker.journal == ["write", "dead letters", f"publish {DEAD}", "commit"]


@pytest.mark.parametrize("fault", [Unavailable("away"), Overloaded("busy", retry_after_s=3.0)])
async def test_transient_insert_failure_is_retried_with_the_same_token(fault: ServiceError) -> None:
    bench = Bench()
    bench.sink.faults.extend([fault, fault])
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert len(bench.sink.tokens) == 3
    assert len(set(bench.sink.tokens)) == 1
    assert bench.sink.names == ["a"]
    assert all("store" in red for red in bench.waits_red)
    if isinstance(fault, Overloaded):
        assert min(bench.slept_s) >= 3.0
    assert bench.dependencies.readiness.reasons == {}


async def test_nothing_is_dead_lettered_or_committed_before_the_insert() -> None:
    bench = Bench()
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["good", "bad"], absurd=["bad"]))

    async with bench.running():
        await asyncio.sleep(0.1)
        assert bench.broker.journal == []
        bench.sink.gate.set()


async def test_second_sink_stores_the_same_spans_before_anything_is_dead_lettered() -> None:
    bench = Bench()
    other = RecordingSink(bench.broker.journal)
    other.refused_names = {"b"}
    bench.dependencies = replace(bench.dependencies, sinks=(bench.sink, other))
    bench.worker = Worker(POLICY, bench.dependencies)
    await bench.broker.append(TOPIC, request(["a", "b"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert (bench.sink.names, other.names) == (["a", "b"], ["a"])
    assert bench.sink.tokens == other.tokens
    assert bench.broker.journal == ["write", "write", "dead letters", f"publish {DEAD}", "commit"]


async def test_position_is_recorded_once_after_every_sink_has_stored() -> None:
    bench = Bench()
    other = RecordingSink(bench.broker.journal)
    other.faults.append(Unavailable("away"))
    positions = RecordingSink(bench.broker.journal)
    bench.dependencies = replace(bench.dependencies, sinks=(bench.sink, other), positions=positions)
    bench.worker = Worker(POLICY, bench.dependencies)
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.broker.journal == ["write", "write", "record", "commit"]
    assert len(bench.sink.tokens) == 1, "a sink that has stored is not asked again"


async def test_offset_is_committed_only_after_dead_letters_are_published() -> None:
    bench = Bench()
    bench.broker.publish_faults.extend([Unavailable("away"), TooLarge("too large"), Unavailable("away")])
    await bench.broker.append(TOPIC, request(["good", "bad"], absurd=["bad"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.broker.journal == ["write", "dead letters", f"publish {DEAD}", "commit"]
    assert len(bench.broker.records(DEAD)) == 1
    assert all("dead letters" in red for red in bench.waits_red)


async def test_failed_commit_is_retried_without_another_insert() -> None:
    bench = Bench()
    bench.broker.commit_faults.extend([Unavailable("away"), Unavailable("away")])
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.batches == [["a"]]


async def test_defect_ends_the_worker_and_commits_nothing() -> None:
    bench = Bench()
    bench.sink.faults.append(InvalidStatement("no such column"))
    await bench.broker.append(TOPIC, request(["a"]))

    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(bench.worker.run(), 60)

    assert ended.group_contains(InvalidStatement)
    assert bench.broker.committed() == {}


async def test_lost_partition_is_dropped_and_the_worker_continues() -> None:
    bench = Bench()
    bench.broker.commit_faults.append(LostPartition())
    await bench.broker.append(TOPIC, request(["a"]), partition=0)

    async with bench.running():
        await until(lambda: bench.sink.names == ["a"])
        await bench.broker.append(TOPIC, request(["b"]), partition=0)
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.names == ["a", "b"]


@pytest.mark.parametrize("value", [None, b"", request([])])
async def test_tombstones_and_empty_requests_advance_the_offset(value: bytes | None) -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, value, key=b"k")

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == []
    assert bench.broker.records(DEAD) == []


async def test_undecodable_record_is_one_dead_letter_and_the_partition_continues() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, b"\xff\xff\xff", key=b"k")
    await bench.broker.append(TOPIC, request(["after"]), key=b"k")

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    (dead_letter,) = bench.broker.records(DEAD)
    assert dead_letter.value == b"\xff\xff\xff"
    assert dead_letter.key == b"k"
    assert dead_letter.header("clearspan-code") == b"undecodable"
    assert dead_letter.header("clearspan-span-index") is None
    assert bench.sink.names == ["after"]


async def test_bad_span_is_rejected_alone() -> None:
    bench = Bench()
    names = [f"s{number}" for number in range(10)]
    await bench.broker.append(TOPIC, request(names, absurd=["s3", "s7"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == [name for name in names if name not in {"s3", "s7"}]
    dead_letters = bench.broker.records(DEAD)
    assert sorted(dead_letter.header("clearspan-span-index") or b"" for dead_letter in dead_letters) == [b"3", b"7"]
    assert sorted(names_in(dead_letter.value or b"")[0] for dead_letter in dead_letters) == ["s3", "s7"]


async def test_record_of_only_bad_spans_is_101_dead_letters() -> None:
    bench = Bench(broker=MemoryBroker(partitions=1))
    names = [f"s{number}" for number in range(3_000)]
    await bench.broker.append(TOPIC, request(["good", *names], absurd=names), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    *alone, shared = bench.broker.records(DEAD)
    assert bench.sink.names == ["good"]
    assert [names_in(dead_letter.value or b"") for dead_letter in alone] == [[name] for name in names[:100]]
    assert names_in(shared.value or b"") == names[100:]


async def test_spans_rejected_by_the_store_count_to_the_same_hundred() -> None:
    bench = Bench()
    bad, rejected = [f"b{number}" for number in range(90)], [f"r{number}" for number in range(20)]
    bench.sink.refused_names = {*rejected}
    await bench.broker.append(TOPIC, request([*bad, *rejected, "good"], absurd=bad), partition=0)
    await bench.broker.append(TOPIC, request(["other"], absurd=["other"]), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    dead_letters = {names_in(dead_letter.value or b"")[0]: dead_letter for dead_letter in bench.broker.records(DEAD)}
    assert bench.sink.names == ["good"]
    assert dead_letters.keys() == {*bad, *rejected[:11], "other"}
    assert names_in(dead_letters["r10"].value or b"") == rejected[10:]
    assert dead_letters["r10"].header("clearspan-codes") == b'{"refused_by_store": 10}'


async def test_span_rejected_by_the_store_is_dead_lettered_with_its_index() -> None:
    bench = Bench()
    bench.sink.refused_names = {"d"}
    await bench.broker.append(TOPIC, request(["a", "b"]), partition=0)
    await bench.broker.append(TOPIC, request(["bad", "c", "d"], absurd=["bad"]), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.names == ["a", "b", "c"]
    dead_letter = next(
        record
        for record in bench.broker.records(DEAD)
        if record.header("clearspan-code") == RejectionCode.REJECTED_BY_STORE.encode()
    )
    assert dead_letter.header("clearspan-span-index") == b"2"
    assert dead_letter.header("clearspan-offset") == b"1"
    assert names_in(dead_letter.value or b"") == ["d"]


async def test_unknown_project_in_a_header_rejects_the_record() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["a"]), headers=[("project-id", str(UUID(int=9)).encode())])
    await bench.broker.append(TOPIC, request(["b"]), headers=[("project-id", b"nonsense")])
    await bench.broker.append(TOPIC, request(["c"]), headers=[("project-id", str(PROJECT).encode())])

    async with bench.running():
        await until(lambda: bench.committed_count == 3)

    assert bench.sink.names == ["c"]
    dead_letters = bench.broker.records(DEAD)
    assert {dead_letter.header("clearspan-code") for dead_letter in dead_letters} == {b"unknown_project"}
    assert all(dead_letter.header("clearspan-span-index") is None for dead_letter in dead_letters)


async def test_unknown_project_in_a_resource_rejects_its_spans() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["a", "b"], project=str(UUID(int=9))))
    await bench.broker.append(TOPIC, request(["c"], project=str(PROJECT)))

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.names == ["c"]
    indexes = [dead_letter.header("clearspan-span-index") for dead_letter in bench.broker.records(DEAD)]
    assert sorted(index or b"" for index in indexes) == [b"0", b"1"]


async def test_nothing_is_rejected_while_projects_cannot_be_looked_up() -> None:
    bench = Bench()
    bench.projects.faults_count = 2
    await bench.broker.append(TOPIC, request(["a"], project=str(PROJECT)))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == ["a"]
    assert bench.broker.records(DEAD) == []


async def test_full_batch_during_a_slow_flush_pauses_the_source() -> None:
    bench = Bench(replace(POLICY, flush=FlushPolicy(rows_max=2, age_s_max=10.0)))
    bench.sink.gate.clear()
    for number in range(10):
        await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0)

    async with bench.running():
        await until(lambda: bench.source.is_paused)
        assert bench.broker.committed() == {}
        bench.sink.gate.set()
        await until(lambda: bench.committed_count == 10)
        assert not bench.source.is_paused

    assert bench.sink.names == [f"s{number}" for number in range(10)]


async def test_due_batch_waits_for_the_one_in_flight_without_spinning() -> None:
    bench = Bench()
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["a"]), partition=0)

    async with bench.running():
        await until(lambda: bench.worker._flush_task is not None)
        await bench.broker.append(TOPIC, request(["b"]), partition=0)
        await until(lambda: bench.worker._batch.rows_count == 1)
        polls_before, began_s = bench.source.polls_count, time.monotonic()
        await asyncio.sleep(0.2)
        assert bench.source.polls_count - polls_before <= (time.monotonic() - began_s) / FLUSHING_POLL_S + 1
        bench.sink.gate.set()
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.batches == [["a"], ["b"]]


async def test_batch_takes_no_record_past_its_maximum_of_rows() -> None:
    bench = Bench(replace(POLICY, flush=FlushPolicy(rows_max=3, age_s_max=10.0)))
    for number in range(6):
        await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 6)

    assert [len(batch) for batch in bench.sink.batches] == [3, 3]


async def test_partition_of_only_rejections_is_held_and_keeps_its_offset() -> None:
    bench = Bench(replace(POLICY, streak_max=3))
    for _ in range(5):
        await bench.broker.append(TOPIC, b"\xff\xff\xff", partition=0)
    await bench.broker.append(TOPIC, request(["other"]), partition=1)

    async with bench.running():
        await until(lambda: bench.committed_count == 4)
        await bench.broker.append(TOPIC, request(["later"]), partition=0)
        await asyncio.sleep(0.05)
        assert bench.broker.committed() == {Partition(TOPIC, 0): 3, Partition(TOPIC, 1): 1}
        assert f"{TOPIC}/0" in bench.dependencies.readiness.reasons
        assert bench.source.paused_partitions == {Partition(TOPIC, 0)}

    assert len(bench.broker.records(DEAD)) == 3
    assert bench.sink.names == ["other"]


async def test_rejections_read_again_after_a_failure_start_a_new_streak() -> None:
    bench = Bench(replace(POLICY, streak_max=3, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600)))
    for _ in range(3):
        await bench.broker.append(TOPIC, b"\xff\xff\xff", partition=0)

    async with bench.running():
        await until(lambda: len(bench.worker._batch.records) == 3)
        bench.broker.poll_faults.append(Unavailable("away"))
        await until(lambda: bench.source._group.generation > 1 and len(bench.worker._batch.records) == 3)
        assert f"{TOPIC}/0" not in bench.dependencies.readiness.reasons

    assert bench.broker.committed() == {Partition(TOPIC, 0): 3}


async def test_what_was_read_of_a_replaced_topic_is_stored_first() -> None:
    """It cannot be read again. Its offset may not be committed: it would count in the new topic."""
    bench = Bench(replace(POLICY, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600)))
    await bench.broker.append(TOPIC, request(["old"]), partition=0)

    async with bench.running():
        await until(lambda: bench.worker._batch.rows_count == 1)
        bench.broker.commit_faults.append(LostPartition("the topic was deleted"))
        bench.broker.poll_faults.append(TopicReplaced("the topic was created again"))
        await until(lambda: bench.source._group.generation > 1)
        assert bench.sink.names == ["old"]


async def test_what_was_polled_of_a_replaced_topic_and_waits_for_a_chunk_is_stored_first() -> None:
    bench = Bench(replace(POLICY, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600)))
    await bench.broker.append(TOPIC, request(["old"]), partition=0)
    bench.broker.commit_faults.append(LostPartition("the topic was deleted"))
    bench.broker.poll_faults.extend([None, TopicReplaced("the topic was created again")])

    async with bench.running():
        await until(lambda: bench.source._group.generation > 1)
        assert bench.sink.names == ["old"]


async def test_what_is_left_of_a_replaced_topic_waits_for_the_store_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.worker.REVOKE_FLUSH_S", 0.01)
    bench = Bench()
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["old"]), partition=0)

    async with bench.running():
        await until(lambda: bench.worker._flush_task is not None)
        bench.broker.commit_faults.append(LostPartition("the topic was deleted"))
        bench.broker.poll_faults.append(TopicReplaced("the topic was created again"))
        await until(lambda: not bench.broker.poll_faults)
        await asyncio.sleep(0.1)
        assert bench.source._group.generation == 1
        bench.sink.gate.set()
        await until(lambda: bench.source._group.generation > 1)
        assert bench.sink.names == ["old"]


async def test_stop_ends_the_wait_for_the_store_and_says_what_is_lost() -> None:
    bench = Bench(replace(POLICY, shutdown_grace_s=0.01))
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["old"]), partition=0)
    lost_before = LOST_BATCHES._value.get()

    with capture_logs() as logs:
        async with bench.running():
            await until(lambda: bench.worker._flush_task is not None)
            bench.broker.poll_faults.append(TopicReplaced("the topic was created again"))
            await until(lambda: not bench.broker.poll_faults)

    assert LOST_BATCHES._value.get() == lost_before + 1
    assert any("unless its topic was deleted" in entry["event"] for entry in logs)


async def test_held_partition_is_tried_again_and_held_again_after_a_failure() -> None:
    bench = Bench(replace(POLICY, streak_max=1))
    for _ in range(9):
        await bench.broker.append(TOPIC, b"\xff\xff\xff", partition=0)

    async with bench.running():
        await until(lambda: bench.source.paused_partitions == {Partition(TOPIC, 0)} and bench.committed_count == 1)
        bench.broker.poll_faults.append(Unavailable("away"))
        await until(lambda: bench.source.paused_partitions == {Partition(TOPIC, 0)} and bench.committed_count == 2)
        assert f"{TOPIC}/0" in bench.dependencies.readiness.reasons


async def test_moving_partitions_are_flushed_first_and_not_read_twice() -> None:
    broker = MemoryBroker(partitions=2)
    slow = replace(POLICY, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600))
    first, second = Bench(slow, broker), Bench(broker=broker)
    for number in range(4):
        await broker.append(TOPIC, request([f"s{number}"]), partition=number % 2)

    async with first.running():
        await until(lambda: first.worker._batch.rows_count == 4)
        async with second.running():
            await until(lambda: first.committed_count == 4)
            await broker.append(TOPIC, request(["p0"]), partition=0)
            await broker.append(TOPIC, request(["p1"]), partition=1)
            await until(lambda: len(second.sink.names) == 1)
            await until(lambda: first.worker._batch.rows_count == 1)

    assert first.sink.names[:4] == ["s0", "s2", "s1", "s3"]
    assert sorted(first.sink.names + second.sink.names) == ["p0", "p1", "s0", "s1", "s2", "s3"]


async def test_lost_partitions_are_not_committed() -> None:
    broker = MemoryBroker(partitions=1)
    first, second = Bench(broker=broker), Bench(broker=broker)
    first.sink.gate.clear()
    await broker.append(TOPIC, request(["a"]), partition=0)

    async with first.running():
        await until(lambda: first.worker._flush_task is not None)
        await first.source.expire()
        async with second.running():
            await until(lambda: second.sink.names == ["a"])
            await until(lambda: broker.committed() == {Partition(TOPIC, 0): 1})
            journal = len([step for step in broker.journal if step == "commit"])
            first.sink.gate.set()
            await until(lambda: first.sink.names == ["a"])
            await asyncio.sleep(0.02)
            assert len([step for step in broker.journal if step == "commit"]) == journal
        first.source._group.members.append(first.source)


async def test_late_flush_is_reported_with_its_stage_until_done() -> None:
    bench = Bench(replace(POLICY, flush_late_s=0.05))
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: "flush" in bench.dependencies.readiness.reasons)
        reason = bench.dependencies.readiness.reasons["flush"]
        bench.sink.gate.set()
        await until(lambda: bench.dependencies.readiness.reasons == {})

    assert re.match(r"A batch of 1 records with 1 spans has been flushed for \d+ s, stage insert;", reason)
    assert "CLEARSPAN_INGEST__FLUSH_LATE_S is 0.05" in reason


async def test_late_decoding_is_reported_until_done() -> None:
    bench, decoder = gated(replace(POLICY, flush_late_s=0.05))
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: "decode" in bench.dependencies.readiness.reasons)
        assert bench.worker.idle_s == 0.0
        decoder.gates[0].set()
        await until(lambda: bench.dependencies.readiness.reasons == {})


async def test_worker_is_idle_while_nothing_makes_progress() -> None:
    bench = Bench()
    bench.sink.gate.clear()

    async with bench.running():
        await bench.broker.append(TOPIC, request(["a"]))
        await until(lambda: bench.worker._flush_task is not None)
        await asyncio.sleep(0.1)
        assert bench.worker.idle_s >= 0.1
        bench.sink.gate.set()
        await until(lambda: bench.committed_count == 1)
        await until(lambda: bench.worker.idle_s < 0.1)


async def test_records_of_a_project_never_hold_a_partition() -> None:
    bench = Bench(replace(POLICY, streak_max=1))
    named = [("project-id", str(PROJECT).encode())]
    unknown = [("project-id", str(UUID(int=99)).encode())]
    for _ in range(3):
        await bench.broker.append(TOPIC, b"\xff\xff\xff", headers=named, partition=0)
        await bench.broker.append(TOPIC, request(["bad"], absurd=["bad"]), partition=0)
        await bench.broker.append(TOPIC, request(["a"]), headers=unknown, partition=0)
    await bench.broker.append(TOPIC, request(["good"]), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 10)

    assert bench.sink.names == ["good"]
    assert len(bench.broker.records(DEAD)) == 9


async def test_topic_with_a_project_never_holds_a_partition() -> None:
    rules = replace(RULES, topics={TOPIC: TopicSettings(encoding=Encoding.OTLP_PROTO, project_id=PROJECT)})
    bench = Bench(replace(POLICY, streak_max=1, rules=rules))
    for value in [b"\xff\xff\xff"] * 3:
        await bench.broker.append(TOPIC, value, partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 3)


async def test_stop_flushes_and_commits_the_open_batch() -> None:
    bench = Bench(replace(POLICY, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600)))
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.worker._batch.rows_count == 1)

    assert bench.sink.names == ["a"]
    assert bench.committed_count == 1


async def test_stop_gives_up_after_the_grace_period_and_commits_nothing() -> None:
    bench = Bench(replace(POLICY, shutdown_grace_s=0.05))
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.worker._flush_task is not None)

    assert bench.broker.committed() == {}


async def test_worker_waits_for_an_unavailable_broker() -> None:
    bench = Bench()
    bench.broker.poll_faults.extend([Unavailable("away")])
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == ["a"]


async def test_worker_can_be_stopped_while_it_waits_for_the_broker() -> None:
    bench = Bench()
    away = asyncio.Event()

    async def prepare() -> None:
        away.set()
        raise Unavailable("Kafka is unavailable.")

    bench.worker = Worker(POLICY, replace(bench.dependencies, prepare=prepare))

    async with bench.running():
        await away.wait()
        await until(lambda: bench.dependencies.readiness.reasons == {"kafka": "Kafka is unavailable."})


async def test_reason_for_not_joining_is_reported_until_joined() -> None:
    bench = Bench()
    reasons_seen: list[str | None] = []

    async def prepare() -> None:
        await asyncio.sleep(0.05)  # the watcher asks for the lag meanwhile
        reasons_seen.append(bench.dependencies.readiness.reasons.get("kafka"))
        raise Unavailable("Kafka is unavailable.")

    bench.worker = Worker(POLICY, replace(bench.dependencies, prepare=prepare))

    async with bench.running():
        await until(lambda: len(reasons_seen) >= 4)

    assert reasons_seen[:4] == [
        "Not connected yet.",
        "Kafka is unavailable.",
        "Kafka is unavailable.",
        "Kafka is unavailable.",
    ]


async def test_unavailable_system_is_named_before_a_batch_needs_it() -> None:
    answers = [Unavailable("ClickHouse is unavailable."), None, Overloaded("busy, so there"), None]
    readiness_seen: list[str | None] = []

    async def ask() -> None:
        readiness_seen.append(bench.dependencies.readiness.reasons.get("clickhouse"))
        if answers and (fault := answers.pop(0)) is not None:
            raise fault

    bench = Bench()
    bench.dependencies = replace(bench.dependencies, systems={"clickhouse": ask})
    bench.worker = Worker(POLICY, bench.dependencies)
    async with bench.running():
        await until(lambda: len(readiness_seen) >= 5)

    assert readiness_seen[:5] == ["Not connected yet.", "ClickHouse is unavailable.", None, None, None]


@pytest.mark.parametrize("component", ["kafka", "projects"])
async def test_start_and_end_of_waiting_are_logged_once(component: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    lag, faults = bench.source.lag, [Unavailable("Kafka is unavailable.")] * 3

    async def lag_of_one_that_is_away() -> Mapping[Partition, int]:
        if faults:
            raise faults.pop()
        return await lag()

    if component == "kafka":
        monkeypatch.setattr(bench.source, "lag", lag_of_one_that_is_away)
    else:
        bench.projects.faults_count = 3
        await bench.broker.append(TOPIC, request(["a"], project=str(PROJECT)))

    with capture_logs() as logs:

        def told() -> list[str]:
            return [line["event"] for line in logs if line.get("component") == component]

        async with bench.running():
            await until(lambda: told()[-2:] == ["Waiting.", "No longer waiting."])

    assert told().count("Waiting.") == 1


class GatedDecoder:
    """Decodes in this thread, each chunk when the test allows it."""

    chunks_max = 2

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.gates: list[asyncio.Event] = []

    async def decode(self, chunk: Chunk, /) -> DecodedChunk:
        gate = asyncio.Event()
        self.chunks.append(chunk)
        self.gates.append(gate)
        await gate.wait()
        return decode_chunk(chunk, RULES)

    async def join(self, _chunk: JoiningChunk, /) -> pa.Table:
        raise AssertionError

    async def close(self) -> None:
        """Nothing is held."""


def gated(policy: Policy = POLICY) -> tuple[Bench, GatedDecoder]:
    bench, decoder = Bench(policy), GatedDecoder()
    bench.dependencies = replace(bench.dependencies, decoder=decoder)
    bench.worker = Worker(policy, bench.dependencies)
    return bench, decoder


async def test_chunks_are_received_in_the_order_in_which_they_were_sent() -> None:
    bench, decoder = gated()

    async with bench.running():
        for number in range(2):
            await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0)
            await until(lambda number=number: len(decoder.gates) == number + 1)  # type: ignore[misc]
        decoder.gates[1].set()
        await asyncio.sleep(0.05)
        assert bench.sink.names == []
        decoder.gates[0].set()
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.names == ["s0", "s1"]


async def test_decoder_gets_only_as_many_chunks_as_keep_it_busy() -> None:
    bench, decoder = gated()

    async with bench.running():
        for number in range(2):
            await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0)
            await until(lambda number=number: len(decoder.gates) == number + 1)  # type: ignore[misc]
        await bench.broker.append(TOPIC, request(["s2"]), partition=0)
        await asyncio.sleep(0.05)
        assert len(decoder.chunks) == 2
        for gate in decoder.gates:
            gate.set()
        await until(lambda: len(decoder.gates) == 3)
        decoder.gates[2].set()
        await until(lambda: bench.committed_count == 3)

    assert bench.sink.names == ["s0", "s1", "s2"]


async def test_records_that_arrive_one_by_one_are_decoded_together() -> None:
    bench, decoder = gated(replace(POLICY, flush=FlushPolicy(age_s_max=2.5)))  # so a chunk waits 0.05 s

    async with bench.running():
        for number in range(10):
            await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0)
        await until(lambda: len(decoder.chunks) == 1)

    assert len(decoder.chunks[0].records) == 10


async def test_records_of_a_replaced_topic_that_are_being_decoded_are_stored_first() -> None:
    """Even if Postgres, which knows the projects, is away meanwhile."""
    bench, decoder = gated()
    bench.projects.faults_count = 2
    for number in range(2):
        headers = [("project-id", str(PROJECT).encode())]
        await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0, headers=headers)

    async with bench.running():
        await until(lambda: len(decoder.gates) == 1)
        bench.broker.commit_faults.append(LostPartition("the topic was deleted"))
        bench.broker.poll_faults.append(TopicReplaced("the topic was created again"))
        await until(lambda: not bench.broker.poll_faults)
        decoder.gates[0].set()
        await until(lambda: bench.source._group.generation > 1)
        assert bench.sink.names == ["s0", "s1"]


async def two_workers_with_records() -> tuple[Bench, GatedDecoder, Bench]:
    """Return a worker with its gated decoder, and one that joins later; four records wait in two partitions."""
    first, decoder = gated()
    for number in range(4):
        await first.broker.append(TOPIC, request([f"s{number}"]), partition=number % 2)
    return first, decoder, Bench(broker=first.broker)


async def test_records_in_decoding_when_partitions_move_are_stored_first() -> None:
    first, decoder, second = await two_workers_with_records()

    async with first.running():
        await until(lambda: len(decoder.gates) == 1)
        with capture_logs() as logs:
            async with second.running():
                await until(lambda: any(entry["event"] == "Partitions revoked." for entry in logs))
                decoder.gates[0].set()
                await until(lambda: first.committed_count == 4)

    assert sorted(first.sink.names) == ["s0", "s1", "s2", "s3"]
    assert second.sink.names == []


async def test_records_still_in_decoding_when_partitions_move_are_read_by_the_new_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.worker.REVOKE_FLUSH_S", 0.01)
    first, decoder, second = await two_workers_with_records()

    async with first.running():
        await until(lambda: len(decoder.gates) == 1)
        async with second.running():
            await until(lambda: len(second.sink.names) == 2)
            await until(lambda: len(decoder.gates) == 2)
            for gate in decoder.gates:
                gate.set()
            await until(lambda: first.committed_count == 4)

    assert sorted(first.sink.names + second.sink.names) == ["s0", "s1", "s2", "s3"]
