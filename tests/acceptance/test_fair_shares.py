"""One project sends as many queries as it can; the queries of another project are still answered (contract §2)."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.support.stack import RunningStack, running_stack

pytestmark = pytest.mark.timeout(180)

ADMIN_KEY: Final = "admin-of-the-test"
ATTACKERS_COUNT: Final = 8
ATTACK_S: Final = 8.0
VICTIM_P95_MAX_S: Final = 2.0
SPANS_COUNT: Final = 500


@pytest.fixture(scope="module")
def shared_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    directory: Path = tmp_path_factory.mktemp("shared") / "data"
    environment = {
        "CLEARSPAN_AUTH": "on",
        "CLEARSPAN_ADMIN_KEY": ADMIN_KEY,
        "CLEARSPAN_QUERY__QUEUE_S": "2",  # within the attack
    }
    with running_stack(directory, **environment) as stack:
        yield stack


@pytest.mark.parametrize(
    "attacker_has_spans",
    [
        pytest.param(False, id="attacker without spans", marks=pytest.mark.long),
        pytest.param(True, id="attacker with spans"),
    ],
)
def test_busy_project_leaves_other_projects_their_share(shared_stack: RunningStack, attacker_has_spans: bool) -> None:
    attacker, victim = _new_key(shared_stack), _new_key(shared_stack)
    for key in [victim, *([attacker] if attacker_has_spans else [])]:
        _store_spans(shared_stack, key)

    seconds, victim_statuses, attacker_statuses = asyncio.run(_attack(shared_stack.api, attacker, victim))

    p95_s = sorted(seconds)[int(len(seconds) * 0.95)]
    assert set(victim_statuses) == {200}
    assert p95_s <= VICTIM_P95_MAX_S, f"of {len(seconds)} queries; {attacker_statuses=}"
    assert attacker_statuses[429], "else it was no attack"
    assert set(attacker_statuses) <= {200, 429, 504}


async def _attack(api: str, attacker: str, victim: str) -> tuple[list[float], Counter[int], Counter[int]]:
    """Return the victim's durations and statuses, and the statuses of the attacker, which starts a second earlier."""
    ends_s = time.monotonic() + ATTACK_S
    attacker_statuses, victim_statuses = Counter[int](), Counter[int]()
    seconds: list[float] = []
    async with aiohttp.ClientSession(api, timeout=aiohttp.ClientTimeout(60)) as client:
        attacks = [
            asyncio.create_task(_ask_on(client, attacker, _costly(), attacker_statuses, [], ends_s))
            for _ in range(ATTACKERS_COUNT)
        ]
        await asyncio.sleep(1)
        await _ask_on(client, victim, {"windowing": {"limit": 1}}, victim_statuses, seconds, ends_s)
        for attack in attacks:
            attack.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
    return seconds, victim_statuses, attacker_statuses


async def _ask_on(
    client: aiohttp.ClientSession, key: str, body: Any, statuses: Counter[int], seconds: list[float], ends_s: float
) -> None:
    while time.monotonic() < ends_s:
        began_s = time.monotonic()
        async with client.post("/spans/query", json=body, headers={"Authorization": f"ApiKey {key}"}) as answer:
            await answer.read()
            statuses[answer.status] += 1
        seconds.append(time.monotonic() - began_s)


def _costly() -> dict[str, Any]:
    """A valid filter of 24 KB whose statement is as slow to plan as any."""
    conditions = [
        {"field": "attributes", "key": f"a{number}.b{number}", "operator": "btwn", "value": [number, number + 1.5]}
        for number in range(256)
    ]
    return {"filtering": {"conditions": conditions}}


def _new_key(stack: RunningStack) -> str:
    options = {"create_api_keys": True, "return_api_keys": True}
    account = {"user": {"email": f"{time.time_ns()}@example.org"}, "options": options}
    made = _post(stack, "/admin/simple/accounts/", {"accounts": {"a": account}}, f"Access {ADMIN_KEY}")
    return str(made["accounts"]["a"]["api_keys"]["key"])


def _store_spans(stack: RunningStack, key: str) -> None:
    spans = [
        {
            "trace_id": f"{time.time_ns():032x}",
            "span_id": f"{number + 1:016x}",
            "span_name": "usual",
            "start_time": f"2026-05-01T12:{number // 60:02d}:{number % 60:02d}Z",
            "attributes": {f"a{number % 256}": {f"b{number % 256}": number}},
        }
        for number in range(SPANS_COUNT)
    ]
    _post(stack, "/tracing/spans/ingest", {"spans": spans}, f"ApiKey {key}")
    deadline_s = time.monotonic() + 30
    query = {"windowing": {"limit": SPANS_COUNT}}
    while _post(stack, "/spans/query", query, f"ApiKey {key}")["count"] < SPANS_COUNT:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def _post(stack: RunningStack, path: str, body: Any, authorization: str) -> Any:
    headers = {"content-type": "application/json", "authorization": authorization}
    request = urllib.request.Request(stack.api + path, data=json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
