"""Names that a name server never answers for, chosen by one project, in the embedded stack (ADR 0034)."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.stack import RunningStack, running_stack

pytestmark = pytest.mark.long

ADMIN_KEY: Final = "of-the-test"
SUBSCRIPTIONS_COUNT: Final = 24
SHARE: Final = 8
"""Half of the look-ups that a process makes at the same time."""

WITHIN_S: Final = 60.0
ZONE: Final = ".slow.example"
HOOK: Final = f'''
import os, socket, time

resolve = socket.getaddrinfo

def slow(host, *arguments, flags=0, **options):
    if str(host).endswith("{ZONE}") and not flags & socket.AI_NUMERICHOST:
        with open(os.environ["SLOW_NAMES"], "a") as file:
            print(host, file=file, flush=True)
        while True:
            time.sleep(1)
    return resolve(host, *arguments, flags=flags, **options)

socket.getaddrinfo = slow
'''
"""The name server of the zone never answers, as that of a project may do."""


def test_names_that_hang_stop_no_other_project_and_no_storing(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    asked.touch()
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    environment = {
        "CLEARSPAN_AUTH": "on",
        "CLEARSPAN_ADMIN_KEY": ADMIN_KEY,
        "CLEARSPAN_QUERY__QUEUE_S": "10",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "SLOW_NAMES": str(asked),
    }
    with running_stack(tmp_path / "data", **environment) as stack, ThreadPoolExecutor(SUBSCRIPTIONS_COUNT) as attack:
        attacker, victim = _key(stack), _key(stack)
        creating = [attack.submit(_create, stack, attacker, number) for number in range(SUBSCRIPTIONS_COUNT)]
        _until(lambda: len(asked.read_text().splitlines()) >= SHARE)

        for number in range(1, 4):
            coordinates = _store(stack, victim, number)
            body = {"windowing": {"limit": 10}}
            found, _ = _send(stack, "/spans/query", body, victim, **{"X-Clearspan-Wait-For": coordinates})
            assert found["count"] == number
            exported, _ = _send(stack, "/spans/export?format=csv", None, victim)
            assert len(exported.splitlines()) == 1 + number

        assert len(asked.read_text().splitlines()) == SHARE
        stack.process.send_signal(signal.SIGTERM)
        assert stack.process.wait(120) == 0
        assert all(each.result() in {0, 200, 429, 503} for each in creating)


def _key(stack: RunningStack) -> str:
    """Create a user with a project; return its key."""
    options = {"create_api_keys": True, "return_api_keys": True}
    account = {"user": {"email": f"{time.time_ns()}@example.org"}, "options": options}
    made, _ = _send(stack, "/admin/simple/accounts/", {"accounts": {"a": account}}, f"Access {ADMIN_KEY}")
    [key] = made["accounts"]["a"]["api_keys"].values()
    return f"ApiKey {key}"


def _send(stack: RunningStack, path: str, body: Any, key: str, **headers: str) -> tuple[Any, Any]:
    """POST ``body``, or GET without one; return the body of the response and its headers."""
    data = None if body is None else json.dumps(body).encode()
    headers |= {"authorization": key, "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(stack.api + path, data, headers), timeout=WITHIN_S) as answer:
        text = answer.read().decode()
        return json.loads(text) if "json" in answer.headers["content-type"] else text, answer.headers


def _store(stack: RunningStack, key: str, number: int) -> str:
    """Send a span; return its coordinates."""
    span = {"trace_id": f"{number:032x}", "span_id": f"{number:016x}", "span_name": "s", "start_time": time.time()}
    _, headers = _send(stack, "/tracing/spans/ingest", {"spans": [span]}, key)
    return str(headers["X-Clearspan-Coordinates"])


def _create(stack: RunningStack, key: str, number: int) -> int:
    """Create a subscription to a name in the zone; return the status, or 0 if the stack stops meanwhile."""
    host = f"h{number}{ZONE}"
    targets = (
        {"kind": "webhook", "url": f"http://{host}/"},
        {"kind": "otlp", "endpoint": f"http://{host}/"},
        {"kind": "kafka", "bootstrap": f"{host}:9092", "topic": "t"},
    )
    subscription = {"slug": f"s{number}", "target": targets[number % len(targets)]}
    try:
        _send(stack, "/subscriptions/", {"subscription": subscription}, key)
    except urllib.error.HTTPError as answer:
        return answer.code
    except OSError:
        return 0
    return 200


def _until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
