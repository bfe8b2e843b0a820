"""Worker, API and deliverer as processes on a Kafka with TLS, SASL and ACLs, each with the rights of
``docs/secure-connections.md``."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import asyncpg
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.store import Statement
from common.kafka.cluster import ensure_topics
from common.kafka.offsets import uncommitted
from common.kafka.producer import KafkaPublisher
from common.kafka.record import PROJECT_HEADER
from common.settings import ClickHouseSettings, KafkaSettings, PostgresSettings
from tests.fixtures_clickhouse import FreshSettings
from tests.support.otlp import request
from tests.support.postgres import PostgresServer
from tests.support.secure_kafka import PASSWORD, STRANGER, SecureKafka, grant, token_of
from tests.support.worker import WorkerProcess

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
WITHIN_S = 120.0
MINE = UUID(int=77)
OF_COMMAND = {"a producer": "producer", "ingest": "worker", "serve": "api", "deliver": "deliverer"}
RIGHT = re.compile(r"^\|([^|]*)\| (topic|group): ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NO_USER = {"SASL__USERNAME": "", "SASL__PASSWORD": ""}


@dataclass
class Scene:
    """A cluster with the topics and rights of one installation, and the environment of its processes."""

    secure: SecureKafka
    name: str
    kafka: KafkaSettings
    """Those of an administrator of the cluster."""

    clickhouse: ClickHouseSettings
    environment: dict[str, str]
    directory: Path

    @contextmanager
    def running(
        self, command: Literal["ingest", "deliver", "serve"], kafka: Mapping[str, str]
    ) -> Iterator[WorkerProcess]:
        """Start a process with these variables of Kafka; kill it at the end, and look for secrets in its log."""
        variables = {f"CLEARSPAN_KAFKA__{name}": text for name, text in kafka.items()}
        log = self.directory / f"{command}.log"
        process = WorkerProcess({**self.environment, **variables}, log, command=command)
        try:
            process.start()
            yield process
        finally:
            process.end(signal.SIGKILL)
        for secret in (PASSWORD, token_of("api")[:30]):
            assert secret not in log.read_text()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WITHIN_S} s"
        time.sleep(0.05)


def rights_of_the_docs() -> list[tuple[str, str, str, str]]:
    """Return user, kind of resource, resource and operation, as the page has them."""
    rights, user = [], ""
    for who, kind, resource, operations in RIGHT.findall((ROOT / "docs/projects-and-keys.md").read_text()):
        user = OF_COMMAND[who.strip(" `").removeprefix("clearspan ")] if who.strip() else user
        rights += [(user, kind, resource.strip(), operation) for operation in re.findall(r"`(\w+)`", operations)]
    return rights


async def _prepare(secure: SecureKafka, kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    untrusted = [name for name, topic in kafka.topics.items() if not topic.trust_project]
    names = {
        "its own": untrusted,
        "each of `CLEARSPAN_KAFKA__TOPICS`": [*kafka.topics],
        "`CLEARSPAN_KAFKA__GROUP`": [kafka.group],
        "`CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC`": [kafka.dead_letter_topic],
        "`CLEARSPAN_KAFKA__STORED_TOPIC`": [kafka.stored_topic],
    }
    for user, kind, resource, operation in rights_of_the_docs():
        for name in names[resource]:
            await grant(secure, user, kind, name, operation)


async def _add_project(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn.get_secret_value())
    await connection.execute("INSERT INTO projects (id, name) VALUES ($1, 'mine')", MINE)
    await connection.close()


@pytest.fixture
def scene(
    secure: SecureKafka, postgres: PostgresServer, http_settings: FreshSettings, unique: str, tmp_path: Path
) -> Scene:
    topics = {
        f"{unique}.otlp": {"encoding": "otlp_proto"},
        f"{unique}.spans": {"encoding": "span_json"},
        f"{unique}.mine": {"encoding": "otlp_proto", "project_id": str(MINE), "trust_project": False},
    }
    own = {
        "GROUP": unique,
        "TOPICS": json.dumps(topics),
        "INTAKE_TOPIC": f"{unique}.spans",
        "OTLP_TOPIC": f"{unique}.otlp",
        "DEAD_LETTER_TOPIC": f"{unique}.dead",
        "STORED_TOPIC": f"{unique}.stored",
        "SESSION_TIMEOUT_S": "2",
    }
    members = {name.lower(): text for name, text in own.items()} | {"topics": topics, "partitions": 1}
    kafka = KafkaSettings.model_validate({**dict(secure.settings()), **members})
    asyncio.run(_prepare(secure, kafka))
    clickhouse, database = http_settings(), asyncio.run(postgres.migrated_database())
    asyncio.run(_add_project(database))
    environment = {f"CLEARSPAN_KAFKA__{name}": text for name, text in own.items()} | {
        "CLEARSPAN_CLICKHOUSE__PORT": str(clickhouse.port),
        "CLEARSPAN_CLICKHOUSE__DATABASE": clickhouse.database,
        "CLEARSPAN_POSTGRES__DSN": database.dsn.get_secret_value(),
        "CLEARSPAN_AUTH": "off",
        "CLEARSPAN_OTLP_HTTP_PORT": "0",
        "CLEARSPAN_OTLP_GRPC_PORT": "0",
        "CLEARSPAN_INGEST__RETRY_DELAY_MAX_S": "0.5",
        "CLEARSPAN_LOG_FORMAT": "text",
        "CLEARSPAN_DATA_DIR": str(tmp_path),
    }
    return Scene(secure, unique, kafka, clickhouse, environment, tmp_path)


async def _publish(settings: KafkaSettings, topic: str, values: list[bytes], **headers: str) -> None:
    publisher = KafkaPublisher(settings)
    for value in values:
        await publisher.publish(topic, value, headers=[(name, text.encode()) for name, text in headers.items()])
    await publisher.close()


async def _projects(settings: ClickHouseSettings) -> dict[str, UUID]:
    """Return the project of each span that is stored, by its name."""
    store = open_store(settings, data_dir=Path())
    rows = (await store.select(Statement("SELECT name, project_id FROM spans"), deadline_s=60.0)).to_pylist()
    await store.close()
    return {row["name"].decode(): row["project_id"] for row in rows}


def _ask(port: int, path: str, body: object = None, *, kind: str = "application/json") -> Any:
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": kind})
    with urllib.request.urlopen(asked, timeout=WITHIN_S) as answer:
        content = answer.read()
    return json.loads(content) if kind == "application/json" else content


@pytest.mark.timeout(600)
def test_the_whole_way_with_the_documented_rights_and_no_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secure, name = scene.secure, scene.name
    (scene.directory / "token").write_text(token_of("api"))
    of_worker = secure.environment(SASL__USERNAME="worker", SASL__PASSWORD="", SASL__PASSWORD_FILE=_password(scene))
    of_api = secure.environment(
        "SECURE", "OAUTHBEARER", SASL__TOKEN_FILE=str(scene.directory / "token"), CLIENT_RACK="a", **NO_USER
    )
    of_deliverer = secure.environment("SECURE", "PLAIN", SASL__USERNAME="deliverer")
    with ExitStack() as running:
        worker = running.enter_context(scene.running("ingest", of_worker))
        api = running.enter_context(scene.running("serve", of_api))
        deliverer = running.enter_context(scene.running("deliver", of_deliverer))
        for process in (worker, api, deliverer):
            process.wait_until_ready()
        of_producer = secure.settings(SASL__USERNAME="producer")
        claim = {PROJECT_HEADER: str(UUID(int=1))}

        first = _ask(api.port, "/spans/query", {"windowing": {"by": "created_at", "limit": 10}})
        _ask(api.port, "/otlp/v1/traces", request(["over HTTP"]), kind="application/x-protobuf")
        records = [request(["mine"]), request(["bad"], absurd=["bad"])]
        asyncio.run(_publish(of_producer, f"{name}.mine", records, **claim))
        cursor = {"by": "created_at", "limit": 10, "wait_s": 30, "next": first["windowing"]["next"]}
        fed = _ask(api.port, "/spans/query", {"windowing": cursor})
        until(lambda: set(asyncio.run(_projects(scene.clickhouse))) == {"over HTTP", "mine"})
        until(lambda: _ask(api.port, "/admin/dead-letters")["count"] == 1)
        [letter] = _ask(api.port, "/admin/dead-letters")["dead_letters"]
        replayed = _ask(api.port, "/admin/dead-letters/replay", {"code": "absurd_time"})
        until(lambda: worker.metric("clearspan_dead_letters_total") == 2)

        assert [span["span_name"] for span in fed["spans"]] == ["over HTTP"]
        assert asyncio.run(_projects(scene.clickhouse))["mine"] == MINE
        assert (letter["project"], replayed["count"]) == (str(MINE), 1)
        assert worker.end(signal.SIGTERM) == 0
        assert asyncio.run(uncommitted(scene.kafka, scene.kafka.topics)) == {}
        assert (deliverer.end(signal.SIGTERM), api.end(signal.SIGTERM)) == (0, 0)


def _password(scene: Scene) -> str:
    file = scene.directory / "password"
    file.write_text(f"{PASSWORD}\n")
    return str(file)


def _command_environment(scene: Scene) -> dict[str, str]:
    variables = scene.secure.environment(SASL__USERNAME="api")
    return {**scene.environment, **{f"CLEARSPAN_KAFKA__{name}": text for name, text in variables.items()}}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"SASL__PASSWORD": "wrong"}, "refuses the credentials; see CLEARSPAN_KAFKA__SASL__USERNAME"),
        ({"TLS__CA_FILE": ""}, "see CLEARSPAN_KAFKA__TLS__CA_FILE"),
        ({"SASL__USERNAME": STRANGER}, "This user may not create the topic"),
    ],
    ids=["password", "authority", "rights"],
)
def test_worker_says_why_it_waits(scene: Scene, changed: dict[str, str], reason: str) -> None:
    with scene.running("ingest", scene.secure.environment(**changed)) as worker:
        until(lambda: reason in json.dumps(worker.readiness()))
        assert reason in worker.log.read_text()
        assert worker.end(signal.SIGTERM) == 0
