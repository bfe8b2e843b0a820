"""The embedded stack as a process, with its addresses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearspan.embedded.layout import Layout
from tests.support.metrics import metric
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
READY_S = 240.0
FOUND_S = 120.0
PATIENT = {f"CLEARSPAN_QUERY__{name}_S": "60" for name in ("BUDGET", "QUEUE", "WAIT_FOR_MAX")}
"""Time limits of requests: on a busy machine the default of 15 s is not enough."""


def stack_environment(data_dir: Path, **more: str) -> dict[str, str]:
    """The environment of a stack on free ports below ``data_dir``."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CLEARSPAN_")}
    return {
        **clean,
        "CLEARSPAN_DATA_DIR": str(data_dir),
        "CLEARSPAN_API_PORT": str(free_port()),
        "CLEARSPAN_WORKER_PORT": str(free_port()),
        "CLEARSPAN_KAFKA_PORT": str(free_port()),
        "CLEARSPAN_OTLP_HTTP_PORT": str(free_port()),
        "CLEARSPAN_OTLP_GRPC_PORT": str(free_port()),
        **PATIENT,
        **more,
    }


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A stack that is ready."""

    environment: Mapping[str, str]
    process: subprocess.Popen[bytes]

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.environment['CLEARSPAN_API_PORT']}"

    @property
    def otlp(self) -> str:
        return f"http://127.0.0.1:{self.environment['CLEARSPAN_OTLP_HTTP_PORT']}"

    @property
    def otlp_grpc(self) -> str:
        return f"127.0.0.1:{self.environment['CLEARSPAN_OTLP_GRPC_PORT']}"

    @property
    def worker(self) -> str:
        return f"http://127.0.0.1:{self.environment['CLEARSPAN_WORKER_PORT']}"

    @property
    def kafka(self) -> str:
        return f"127.0.0.1:{self.environment['CLEARSPAN_KAFKA_PORT']}"

    @property
    def process_ids(self) -> tuple[int, int]:
        """The stack, whose children are its own, and Postgres, which is in no tree of it."""
        postgres = Layout(Path(self.environment["CLEARSPAN_DATA_DIR"])).postgres
        return self.process.pid, int((postgres / "postmaster.pid").read_text().split()[0])

    def wait_until_stored(self, count: int, *, within_s: float) -> None:
        """Return when the worker has stored this many spans since its start; fail if that takes too long."""
        deadline_s = time.monotonic() + within_s
        while (stored := metric(self.worker, "clearspan_spans_stored_total")) < count:
            assert time.monotonic() < deadline_s, f"only {stored:,.0f} of {count:,} spans are stored after {within_s} s"
            time.sleep(0.05)

    def ask(self, path: str, body: Any = None) -> dict[str, Any]:
        """POST ``body``, or GET without one; return the JSON response."""
        return ask(self.api, path, body)

    def ask_until(self, path: str, body: Any, is_enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Repeat the request until ``is_enough``; fail with the last response after ``FOUND_S``."""
        deadline_s = time.monotonic() + FOUND_S
        while True:
            answer = self.ask(path, body)
            if is_enough(answer):
                return answer
            assert time.monotonic() < deadline_s, f"not found in {FOUND_S} s: {json.dumps(answer)[:2000]}"
            time.sleep(0.05)

    def command(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run ``clearspan`` against this stack."""
        return clearspan(self.environment, *arguments, stdin=stdin)


def ask(address: str, path: str, body: Any = None) -> dict[str, Any]:
    """POST ``body`` to an API, or GET without one; return the JSON response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data=data, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        result: dict[str, Any] = json.load(response)
    return result


def clearspan(environment: Mapping[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line with an environment."""
    return subprocess.run(
        [sys.executable, "-m", "clearspan", *arguments],
        cwd=ROOT,
        env=dict(environment),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@contextmanager
def running_stack(data_dir: Path, **more: str) -> Iterator[RunningStack]:
    """A stack in the foreground of a child process; drained and stopped at the end."""
    environment = stack_environment(data_dir, **more)
    log = data_dir.with_suffix(".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "clearspan", "up"], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    stack = RunningStack(environment, process)
    try:
        wait_until_ready([stack.api, stack.worker], process, log)
        yield stack
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(180)


def wait_until_ready(addresses: Sequence[str], process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when every ``/readyz`` is green."""
    deadline_s = time.monotonic() + READY_S
    while not all(_is_ready(address) for address in addresses):
        assert process.poll() is None, f"ended with {process.returncode}:\n{log.read_text()[-4000:]}"
        assert time.monotonic() < deadline_s, f"not ready:\n{log.read_text()[-4000:]}"
        time.sleep(0.05)


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=30) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
