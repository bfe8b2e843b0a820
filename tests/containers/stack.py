"""The compose files in a copy of the checkout, with ports and volumes that no other stack has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.containers.engine import ROOT
from tests.containers.stand_ins import official_images
from tests.support.ports import free_port
from tests.support.shell_pages import blocks

ADMIN_KEY: Final = "an-admin-key-of-a-test-that-is-long-enough"
WITHIN_S: Final = 180.0
COPIED: Final = ("common", "ingest", "query_api", "jobs", "clearspan", "deploy", "requirements")
PORTS: Final = (
    *("CLEARSPAN_API_PORT", "CLEARSPAN_KAFKA_PORT", "CLEARSPAN_OTLP_GRPC_PORT", "CLEARSPAN_OTLP_HTTP_PORT"),
    *("CLEARSPAN_WORKER_PORT", "CLEARSPAN_DELIVER_PORT"),
)
SECRETS: Final = ("clickhouse_password", "postgres_password", "admin_key")


@dataclass(frozen=True, slots=True)
class Stack:
    """What the compose files start, and a key of the default project."""

    directory: Path
    environment: Mapping[str, str]
    ports: Mapping[str, int]
    key: str = ""

    def compose(self, *arguments: str) -> str:
        """Run `docker compose` as a person does in a checkout; return what it prints."""
        return self.run("docker", "compose", *arguments)

    def run(self, *command: str) -> str:
        """Run a command in the copy of the checkout."""
        ran = subprocess.run(
            command,
            cwd=self.directory,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{' '.join(command)}: {ran.stdout[-2_000:]}{ran.stderr[-4_000:]}"
        return ran.stdout

    def inside(self, service: str, *command: str) -> str:
        """Run a command in a container; return what it prints."""
        return self.compose("exec", "-T", service, *command)

    def address(self, port: str) -> str:
        """Return the address on this machine of a published port, by its variable."""
        return f"127.0.0.1:{self.ports[port]}"

    def send(self, path: str, body: bytes, *, port: str = "CLEARSPAN_API_PORT", **headers: str) -> bytes:
        """POST with the key of the project."""
        return self._respond(port, path, body, {"Authorization": f"ApiKey {self.key}", **_named(headers)})

    def get(self, path: str, *, port: str = "CLEARSPAN_API_PORT", **headers: str) -> bytes:
        """GET without the key of the project."""
        return self._respond(port, path, None, _named(headers))

    def _respond(self, port: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        request = urllib.request.Request(f"http://{self.address(port)}{path}", data=body, headers=dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as exc:
            exc.close()
            raise

    def admin(self, path: str) -> Any:
        """GET with the key of the administrator."""
        return json.loads(self.get(path, authorization=f"Access {ADMIN_KEY}"))

    def names(self) -> Counter[str]:
        """Return how often a query finds each name of a span."""
        response = self.send("/spans/query", b'{"windowing": {"limit": 10000}}', content_type="application/json")
        return Counter(span["span_name"] for span in json.loads(response)["spans"])

    def finds(self, names: Iterable[str]) -> None:
        """Wait until a query finds spans of these names; each has to be there once."""
        sent = set(names)
        self.until(lambda: not sent - set(self.names()), what=f"the {len(sent)} spans that were sent are found")
        stored = self.names()
        assert {name: stored[name] for name in sent if stored[name] != 1} == {}

    def until(self, condition: Callable[[], bool], *, what: str) -> None:
        """Return when the condition holds; an API that does not respond counts as not yet."""
        deadline_s = time.monotonic() + WITHIN_S
        while not _holds(condition):
            if time.monotonic() > deadline_s:
                raise AssertionError(f"not within {WITHIN_S:g} s: {what}\n{self.compose('logs', '--tail', '30')}")
            time.sleep(0.2)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except OSError:
        return False


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def copied_stack(directory: Path, engine: Mapping[str, str], *, has_secrets: bool) -> Iterator[Stack]:
    """Copy what a checkout needs to run; at the end delete containers and volumes."""
    for name in COPIED:
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for name in ("docker-compose.yml", ".dockerignore", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, directory)
    shutil.copy(Path(__file__).with_name("receiver.yml"), directory / "docker-compose.override.yml")
    ports = {name: free_port() for name in PORTS}
    variables = {
        "COMPOSE_PROJECT_NAME": f"clearspan-test-{uuid.uuid4().hex[:12]}",
        "PYTHON_IMAGE": official_images()["python"],
        **ports,
    }
    if has_secrets:
        (directory / "secrets").mkdir()
        for name in SECRETS:
            (directory / "secrets" / name).write_text(ADMIN_KEY)
        variables["COMPOSE_FILE"] = "docker-compose.yml:deploy/compose-secrets.yml"
    else:
        variables["CLEARSPAN_ADMIN_KEY"] = ADMIN_KEY
    (directory / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    # No variable of this shell: it would win over the file.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
    stack = Stack(directory, {**environment, **engine}, ports)
    try:
        yield stack
    finally:
        stack.compose("down", "--volumes", "--timeout", "0")


def start(stack: Stack) -> Stack:
    """Run the first commands of `docs/deployment.md`; return the stack with the key that they print."""
    [text, *_] = [text for kind, text in blocks("deployment.md") if kind == "bash"]
    up, create_key, audit = text.splitlines()
    stack.run("bash", "-c", up)
    key = stack.run("bash", "-c", create_key).split()[0]
    stack.run("bash", "-c", audit.replace("…", key))
    return replace(stack, key=key)
