"""Requests that run with keys, and what ends them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from common import running_requests
from common.errors import Unauthorized
from common.postgres.keys import KeyOwner, Keys
from common.running_requests import RunningRequests
from common.times import SystemClock

PROJECT, A, B = (UUID(int=number) for number in (1, 2, 3))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a request that does not end fails by the time limit of its test."""
    monkeypatch.setattr(running_requests, "ENDING_S", 3600.0)


async def test_request_that_ends_another_key_ends_with_its_own() -> None:
    requests, has_ended_b = RunningRequests(), asyncio.Event()

    async def request() -> None:
        async with requests.running(PROJECT, A):
            await requests.end_key(B)
            has_ended_b.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(request())
    await has_ended_b.wait()
    assert requests.key_ids == {A}

    await requests.end_key(A)

    with pytest.raises(Unauthorized):
        await task


async def test_request_that_ends_its_own_key_goes_on() -> None:
    requests = RunningRequests()

    async with requests.running(PROJECT, A):
        await requests.end_key(A)
        assert not requests.key_ids


async def test_requests_that_end_the_keys_of_each_other_both_end() -> None:
    requests, barrier = RunningRequests(), asyncio.Barrier(2)

    async def request(own: UUID, other: UUID) -> None:
        async with requests.running(PROJECT, own):
            await barrier.wait()
            await requests.end_key(other)

    async with asyncio.timeout(60):
        results = await asyncio.gather(request(A, B), request(B, A), return_exceptions=True)

    assert [type(result) for result in results] == [Unauthorized, Unauthorized]
    assert not requests.key_ids


class EndedKeys:
    """A Postgres in which all keys have ended."""

    async def fetch_all(self, _: str, key_ids: Sequence[UUID]) -> list[dict[str, UUID]]:
        return [{"id": key_id} for key_id in key_ids]


async def test_request_that_does_not_stop_delays_the_end_of_no_other_key() -> None:
    database: Any = EndedKeys()
    keys, cancelled, may_stop = Keys(database, SystemClock()), set[UUID](), asyncio.Event()
    both_are_cancelled = asyncio.Event()

    async def request(key_id: UUID) -> None:
        async with keys.running(KeyOwner(PROJECT, A, key_id=key_id)):
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.add(key_id)
                if cancelled == {A, B}:
                    both_are_cancelled.set()
                await may_stop.wait()

    tasks = [asyncio.create_task(request(key_id)) for key_id in (A, B)]
    watching = asyncio.create_task(keys.watch())
    async with asyncio.timeout(60):
        await both_are_cancelled.wait()

    may_stop.set()
    for task in tasks:
        with pytest.raises(Unauthorized):
            await task
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


class SlowKeys:
    """A Postgres with one key in force, which ends keys of another project while it answers."""

    def __init__(self, secret: str) -> None:
        self.keys: Keys | None = None
        self.reads_count = 0
        self._row = {
            "id": A,
            "project_id": PROJECT,
            "user_id": B,
            "scopes": ["admin"],
            "requests_per_s": None,
            "concurrent_max": None,
            "secret_hash": hashlib.sha256(secret.encode()).digest(),
            "is_in_force": True,
            "expires_in_s": float("inf"),
        }

    async def fetch_one(self, _: str, *__: object) -> dict[str, Any]:
        assert self.keys is not None
        self.reads_count += 1
        await self.keys.end_project(UUID(int=9))
        return self._row


async def test_end_of_a_key_repeats_no_look_up_of_another() -> None:
    secret = "0" * 64
    database: Any = SlowKeys(secret)
    keys = database.keys = Keys(database, SystemClock())

    for _ in range(2):
        owner = await keys.find(f"abcdefgh.{secret}")
        assert owner is not None
        assert owner.key_id == A
        await keys.end_project(UUID(int=9))

    assert database.reads_count == 1
