"""The worker as a process, with Kafka and an engine: killed, stopped, and without one of them."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.dead_letters import DeadLetter, DeadLetterSelection, DeadLetterTable
from common.clickhouse.migrate import migrate
from common.clickhouse.store import Statement
from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.settings import ClickHouseSettings, Encoding, KafkaSettings, TopicSettings
from tests.fixtures_clickhouse import FreshSettings
from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.kafka import Broker
from tests.support.otlp import request
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.produce import produce
from tests.support.scale import scaled
from tests.support.worker import WorkerProcess, worker_process

VISIBLE = """
SELECT uniqExact(place) AS rows, uniqExact(trace_id, span_id) AS spans FROM
(
    SELECT s.trace_id AS trace_id, s.span_id AS span_id, (s.start_us, trace_id, span_id) AS place FROM spans AS s
    INNER JOIN
    (
        SELECT trace_id, span_id, argMax((partition_id, version), (record_ms, version)) AS head
        FROM span_versions FINAL GROUP BY project_id, trace_id, span_id
    ) AS h ON h.trace_id = s.trace_id AND h.span_id = s.span_id
    WHERE (s.partition_id, s.version) = h.head
)
"""
"""The visible rows: of every span each row of the version that ``span_versions`` calls the latest."""


@dataclass
class Scene:
    """A worker that is not started yet, its topic, and its engine."""

    worker: WorkerProcess
    topic: str
    kafka: KafkaSettings
    engine: ClickHouseServer
    clickhouse: ClickHouseSettings
    environment: dict[str, str]

    def publish(self, values: list[bytes]) -> None:
        produce(self.kafka.bootstrap, self.topic, values)

    def visible(self) -> tuple[int, int]:
        """Return the number of visible rows, and of different spans among them."""
        return asyncio.run(_visible(self.clickhouse))


async def _visible(settings: ClickHouseSettings) -> tuple[int, int]:
    store = open_store(settings, data_dir=Path())
    try:
        answer = await store.select(Statement(VISIBLE), deadline_s=60.0)
    finally:
        await store.close()
    return answer.column("rows")[0].as_py(), answer.column("spans")[0].as_py()


def until(condition: Callable[[], bool], *, within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.05)


@contextmanager
def _scene(
    kafka: Broker,
    postgres: PostgresServer,
    unique: str,
    engine: ClickHouseServer,
    clickhouse: ClickHouseSettings,
    log: Path,
) -> Iterator[Scene]:
    settings = kafka.settings(
        group=unique,
        topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)},
        dead_letter_topic=f"{unique}.dead",
    )
    asyncio.run(ensure_topics(settings))
    environment = {
        "CLEARSPAN_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "CLEARSPAN_KAFKA__GROUP": unique,
        "CLEARSPAN_KAFKA__SESSION_TIMEOUT_S": str(settings.session_timeout_s),
        "CLEARSPAN_KAFKA__TOPICS": json.dumps({unique: {"encoding": "otlp_proto"}}),
        "CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC": f"{unique}.dead",
        "CLEARSPAN_CLICKHOUSE__PORT": str(clickhouse.port),
        "CLEARSPAN_CLICKHOUSE__DATABASE": clickhouse.database,
        "CLEARSPAN_POSTGRES__DSN": asyncio.run(postgres.migrated_database()).dsn.get_secret_value(),
        "CLEARSPAN_INGEST__BATCH_ROWS_MAX": "2000",
        "CLEARSPAN_INGEST__RETRY_DELAY_MAX_S": "0.5",
        "CLEARSPAN_LOG_FORMAT": "text",
    }
    with worker_process(environment, log) as worker:
        yield Scene(worker, unique, settings, engine, clickhouse, environment)


@pytest.fixture
def scene(
    kafka: Broker,
    postgres: PostgresServer,
    unique: str,
    clickhouse_http: ClickHouseServer,
    http_settings: FreshSettings,
    tmp_path: Path,
) -> Iterator[Scene]:
    """A scene with its own database in the engine that tests share."""
    with _scene(kafka, postgres, unique, clickhouse_http, http_settings(), tmp_path / "worker.log") as scene:
        yield scene


@pytest.fixture
def scene_with_own_engine(kafka: Broker, postgres: PostgresServer, unique: str, tmp_path: Path) -> Iterator[Scene]:
    """A scene whose engine the test may stop."""
    with clickhouse_server(tmp_path / "clickhouse", port=free_port()) as engine:
        asyncio.run(migrate(engine.settings(), data_dir=tmp_path))
        with _scene(kafka, postgres, unique, engine, engine.settings(), tmp_path / "worker.log") as scene:
            yield scene


def requests(count: int, *, spans: int) -> list[bytes]:
    """Return ``count`` records with ``spans`` spans each, all different."""
    return [request([f"{record}.{number}" for number in range(spans)]) for record in range(count)]


@pytest.mark.kafka
@pytest.mark.scaled
def test_killed_worker_loses_no_span_and_stores_none_twice(scene: Scene) -> None:
    spans_count, kills = scaled(4_000, 50_000), scaled(2, 10)
    values = requests(spans_count // 50, spans=50)
    scene.worker.start()
    scene.worker.wait_until_ready()

    for number in range(kills):
        # Publish each part while the worker that will be killed is running.
        scene.publish(values[number::kills])
        until(lambda: scene.worker.metric("clearspan_insert_seconds_count") > 0)
        time.sleep(number * 0.007)  # a little later each time, to hit another step of a batch
        scene.worker.end(signal.SIGKILL)
        scene.worker.start()
    until(lambda: scene.visible()[1] >= spans_count)

    assert scene.visible() == (spans_count, spans_count)
    scene.worker.wait_until_ready()  # the worker that was killed may have stored everything
    assert scene.worker.end(signal.SIGTERM) == 0


@pytest.mark.kafka
def test_sigterm_drains_commits_and_ends(scene: Scene) -> None:
    scene.worker.start()
    scene.worker.wait_until_ready()
    scene.publish(requests(40, spans=10))
    until(lambda: scene.worker.metric("clearspan_records_in_total") == 40)

    assert scene.worker.end(signal.SIGTERM) == 0

    assert scene.visible() == (400, 400)
    assert asyncio.run(_uncommitted(scene.kafka)) == 0


@pytest.mark.kafka
def test_worker_waits_for_the_engine_and_names_it(scene_with_own_engine: Scene, tmp_path: Path) -> None:
    scene = scene_with_own_engine
    scene.worker.start()
    scene.worker.wait_until_ready()
    scene.engine.stop()
    scene.publish(requests(10, spans=10))

    until(lambda: "store" in scene.worker.readiness())
    with clickhouse_server(tmp_path / "clickhouse", port=scene.engine.port):
        until(lambda: not scene.worker.readiness())
        until(lambda: scene.visible() == (100, 100))

        assert scene.worker.end(signal.SIGTERM) == 0


@pytest.mark.kafka
@pytest.mark.long
def test_second_sigterm_ends_the_worker_at_once_without_a_commit(scene_with_own_engine: Scene) -> None:
    scene = scene_with_own_engine
    scene.worker.start()
    scene.worker.wait_until_ready()
    scene.engine.stop()
    scene.publish(requests(1, spans=1))
    until(lambda: "store" in scene.worker.readiness())

    scene.worker.send(signal.SIGTERM)
    until(lambda: "Stopping: " in scene.worker.log.read_text())
    started_s = time.monotonic()
    exit_code = scene.worker.end(signal.SIGTERM)

    assert exit_code == 128 + signal.SIGTERM
    assert time.monotonic() - started_s < 15
    assert asyncio.run(_uncommitted(scene.kafka)) == 1


def test_worker_names_what_it_waits_for_and_obeys_sigterm(tmp_path: Path) -> None:
    environment = {
        "CLEARSPAN_KAFKA__BOOTSTRAP": f"127.0.0.1:{free_port()}",
        "CLEARSPAN_CLICKHOUSE__PORT": str(free_port()),
        "CLEARSPAN_POSTGRES__DSN": f"postgresql://nobody@127.0.0.1:{free_port()}/nothing",
    }
    with worker_process(environment, tmp_path / "worker.log") as worker:
        worker.start()
        until(lambda: "Kafka is unavailable" in worker.readiness().get("kafka", ""))
        until(lambda: {"kafka", "clickhouse", "postgres"} <= set(worker.readiness()))

        assert worker.end(signal.SIGTERM) == 0


@pytest.mark.kafka
@pytest.mark.long
def test_rebalanced_workers_lose_nothing_and_store_nothing_twice(scene: Scene, tmp_path: Path) -> None:
    values = requests(60, spans=20)
    with worker_process(scene.environment, tmp_path / "second.log") as second:
        scene.worker.start()
        scene.worker.wait_until_ready()
        scene.publish(values[:20])
        second.start()
        scene.publish(values[20:40])
        second.wait_until_ready()
        assert scene.worker.end(signal.SIGTERM) == 0
        scene.publish(values[40:])
        until(lambda: scene.visible()[1] >= 1_200)

        assert second.end(signal.SIGTERM) == 0

    assert scene.visible() == (1_200, 1_200)
    assert asyncio.run(_uncommitted(scene.kafka)) == 0


@pytest.mark.kafka
def test_ten_bad_spans_of_a_thousand_are_ten_dead_letters(scene: Scene) -> None:
    names = [f"s{number}" for number in range(1_000)]
    scene.publish([request(names, absurd=names[::100])])
    scene.worker.start()
    until(lambda: scene.worker.metric("clearspan_dead_letters_total") == 10)

    assert scene.worker.end(signal.SIGTERM) == 0

    found = asyncio.run(_dead_letters(scene.clickhouse))
    assert scene.visible() == (990, 990)
    assert sorted(letter.span_index or 0 for letter in found) == list(range(0, 1_000, 100))
    assert {letter.code for letter in found} == {"absurd_time"}


async def _dead_letters(settings: ClickHouseSettings) -> list[DeadLetter]:
    store = open_store(settings, data_dir=Path())
    try:
        return await DeadLetterTable(store, deadline_s=60.0).select(DeadLetterSelection(), limit=100)
    finally:
        await store.close()


async def _uncommitted(kafka: KafkaSettings) -> int:
    """Return the number of records that the group would read again."""
    source = KafkaSource(kafka)

    async def nothing(_: object) -> None:
        """Only offsets are read."""

    await source.open(on_revoked=nothing, on_assigned=nothing)
    try:
        return sum((await source.lag()).values())
    finally:
        await source.close()
