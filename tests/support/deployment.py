"""Workers and APIs as processes over real servers, of the code of this tree or of a newer release.

A release is a directory with the packages of Clearspan. Its processes use the other packages of this interpreter.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from common.kafka.cluster import ensure_topics
from common.settings import ClickHouseSettings, Encoding, KafkaSettings, PostgresSettings, TopicSettings
from tests.support.kafka import Broker
from tests.support.ports import free_port
from tests.support.stack import PATIENT

ROOT: Final = Path(__file__).parents[2]
WITHIN_S: Final = 180.0
PACKAGES: Final = ("clearspan", "common", "ingest", "query_api")
ADMIN_KEY: Final = "the-key-of-the-admin"


@dataclass(frozen=True, slots=True)
class Release:
    """The packages of Clearspan in a directory."""

    name: str
    directory: Path


THIS: Final = Release("this", ROOT)

NEXT_MIGRATIONS: Final = {
    "clickhouse": "ALTER TABLE spans{local} ADD COLUMN IF NOT EXISTS next UInt8 DEFAULT 7;\n",
    "postgres": "ALTER TABLE projects ADD COLUMN next integer NOT NULL DEFAULT 7;\n",
}
"""Of each database, what only the next release has."""


def next_release(directory: Path) -> Release:
    """Copy this release, with one more migration of each database."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, directory / package, ignore=shutil.ignore_patterns("node_modules"))
    for database, text in NEXT_MIGRATIONS.items():
        (directory / "common" / database / "ddl" / "9999_next.sql").write_text(text)
    return Release("next", directory)


class Answer(NamedTuple):
    """A response of success."""

    body: Any
    headers: Mapping[str, str]


@dataclass(slots=True)
class ServerProcess:
    """One process of Clearspan with its port."""

    release: Release
    command: Literal["serve", "ingest"]
    environment: Mapping[str, str]
    log: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "clearspan", self.command],
                cwd=self.release.directory,
                env={
                    **self.environment,
                    f"CLEARSPAN_{'API' if self.command == 'serve' else 'WORKER'}_PORT": str(self.port),
                },
                stdout=log,
                stderr=log,
            )
        until(self._is_ready, what=f"{self.command} of {self.release.name} is ready")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait, and return the exit code; 0 if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(WITHIN_S)

    def call(self, path: str, body: Any = None, *, authorization: str, **headers: str) -> Answer:
        """POST ``body``, or GET without one."""
        sent = {"Authorization": authorization, **{name.replace("_", "-"): text for name, text in headers.items()}}
        data = None if body is None else json.dumps(body).encode()
        sent |= {} if data is None else {"Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.address + path, data, sent), timeout=120) as answer:
                return Answer(json.load(answer), answer.headers)
        except urllib.error.HTTPError as failed:
            raise AssertionError(f"{self.release.name}: {path}: {failed.code} {failed.read()[:500]!r}") from failed

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-3_000:]
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Deployment:
    """Topics and databases of one test, and the environment of the processes that use them."""

    kafka: KafkaSettings
    environment: Mapping[str, str]
    logs: Path
    processes: list[ServerProcess] = field(default_factory=list)

    def over(self, clickhouse: ClickHouseSettings, postgres: PostgresSettings) -> Deployment:
        """Return the same with other databases."""
        return replace(self, environment={**self.environment, **_databases(clickhouse, postgres)})

    def command(self, release: Release, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``clearspan`` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "clearspan", *arguments],
            cwd=release.directory,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    def imported_from(self, release: Release) -> set[Path]:
        """Return the directories of the packages that processes of a release import."""
        program = f"for name in {PACKAGES}: print(__import__(name).__file__)"
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=release.directory,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=True,
        )
        return {Path(line).parents[1] for line in ran.stdout.splitlines()}

    def start(self, release: Release, command: Literal["serve", "ingest"]) -> ServerProcess:
        """Start a process, and return it when it is ready."""
        log = self.logs / f"{command}-{release.name}-{len(self.processes)}.log"
        process = ServerProcess(release, command, self.environment, log)
        self.processes.append(process)
        process.start()
        return process


def _databases(clickhouse: ClickHouseSettings, postgres: PostgresSettings) -> dict[str, str]:
    return {
        "CLEARSPAN_CLICKHOUSE__PORT": str(clickhouse.port),
        "CLEARSPAN_CLICKHOUSE__DATABASE": clickhouse.database,
        "CLEARSPAN_POSTGRES__DSN": postgres.dsn.get_secret_value(),
    }


@contextmanager
def deployment(
    kafka: Broker, clickhouse: ClickHouseSettings, postgres: PostgresSettings, unique: str, logs: Path
) -> Iterator[Deployment]:
    """Topics of its own over these servers; every process that was started is killed at the end."""
    names = {name: f"{unique}.{name}" for name in ("otlp", "json", "dead_letter", "stored")}
    topics = {names["otlp"]: Encoding.OTLP_PROTO, names["json"]: Encoding.SPAN_JSON}
    settings = kafka.settings(
        group=unique,
        topics={name: TopicSettings(encoding=encoding) for name, encoding in topics.items()},
        intake_topic=names["json"],
        otlp_topic=names["otlp"],
        dead_letter_topic=names["dead_letter"],
        stored_topic=names["stored"],
    )
    asyncio.run(ensure_topics(settings))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CLEARSPAN_")},
        **PATIENT,
        **_databases(clickhouse, postgres),
        "CLEARSPAN_POSTGRES__TIMEOUT_S": "60",
        "CLEARSPAN_ADMIN_KEY": ADMIN_KEY,
        "CLEARSPAN_OTLP_HTTP_PORT": "0",
        "CLEARSPAN_OTLP_GRPC_PORT": "0",
        "CLEARSPAN_COMPUTE__PROCESSES": "0",
        "CLEARSPAN_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "CLEARSPAN_KAFKA__GROUP": unique,
        "CLEARSPAN_KAFKA__SESSION_TIMEOUT_S": str(settings.session_timeout_s),
        "CLEARSPAN_KAFKA__TOPICS": json.dumps({name: {"encoding": encoding} for name, encoding in topics.items()}),
        "CLEARSPAN_KAFKA__INTAKE_TOPIC": settings.intake_topic,
        "CLEARSPAN_KAFKA__OTLP_TOPIC": settings.otlp_topic,
        "CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC": settings.dead_letter_topic,
        "CLEARSPAN_KAFKA__STORED_TOPIC": settings.stored_topic,
        "CLEARSPAN_INGEST__DECODE_PROCESSES": "0",
        "CLEARSPAN_LOG_FORMAT": "text",
    }
    deployed = Deployment(settings, environment, logs)
    try:
        yield deployed
    finally:
        for process in deployed.processes:
            process.end(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Project:
    """A project of its own with a key, as clients use it through any API of a deployment."""

    authorization: str

    @staticmethod
    def create(api: ServerProcess) -> Project:
        """Create a user with a project and a key."""
        options = {"create_api_keys": True, "return_api_keys": True}
        account = {"user": {"email": f"{time.time_ns()}@example.org"}, "options": options}
        body = {"accounts": {"a": account}}
        made = api.call("/admin/simple/accounts/", body, authorization=f"Access {ADMIN_KEY}").body["accounts"]["a"]
        [key] = made["api_keys"].values()
        return Project(f"ApiKey {key}")

    def call(self, api: ServerProcess, path: str, body: Any = None, **headers: str) -> Answer:
        """POST ``body``, or GET without one."""
        return api.call(path, body, authorization=self.authorization, **headers)

    def send(self, api: ServerProcess, names: list[str]) -> str:
        """Send a span of each name, in traces of five; return the coordinates of their records."""
        spans = [span_of(name) for name in names]
        return str(self.call(api, "/tracing/spans/ingest", {"spans": spans}).headers["X-Clearspan-Coordinates"])

    def page(self, api: ServerProcess, windowing: Mapping[str, Any], **headers: str) -> tuple[list[str], str]:
        """Return the names of the spans of a page or of the feed, and the cursor after it ('' at the end)."""
        body = self.call(api, "/spans/query", {"windowing": windowing}, **headers).body
        return [span["span_name"] for span in body["spans"]], body.get("windowing", {}).get("next", "")

    def walk(self, apis: list[ServerProcess], *, cursor: str = "", limit: int = 50) -> list[str]:
        """Read all pages from a cursor on, each through the next API in turn."""
        found, number = [], 0
        while number == 0 or cursor:
            at = {"next": cursor} if cursor else {}
            names, cursor = self.page(apis[number % len(apis)], {"limit": limit, **at})
            found += names
            number += 1
        return found


def span_of(name: str) -> dict[str, Any]:
    """Return a span whose ids follow from its name, a text of digits."""
    number = int(name)
    return {
        "trace_id": f"{number // 5 + 1:032x}",
        "span_id": f"{number + 1:016x}",
        "span_name": name,
        "start_time": f"2026-01-01T00:00:00.{number % 1_000:06}Z",
        "attributes": {"number": number},
    }


def until(condition: Callable[[], bool], *, what: str, within_s: float = WITHIN_S) -> None:
    """Return when the condition holds."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)
