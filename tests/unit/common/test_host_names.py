"""Look-ups of names that callers chose: a share for each project, a time limit, and threads of their own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from common import host_names
from common.errors import Overloaded
from common.fair_share import THREADS_COUNT, Tenant, in_thread, working_for
from common.host_names import LOOKUPS_MAX, UnresolvedNameError, resolve

A, B, C = (Tenant(UUID(int=number), has_neighbors=True) for number in (1, 2, 3))
IMPATIENT = Tenant(A.project_id, has_neighbors=True, queue_s=0.01)
FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


class Zone:
    """A name server: ``slow`` names wait, ``wrong`` ones have no address."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def getaddrinfo(self, host: str, *_: Any, flags: int = 0, **__: Any) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        self.asked.append(host)
        if host.startswith("slow"):
            self.answers.wait(120)
        if host.startswith("wrong"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return FOUND


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zone]:
    zone = Zone()
    monkeypatch.setattr(socket, "getaddrinfo", zone.getaddrinfo)
    yield zone
    zone.answers.set()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another thread
            await asyncio.sleep(0.005)


def _looking_up(tenant: Tenant, count: int) -> list[asyncio.Task[Any]]:
    with working_for(tenant):
        return [asyncio.create_task(resolve(f"slow{number}.example", 80)) for number in range(count)]


async def test_address_needs_no_name_server() -> None:
    for address in ("127.0.0.1", "::1", "2130706433"):
        assert {info[4][1] for info in await resolve(address, 9)} == {9}


async def test_addresses_or_the_reason_are_returned(zone: Zone) -> None:
    assert await resolve("fast.example", 80) == FOUND
    with pytest.raises(UnresolvedNameError) as raised:
        await resolve("wrong.example")

    assert str(raised.value) == "the name 'wrong.example' cannot be resolved: Name or service not known"
    assert zone.asked == ["fast.example", "wrong.example"]


async def test_text_that_is_no_name_is_a_reason_too() -> None:
    with pytest.raises(UnresolvedNameError, match="cannot be resolved: it is not a name"):
        await resolve("a" * 64 + ".example")


async def test_look_up_has_a_time_limit_and_counts_until_it_ends(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_names, "LOOKUP_S", 0.05)
    with working_for(IMPATIENT):
        late = await asyncio.gather(
            *(resolve(f"slow{number}.example") for number in range(LOOKUPS_MAX // 2)), return_exceptions=True
        )
        with pytest.raises(Overloaded, match="look-ups of names"):
            await resolve("fast.example")

    assert [str(each) for each in late[:1]] == ["the name 'slow0.example' was not resolved within 0.05 s"]
    zone.answers.set()
    with working_for(A):
        assert await resolve("fast.example") == FOUND


async def test_thread_that_cannot_be_started_takes_no_look_up_away(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with working_for(IMPATIENT), monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for _ in range(LOOKUPS_MAX):
            with pytest.raises(RuntimeError, match="thread"):
                await resolve("fast.example")

    with working_for(IMPATIENT):
        assert await resolve("fast.example", 80) == FOUND


async def test_project_whose_names_hang_leaves_look_ups_and_threads_to_others(zone: Zone) -> None:
    hanging = _looking_up(A, 40)
    await _until(lambda: len(zone.asked) == LOOKUPS_MAX // 2)

    with working_for(B):
        assert await resolve("fast.example") == FOUND
    hanging += _looking_up(B, 40)
    await _until(lambda: len(zone.asked) == LOOKUPS_MAX + 1)
    with working_for(C):
        assert await asyncio.gather(*(in_thread(str, number) for number in range(THREADS_COUNT)))
    assert await asyncio.gather(*(asyncio.to_thread(str, number) for number in range(THREADS_COUNT)))

    assert len(zone.asked) == LOOKUPS_MAX + 1
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


_ENDS = """
import asyncio, socket, time
from common import host_names
host_names.LOOKUP_S = 0.1

def hang(*arguments, flags=0, **options):
    if flags & socket.AI_NUMERICHOST:
        raise socket.gaierror(socket.EAI_NONAME, "")
    time.sleep(3600)

socket.getaddrinfo = hang

async def main():
    try:
        await host_names.resolve("slow.example")
    except host_names.UnresolvedNameError as exc:
        print(exc)

asyncio.run(main())
"""


def test_look_up_that_hangs_does_not_keep_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _ENDS],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ended.stdout == "the name 'slow.example' was not resolved within 0.1 s\n"
