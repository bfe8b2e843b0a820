"""Decoder processes: one that ends is replaced, none outlives its worker, and no record is lost."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from common.children.pool import Lost
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Encoding, Partition, Record
from common.limits import SpanLimits
from common.telemetry import DECODER_RESTARTS
from ingest.batch import FlushPolicy
from ingest.dead_letter import CODE_HEADER
from ingest.decode import PlainTopic, Rules
from ingest.decoding.chunk import Chunk
from ingest.decoding.decoder import TRIES_MAX, Decoder, DecoderFailed, ProcessDecoder
from ingest.policy import Dependencies, Policy
from ingest.worker import Worker
from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.kafka import MemoryBroker
from tests.fakes.sink import RecordingSink
from tests.support.otlp import START_NS, request

TOPIC = "otlp_spans"
RULES = Rules({TOPIC: PlainTopic(Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
POLICY = Policy(rules=RULES, flush=FlushPolicy(age_s_max=0.01), poll_s_max=0.02)
ROOT = Path(__file__).parents[2]
PACKAGES = {
    *("clearspan", "common", "ingest"),
    *("google", "numpy", "opentelemetry", "orjson", "ptars", "pyarrow", "re2"),
    *("cython_runtime", "typing_extensions"),
}
"""What a decoder may load. It is several processes: pandas takes 31 MiB of each, settings, metrics and logs 20
MiB, engine and servers more."""


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (9,)


class DeadlyBytes(bytes):
    """The value of a record that ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (9,)


class AllProjects:
    async def exists(self, _project_id: object, /) -> bool:
        return True


@pytest.fixture
async def decoder() -> AsyncIterator[ProcessDecoder]:
    found = ProcessDecoder(RULES, processes=1)
    yield found
    await found.close()


def chunk(name: str, *, log: object = "c/t/0") -> Chunk:
    records = [Record(TOPIC, 0, 0, 5, None, request([name]))]
    return Chunk(records, {Partition(TOPIC, 0): cast(str, log)}, START_NS)


def restarts() -> float:
    return float(DECODER_RESTARTS._value.get())


def worker_on(broker: MemoryBroker, decoder: Decoder, sink: RecordingSink) -> Worker:
    source = broker.source(TOPIC)
    return Worker(
        POLICY,
        Dependencies(
            source=source,
            decoder=decoder,
            sinks=(sink,),
            positions=RecordingSink(),
            dead_letters=MemoryDeadLetters(),
            publisher=broker.publisher(),
            projects=AllProjects(),
        ),
    )


async def test_killed_decoder_is_replaced_and_its_chunks_are_decoded(decoder: ProcessDecoder) -> None:
    before = restarts()
    decoding = [asyncio.create_task(decoder.decode(chunk(f"s{number}"))) for number in range(3)]
    await asyncio.sleep(0)

    os.kill(decoder.process_ids[0], signal.SIGKILL)
    decoded = [await task for task in decoding]

    assert [result.rows["name"].to_pylist() for result in decoded] == [["s0"], ["s1"], ["s2"]]
    assert restarts() == before + 1


async def test_decoder_has_the_niceness_that_it_is_given() -> None:
    decoder = ProcessDecoder(RULES, processes=1, niceness=3)
    await decoder.decode(chunk("a"))

    assert psutil.Process(decoder.process_ids[0]).nice() == min(19, psutil.Process().nice() + 3)
    await decoder.close()


@pytest.mark.long
async def test_records_that_end_the_decoder_each_time_are_named_in_the_error(decoder: ProcessDecoder) -> None:
    before = restarts()

    with pytest.raises(DecoderFailed, match="3 times over the same records"):
        await decoder.decode(chunk("a", log=Deadly()))

    assert restarts() == before + 2 * TRIES_MAX, "with its records, and without any"
    assert (await decoder.decode(chunk("b"))).rows["name"].to_pylist() == ["b"]


async def test_chunks_after_one_that_ends_the_decoder_are_not_blamed(decoder: ProcessDecoder) -> None:
    deadly = replace(chunk("deadly"), records=[Record(TOPIC, 0, 0, 5, None, DeadlyBytes(request(["deadly"])))])

    dead, *alive = await asyncio.gather(*map(decoder.decode, (deadly, chunk("a"), chunk("b"), chunk("c"))))

    assert dead.rows.num_rows == 0
    assert [result.rows["name"].to_pylist() for result in alive] == [["a"], ["b"], ["c"]]


LOADED = "' '.join(sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names))"


class LoadedPackages:
    """The text that names the packages of the process that unpickles it, without those of Python itself."""

    def __reduce__(self) -> Any:
        return eval, (f"[{LOADED} for sys in [__import__('sys')]][0]",)


async def test_decoder_loads_only_the_packages_that_it_needs(decoder: ProcessDecoder) -> None:
    samples = sorted((ROOT / "tests/data/samples").glob("*.otlp_proto.bin"))
    records = [Record(TOPIC, 0, offset, 5, None, sample.read_bytes()) for offset, sample in enumerate(samples)]
    await decoder.decode(replace(chunk("a"), records=records))

    decoded = await decoder.decode(chunk("a", log=LoadedPackages()))

    loaded = decoded.rows["partition_id"][0].as_py().decode()
    assert {name for name in loaded.split() if not name.startswith("_")} <= PACKAGES


@pytest.mark.long
async def test_hanging_decoder_is_replaced() -> None:
    before = restarts()
    decoder = ProcessDecoder(RULES, processes=1, response_s_max=0.001)  # no process starts this fast

    with pytest.raises(DecoderFailed, match="hung"):
        await decoder.decode(chunk("a"))

    assert restarts() == before + 2 * TRIES_MAX, "with its records, and without any"
    await decoder.close()


class Slow:
    """Keeps the process that unpickles it busy for a moment."""

    def __reduce__(self) -> Any:
        return time.sleep, (1.0,)


async def test_time_limit_of_a_chunk_excludes_the_chunks_before_it() -> None:
    before = restarts()
    decoder = ProcessDecoder(RULES, processes=1)
    await decoder.decode(chunk("it has started"))

    responses = await asyncio.gather(*[decoder._pool.submit(chunk("a", log=Slow()), timeout_s=4.0) for _ in range(5)])

    assert restarts() == before
    assert not any(isinstance(response, Lost) for response in responses)
    await decoder.close()


async def test_worker_that_ends_during_decoding_logs_no_error() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    decoder = ProcessDecoder(RULES, processes=1)
    decoding = asyncio.create_task(decoder.decode(chunk("a")))
    await asyncio.sleep(0)

    decoding.cancel()
    await asyncio.wait({decoding})
    await decoder.close()
    await asyncio.sleep(0.05)
    gc.collect()

    assert complaints == []


async def test_worker_whose_decoder_is_killed_loses_nothing(decoder: ProcessDecoder) -> None:
    broker, sink = MemoryBroker(partitions=1), RecordingSink()
    worker = worker_on(broker, decoder, sink)
    names = [f"s{number}" for number in range(20)]

    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        for name in names:
            await broker.append(TOPIC, request([name]))
            await asyncio.sleep(0.02)
            if name in {"s3", "s9"}:
                os.kill(decoder.process_ids[0], signal.SIGKILL)
        while broker.committed() != {Partition(TOPIC, 0): 20}:  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.01)
        worker.stop()

    assert sink.names == names


@pytest.mark.long
async def test_worker_whose_decoder_fails_permanently_commits_nothing(decoder: ProcessDecoder) -> None:
    broker = MemoryBroker(partitions=1)
    worker = worker_on(broker, decoder, RecordingSink())
    worker._source.partition_id_of = lambda _partition: Deadly()  # type: ignore[method-assign, return-value, assignment]
    await broker.append(TOPIC, request(["a"]))

    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(worker.run(), 120)

    assert ended.group_contains(DecoderFailed)
    assert broker.committed() == {}


async def test_record_that_ends_the_decoder_is_a_dead_letter_and_its_neighbors_are_stored(
    decoder: ProcessDecoder,
) -> None:
    broker, sink = MemoryBroker(partitions=1), RecordingSink()
    worker = worker_on(broker, decoder, sink)
    deadly = DeadlyBytes(request(["deadly"]))
    for value in (request(["a"]), deadly, request(["b"])):
        await broker.append(TOPIC, value)

    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        while broker.committed() != {Partition(TOPIC, 0): 3}:  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.01)
        worker.stop()

    (dead_letter,) = broker.records(POLICY.dead_letter_topic)
    assert sink.names == ["a", "b"]
    assert dead_letter.value == deadly
    assert dead_letter.header(CODE_HEADER) == b"our_failure"


async def test_decoder_ignores_signals(decoder: ProcessDecoder) -> None:
    await decoder.decode(chunk("a"))
    process_id = decoder.process_ids[0]

    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process_id, number)

    assert (await decoder.decode(chunk("b"))).rows["name"].to_pylist() == ["b"]
    assert decoder.process_ids == [process_id]
    assert os.getpgid(process_id) != os.getpgid(0), "Ctrl-C in a terminal goes to the whole group"


async def test_further_process_runs_only_while_chunks_come_together() -> None:
    decoder = ProcessDecoder(RULES, processes=2, idle_s=0.2)
    for name in ("a", "b"):
        await decoder.decode(chunk(name))
    first = decoder.process_ids
    assert len(first) == 1, "chunks that come one by one need one process"

    for _ in range(2):
        decoded = await asyncio.gather(*[decoder.decode(chunk(name)) for name in ("c", "d", "e")])

        assert [result.rows["name"].to_pylist() for result in decoded] == [["c"], ["d"], ["e"]]
        assert len(decoder.process_ids) == 2
        further = psutil.Process(decoder.process_ids[1])
        async with asyncio.timeout(120):
            while further.is_running():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        assert decoder.process_ids == first
    await decoder.close()


async def test_idle_process_that_gets_a_chunk_in_time_stays() -> None:
    decoder = ProcessDecoder(RULES, processes=2, idle_s=3_600)
    await asyncio.gather(*[decoder.decode(chunk(name)) for name in ("a", "b")])
    running = decoder.process_ids

    await asyncio.gather(*[decoder.decode(chunk(name)) for name in ("c", "d")])

    assert decoder.process_ids == running
    await decoder.close()
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "end idle child: decoder"]


def test_no_decoder_outlives_a_killed_worker() -> None:
    script = (
        "import time; from tests.integration.test_decoder_process import RULES, ProcessDecoder;"
        "print(ProcessDecoder(RULES, processes=1).process_ids[0], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        child = psutil.Process(int(worker.stdout.readline()))
        assert child.is_running()
        worker.kill()

    deadline = time.monotonic() + 120
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def test_drain_does_not_wait_for_a_hanging_decoder(decoder: ProcessDecoder) -> None:
    broker, sink = MemoryBroker(partitions=1), RecordingSink()
    worker = Worker(
        replace(POLICY, flush=FlushPolicy(rows_max=1_000, age_s_max=3_600)),
        Dependencies(
            source=broker.source(TOPIC),
            decoder=decoder,
            sinks=(sink,),
            positions=RecordingSink(),
            dead_letters=MemoryDeadLetters(),
            publisher=broker.publisher(),
            projects=AllProjects(),
        ),
    )
    await broker.append(TOPIC, request(["a"]))

    async with asyncio.timeout(120):
        running = asyncio.create_task(worker.run())
        while not worker._queue._decodings:  # noqa: ASYNC110 - the worker tells nobody
            await asyncio.sleep(0.001)
        os.kill(decoder.process_ids[0], signal.SIGSTOP)
        worker.stop()
        await running

    assert sink.names == []
    assert broker.committed() == {}
