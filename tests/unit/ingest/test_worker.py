"""The order law, and everything that could break it: each side effect failing, partitions moving, the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from common.errors import InvalidStatement, Overloaded, RejectionCode, ServiceError, TooLarge, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import LostPartition, Partition
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from ingest.batch import FlushPolicy
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from ingest.decoding.decoder import ThreadDecoder
from ingest.policy import Dependencies, Policy
from ingest.worker import FLUSHING_POLL_S, Worker
from tests.fakes.kafka import MemoryBroker, MemorySource
from tests.fakes.sink import RecordingSink
from tests.support.otlp import names_in, request

TOPIC = "otlp_spans"
DEAD = "spans.dead_letter"
PROJECT = UUID(int=7)

RULES = Rules({TOPIC: TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
POLICY = Policy(rules=RULES, flush=FlushPolicy(rows_max=100, age_s_max=0.01), poll_s_max=0.02, shutdown_grace_s=5.0)


class SomeProjects:
    """Knows one project; away for so many questions as ``faults_count`` says."""

    def __init__(self) -> None:
        self.faults_count = 0

    async def exists(self, project_id: UUID, /) -> bool:
        if self.faults_count:
            self.faults_count -= 1
            raise Unavailable("Postgres is unavailable.")
        return project_id == PROJECT


class Bench:
    """A worker on the broker in memory, and what it did."""

    def __init__(self, policy: Policy = POLICY, broker: MemoryBroker | None = None) -> None:
        self.broker = broker or MemoryBroker(partitions=2)
        self.sink = RecordingSink(self.broker.journal)
        self.projects = SomeProjects()
        self.slept_s: list[float] = []
        self.source: MemorySource = self.broker.source(TOPIC)
        self.dependencies = Dependencies(
            source=self.source,
            decoder=ThreadDecoder(policy.rules),
            sinks=(self.sink,),
            positions=RecordingSink(),
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
        if seconds == 2.0:  # the watcher's own pace
            await asyncio.sleep(0.02)
            return
        self.slept_s.append(seconds)
        self.waits_red.append(self.dependencies.readiness.reasons)
        await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Running inside; stopped and ended after it."""
        running = asyncio.create_task(self.worker.run())
        try:
            yield
        finally:
            self.worker.stop()
            async with asyncio.timeout(10):
                await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for is the effect of a loop that tells nobody
            await asyncio.sleep(0.001)


async def test_what_is_published_is_stored_and_committed() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["a", "b"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == ["a", "b"]


async def test_written_then_buried_then_committed() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["good", "bad"], absurd=["bad"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.broker.journal == ["write", f"publish {DEAD}", "commit"]


@pytest.mark.parametrize("fault", [Unavailable("away"), Overloaded("busy", retry_after_s=3.0)])
async def test_a_transient_insert_is_tried_again_with_the_same_token(fault: ServiceError) -> None:
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


async def test_nothing_is_buried_or_committed_before_it_is_written() -> None:
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
    assert bench.broker.journal == ["write", "write", f"publish {DEAD}", "commit"]


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


async def test_burying_is_tried_until_it_is_done_and_only_then_committed() -> None:
    bench = Bench()
    bench.broker.publish_faults.extend([Unavailable("away"), TooLarge("too large"), Unavailable("away")])
    await bench.broker.append(TOPIC, request(["good", "bad"], absurd=["bad"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.broker.journal == ["write", f"publish {DEAD}", "commit"]
    assert len(bench.broker.records(DEAD)) == 1
    assert all("dead letters" in red for red in bench.waits_red)


async def test_a_commit_that_fails_is_tried_again_without_writing_again() -> None:
    bench = Bench()
    bench.broker.commit_faults.extend([Unavailable("away"), Unavailable("away")])
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.batches == [["a"]]


async def test_a_bug_of_ours_ends_the_worker_and_commits_nothing() -> None:
    bench = Bench()
    bench.sink.faults.append(InvalidStatement("no such column"))
    await bench.broker.append(TOPIC, request(["a"]))

    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(bench.worker.run(), 5)

    assert ended.group_contains(InvalidStatement)
    assert bench.broker.committed() == {}


async def test_a_lost_partition_is_dropped_and_the_worker_goes_on() -> None:
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


async def test_an_undecodable_record_is_one_dead_letter_and_the_partition_goes_on() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, b"\xff\xff\xff", key=b"k")
    await bench.broker.append(TOPIC, request(["after"]), key=b"k")

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    (letter,) = bench.broker.records(DEAD)
    assert letter.value == b"\xff\xff\xff"
    assert letter.key == b"k"
    assert letter.header("clearspan-code") == b"undecodable"
    assert letter.header("clearspan-span-index") is None
    assert bench.sink.names == ["after"]


async def test_one_bad_span_costs_one_span() -> None:
    bench = Bench()
    names = [f"s{number}" for number in range(10)]
    await bench.broker.append(TOPIC, request(names, absurd=["s3", "s7"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == [name for name in names if name not in {"s3", "s7"}]
    letters = bench.broker.records(DEAD)
    assert sorted(letter.header("clearspan-span-index") or b"" for letter in letters) == [b"3", b"7"]
    assert sorted(names_in(letter.value or b"")[0] for letter in letters) == ["s3", "s7"]


async def test_a_record_full_of_bad_spans_is_a_hundred_and_one_dead_letters() -> None:
    bench = Bench(broker=MemoryBroker(partitions=1))
    names = [f"s{number}" for number in range(3_000)]
    await bench.broker.append(TOPIC, request(["good", *names], absurd=names), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    *alone, shared = bench.broker.records(DEAD)
    assert bench.sink.names == ["good"]
    assert [names_in(letter.value or b"") for letter in alone] == [[name] for name in names[:100]]
    assert names_in(shared.value or b"") == names[100:]


async def test_spans_that_the_store_refuses_count_to_the_same_hundred() -> None:
    bench = Bench()
    bad, refused = [f"b{number}" for number in range(90)], [f"r{number}" for number in range(20)]
    bench.sink.refused_names = {*refused}
    await bench.broker.append(TOPIC, request([*bad, *refused, "good"], absurd=bad), partition=0)
    await bench.broker.append(TOPIC, request(["other"], absurd=["other"]), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    letters = {names_in(letter.value or b"")[0]: letter for letter in bench.broker.records(DEAD)}
    assert bench.sink.names == ["good"]
    assert letters.keys() == {*bad, *refused[:11], "other"}
    assert names_in(letters["r10"].value or b"") == refused[10:]
    assert letters["r10"].header("clearspan-codes") == b'{"refused_by_store": 10}'


async def test_a_span_that_the_store_refuses_is_buried_under_its_own_index() -> None:
    bench = Bench()
    bench.sink.refused_names = {"d"}
    await bench.broker.append(TOPIC, request(["a", "b"]), partition=0)
    await bench.broker.append(TOPIC, request(["bad", "c", "d"], absurd=["bad"]), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.names == ["a", "b", "c"]
    letter = next(
        each
        for each in bench.broker.records(DEAD)
        if each.header("clearspan-code") == RejectionCode.REJECTED_BY_STORE.encode()
    )
    assert letter.header("clearspan-span-index") == b"2"
    assert letter.header("clearspan-offset") == b"1"
    assert names_in(letter.value or b"") == ["d"]


async def test_an_unknown_project_in_a_header_refuses_the_record() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["a"]), headers=[("project-id", str(UUID(int=9)).encode())])
    await bench.broker.append(TOPIC, request(["b"]), headers=[("project-id", b"nonsense")])
    await bench.broker.append(TOPIC, request(["c"]), headers=[("project-id", str(PROJECT).encode())])

    async with bench.running():
        await until(lambda: bench.committed_count == 3)

    assert bench.sink.names == ["c"]
    letters = bench.broker.records(DEAD)
    assert {letter.header("clearspan-code") for letter in letters} == {b"unknown_project"}
    assert all(letter.header("clearspan-span-index") is None for letter in letters)


async def test_an_unknown_project_in_a_resource_refuses_its_spans() -> None:
    bench = Bench()
    await bench.broker.append(TOPIC, request(["a", "b"], project=str(UUID(int=9))))
    await bench.broker.append(TOPIC, request(["c"], project=str(PROJECT)))

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.names == ["c"]
    indexes = [letter.header("clearspan-span-index") for letter in bench.broker.records(DEAD)]
    assert sorted(each or b"" for each in indexes) == [b"0", b"1"]


async def test_while_projects_cannot_be_asked_nothing_is_refused() -> None:
    bench = Bench()
    bench.projects.faults_count = 2
    await bench.broker.append(TOPIC, request(["a"], project=str(PROJECT)))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == ["a"]
    assert bench.broker.records(DEAD) == []


async def test_a_full_batch_behind_a_slow_store_pauses_the_source() -> None:
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


async def test_a_due_batch_waits_for_the_one_in_flight_without_spinning() -> None:
    bench = Bench()
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["a"]), partition=0)

    async with bench.running():
        await until(lambda: bench.worker._flush_task is not None)
        await bench.broker.append(TOPIC, request(["b"]), partition=0)
        await until(lambda: bench.worker._batch.rows_count == 1)
        polls_before = bench.source.polls_count
        await asyncio.sleep(0.2)
        assert bench.source.polls_count - polls_before <= 0.2 / FLUSHING_POLL_S + 1
        bench.sink.gate.set()
        await until(lambda: bench.committed_count == 2)

    assert bench.sink.batches == [["a"], ["b"]]


async def test_a_batch_holds_so_many_rows_as_it_may_and_not_a_record_more() -> None:
    bench = Bench(replace(POLICY, flush=FlushPolicy(rows_max=3, age_s_max=10.0)))
    for number in range(6):
        await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 6)

    assert [len(batch) for batch in bench.sink.batches] == [3, 3]


async def test_a_partition_of_nothing_but_refusals_is_held_and_its_offset_stays() -> None:
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


async def test_refusals_that_are_read_again_after_a_failure_are_counted_anew() -> None:
    bench = Bench(replace(POLICY, streak_max=3, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600)))
    for _ in range(3):
        await bench.broker.append(TOPIC, b"\xff\xff\xff", partition=0)

    async with bench.running():
        await until(lambda: len(bench.worker._batch.records) == 3)
        bench.broker.poll_faults.append(Unavailable("away"))
        await until(lambda: bench.source._group.generation > 1 and len(bench.worker._batch.records) == 3)
        assert f"{TOPIC}/0" not in bench.dependencies.readiness.reasons

    assert bench.broker.committed() == {Partition(TOPIC, 0): 3}


async def test_a_held_partition_is_tried_anew_and_held_again_after_a_failure() -> None:
    bench = Bench(replace(POLICY, streak_max=1))
    for _ in range(9):
        await bench.broker.append(TOPIC, b"\xff\xff\xff", partition=0)

    async with bench.running():
        await until(lambda: bench.source.paused_partitions == {Partition(TOPIC, 0)} and bench.committed_count == 1)
        bench.broker.poll_faults.append(Unavailable("away"))
        await until(lambda: bench.source.paused_partitions == {Partition(TOPIC, 0)} and bench.committed_count == 2)
        assert f"{TOPIC}/0" in bench.dependencies.readiness.reasons


async def test_partitions_that_move_are_settled_first_and_read_by_nobody_twice() -> None:
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


async def test_partitions_that_were_taken_away_unasked_are_not_committed() -> None:
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
            journal = len([each for each in broker.journal if each == "commit"])
            first.sink.gate.set()
            await until(lambda: first.sink.names == ["a"])
            await asyncio.sleep(0.02)
            assert len([each for each in broker.journal if each == "commit"]) == journal
        first.source._group.members.append(first.source)


async def test_a_flush_that_takes_too_long_is_told_with_its_stage_until_it_is_done() -> None:
    bench = Bench(replace(POLICY, flush_late_s=0.05))
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: "flush" in bench.dependencies.readiness.reasons)
        reason = bench.dependencies.readiness.reasons["flush"]
        bench.sink.gate.set()
        await until(lambda: bench.dependencies.readiness.reasons == {})

    assert reason.startswith("A batch of 1 records with 1 spans has been flushed for 0 s, stage insert;")
    assert "CLEARSPAN_INGEST__FLUSH_LATE_S is 0.05" in reason


async def test_decoding_that_takes_too_long_is_told_until_it_is_done() -> None:
    bench, decoder = gated(replace(POLICY, flush_late_s=0.05))
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: "decode" in bench.dependencies.readiness.reasons)
        assert bench.worker.idle_s == 0.0
        decoder.gates[0].set()
        await until(lambda: bench.dependencies.readiness.reasons == {})


async def test_a_worker_is_idle_while_nothing_is_done_for_good() -> None:
    bench = Bench()
    bench.sink.gate.clear()

    async with bench.running():
        await bench.broker.append(TOPIC, request(["a"]))
        await until(lambda: bench.worker._flush_task is not None)
        await asyncio.sleep(0.1)
        assert bench.worker.idle_s >= 0.1
        bench.sink.gate.set()
        await until(lambda: bench.committed_count == 1)
        assert bench.worker.idle_s < 0.1


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


async def test_a_topic_of_a_project_never_holds_a_partition_either() -> None:
    rules = replace(RULES, topics={TOPIC: TopicSettings(encoding=Encoding.OTLP_PROTO, project_id=PROJECT)})
    bench = Bench(replace(POLICY, streak_max=1, rules=rules))
    for value in [b"\xff\xff\xff"] * 3:
        await bench.broker.append(TOPIC, value, partition=0)

    async with bench.running():
        await until(lambda: bench.committed_count == 3)


async def test_stop_flushes_what_is_filled_and_commits_it() -> None:
    bench = Bench(replace(POLICY, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600)))
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.worker._batch.rows_count == 1)

    assert bench.sink.names == ["a"]
    assert bench.committed_count == 1


async def test_stop_gives_up_after_the_grace_and_commits_nothing() -> None:
    bench = Bench(replace(POLICY, shutdown_grace_s=0.05))
    bench.sink.gate.clear()
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.worker._flush_task is not None)

    assert bench.broker.committed() == {}


async def test_a_broker_that_is_away_is_waited_for() -> None:
    bench = Bench()
    bench.broker.poll_faults.extend([Unavailable("away")])
    await bench.broker.append(TOPIC, request(["a"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert bench.sink.names == ["a"]


async def test_stop_is_heard_while_the_broker_is_waited_for() -> None:
    bench = Bench()
    away = asyncio.Event()

    async def prepare() -> None:
        away.set()
        raise Unavailable("Kafka is unavailable.")

    bench.worker = Worker(POLICY, replace(bench.dependencies, prepare=prepare))

    async with bench.running():
        await away.wait()
        await until(lambda: bench.dependencies.readiness.reasons == {"kafka": "Kafka is unavailable."})


async def test_what_keeps_it_from_joining_is_told_as_long_as_it_does() -> None:
    bench = Bench()
    reasons_seen: list[str | None] = []

    async def prepare() -> None:
        await asyncio.sleep(0.05)  # the watcher asks meanwhile
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


async def test_a_system_that_is_away_is_named_before_any_batch_needs_it() -> None:
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
async def test_the_log_says_once_what_is_waited_for_and_that_it_is_there_again(
    component: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """Opens in this thread, each chunk when the test says so."""

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

    async def close(self) -> None:
        """Nothing is held."""


def gated(policy: Policy = POLICY) -> tuple[Bench, GatedDecoder]:
    bench, decoder = Bench(policy), GatedDecoder()
    bench.dependencies = replace(bench.dependencies, decoder=decoder)
    bench.worker = Worker(policy, bench.dependencies)
    return bench, decoder


async def test_portions_are_taken_in_their_order_whichever_is_opened_first() -> None:
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


async def test_the_opener_gets_so_many_portions_as_keep_it_busy_and_not_one_more() -> None:
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


async def test_records_that_come_one_by_one_are_opened_together() -> None:
    bench, decoder = gated(replace(POLICY, flush=FlushPolicy(age_s_max=2.5)))  # so a chunk waits 0.1 s

    async with bench.running():
        for number in range(10):
            await bench.broker.append(TOPIC, request([f"s{number}"]), partition=0)
        await until(lambda: len(decoder.chunks) == 1)

    assert len(decoder.chunks[0].records) == 10


async def test_what_is_being_opened_when_partitions_move_is_read_again_by_whom_they_go_to() -> None:
    first, decoder = gated()
    second = Bench(broker=first.broker)
    for number in range(4):
        await first.broker.append(TOPIC, request([f"s{number}"]), partition=number % 2)

    async with first.running():
        await until(lambda: len(decoder.gates) == 1)
        async with second.running():
            await until(lambda: len(second.sink.names) == 2)
            await until(lambda: len(decoder.gates) == 2)
            for gate in decoder.gates:
                gate.set()
            await until(lambda: first.committed_count == 4)

    assert sorted(first.sink.names + second.sink.names) == ["s0", "s1", "s2", "s3"]
