"""Sixteen writers on shared variants, through two API processes on one Postgres: no clash, no gap, no deadlock.

A few rounds here, forty with ``make test-full``.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final
from uuid import uuid4

import aiohttp
import pytest

from common.settings import PostgresSettings
from tests.support.api_process import api_processes
from tests.support.history import HistoryClient
from tests.support.scale import scaled

WRITERS: Final = 16
VARIANTS: Final = 2
ROUNDS: Final = scaled(3, 40)


@pytest.fixture(scope="module")
def addresses(shared_postgres: PostgresSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with api_processes(shared_postgres, tmp_path_factory.mktemp("logs"), count=2) as addresses:
        yield addresses


@pytest.fixture
async def clients(addresses: list[str]) -> AsyncIterator[list[HistoryClient]]:
    """One client per process; both use the same project."""
    async with aiohttp.ClientSession(addresses[0]) as one, aiohttp.ClientSession(addresses[1]) as other:
        yield [HistoryClient(session, "none", uuid4()) for session in (one, other)]


class Writer:
    """Commits, forks and archives in a random order; remembers the statuses."""

    def __init__(self, client: HistoryClient, seed: int, *, round_name: str) -> None:
        self._client = client
        self._chance = random.Random(seed)
        self._round = round_name
        self._name = f"{round_name}-{seed}"
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.wrong: list[Any] = []

    async def work(self, variants: list[Any]) -> None:
        acts = [
            self.commit,
            self.commit,
            self.commit,
            self.delta,
            self.fork,
            self.contest,
            self.archive,
            self.archive_head,
        ]
        self._chance.shuffle(acts)
        for act in acts:
            await act(self._chance.choice(variants)["id"])

    async def commit(self, variant_id: str) -> None:
        sent = {"variant_id": variant_id, "data": {"parameters": {"by": self._name}}}
        await self._post("/applications/revisions/commit", {"application_revision": sent})

    async def delta(self, variant_id: str) -> None:
        sent = {"variant_id": variant_id, "delta": {"set": {"parameters": {self._name: 1}}}}
        await self._post("/applications/revisions/commit", {"application_revision": sent})

    async def fork(self, variant_id: str, slug: str | None = None) -> None:
        sent = {
            "application_variant": {"slug": slug or f"{self._name}-{uuid4()}"},
            "application_variant_ref": {"id": variant_id},
        }
        # 400: the variant is archived at the moment; 409: another writer took the slug first
        await self._post("/applications/variants/fork", sent, allowed=(200, 400, 409))

    async def contest(self, variant_id: str) -> None:
        await self.fork(variant_id, slug=f"{self._round}-contested-{self._chance.randrange(3)}")

    async def archive(self, variant_id: str) -> None:
        await self._post(f"/applications/variants/{variant_id}/archive", None)
        await self._post(f"/applications/variants/{variant_id}/unarchive", None)

    async def archive_head(self, variant_id: str) -> None:
        head = await self._post("/applications/revisions/retrieve", {"application_variant_ref": {"id": variant_id}})
        if head["count"]:
            revision_id = head["application_revision"]["id"]
            await self._post(f"/applications/revisions/{revision_id}/archive", None)
            await self._post(f"/applications/revisions/{revision_id}/unarchive", None)

    async def _post(self, path: str, body: Any, *, allowed: tuple[int, ...] = (200,)) -> Any:
        status, answer = await self._client.try_call("POST", path, json=body)
        self.statuses[path.rsplit("/", 1)[-1], status] += 1
        if status not in allowed:
            self.wrong.append((path, status, answer))
        return answer


@pytest.mark.scaled
@pytest.mark.timeout(scaled(300, 600))
async def test_versions_heads_and_logs_agree_after_concurrent_writes(clients: list[HistoryClient]):
    statuses: Counter[tuple[str, int]] = Counter()
    for _ in range(ROUNDS):
        round_name = uuid4().hex[:8]
        application = await clients[0].application(round_name)
        variants = [await clients[0].variant(application["id"], f"{round_name}.{n}") for n in range(VARIANTS)]
        writers = [Writer(clients[n % 2], n, round_name=round_name) for n in range(WRITERS)]

        await asyncio.gather(*(writer.work(variants) for writer in writers))

        assert [each for writer in writers for each in writer.wrong] == []
        committed = sum(writer.statuses["commit", 200] for writer in writers)
        await check(clients[1], application["id"], shared=[each["id"] for each in variants], committed=committed)
        statuses += sum((writer.statuses for writer in writers), Counter())

    assert statuses["commit", 200] == ROUNDS * WRITERS * 4
    assert statuses["fork", 200] >= ROUNDS * WRITERS // 2
    assert statuses["fork", 409] > 0  # another writer took the slug first


async def check(client: HistoryClient, application_id: str, *, shared: list[str], committed: int) -> None:
    """Check that every variant, forks included, has versions without gaps, and the shared ones have all commits."""
    refs = {"application_refs": [{"id": application_id}], "include_archived": True}
    variants = (await client.post("/applications/variants/query", refs))["application_variants"]
    revisions = (await client.post("/applications/revisions/query", refs))["application_revisions"]
    of_variant: dict[str, list[Any]] = {each["id"]: [] for each in variants}
    for each in revisions:  # in the order of ids
        of_variant[each["variant_id"]].append(each)

    for variant_id, history in of_variant.items():
        assert [each["version"] for each in history] == [str(number) for number in range(len(history))]
        head = await client.post("/applications/revisions/retrieve", {"application_variant_ref": {"id": variant_id}})
        assert head["application_revision"]["id"] == history[-1]["id"]
        live = [each["id"] for each in history if "deleted_at" not in each]
        assert [each["id"] for each in await client.log(variant_id=variant_id)] == live[::-1]
    assert sum(len(of_variant[variant_id]) for variant_id in shared) == committed
