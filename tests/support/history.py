"""A client of the history routes: an API over a real Postgres, with a new project for each test."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import aiohttp
import orjson

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from common.postgres.projects import Projects
from common.times import Clock
from tests.fakes.clock import ManualClock
from tests.support.api import KnownKeys, context_of, serving

USER_ID = UUID(int=7)

_FAMILY: Final = re.compile("application(?!/json)|evaluator")


def renamed(text: str) -> str:
    """Return a text about applications with the names of evaluators, and the other way round."""
    return _FAMILY.sub(lambda word: "evaluator" if word[0] == "application" else "application", text)


@dataclass
class HistoryClient:
    """One project's view of the API."""

    session: aiohttp.ClientSession
    key: str
    project_id: UUID

    async def call(self, method: str, path: str, *, status: int = 200, **sent: Any) -> Any:
        """Send a request, check its status, return the body."""
        code, body = await self.try_call(method, path, **sent)
        assert code == status, (method, path, code, body)
        return body

    async def try_call(self, method: str, path: str, **sent: Any) -> tuple[int, Any]:
        """Status and body."""
        headers = {"Authorization": self.key, **sent.pop("headers", {})}
        async with self.session.request(method, path, headers=headers, **sent) as response:
            return response.status, orjson.loads(await response.read())

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """POST a JSON body."""
        return await self.call("POST", path, json=body, status=status)

    # What most tests begin with

    async def application(self, slug: str, **members: Any) -> Any:
        """A new application."""
        return (await self.post("/applications/", {"application": {"slug": slug, **members}}))["application"]

    async def variant(self, application_id: str, slug: str, **members: Any) -> Any:
        """A new variant."""
        sent = {"application_id": application_id, "slug": slug, **members}
        return (await self.post("/applications/variants/", {"application_variant": sent}))["application_variant"]

    async def commit(self, variant_id: str, **members: Any) -> Any:
        """A new revision."""
        sent = {"application_variant_id": variant_id, **members}
        answer = await self.post("/applications/revisions/commit", {"application_revision": sent})
        return answer["application_revision"]

    async def log(self, **members: Any) -> list[Any]:
        """A history, newest first."""
        answer = await self.post("/applications/revisions/log", {"application_revisions": members})
        assert answer["count"] == len(answer["application_revisions"])
        found: list[Any] = answer["application_revisions"]
        return found

    async def branch(self, slug: str = "app", *, commits: int = 0) -> tuple[Any, Any, list[Any]]:
        """Create an application with a variant ``<slug>.main`` and ``count`` revisions, each with its number as prompt."""
        application = await self.application(slug)
        variant = await self.variant(application["id"], f"{slug}.main")
        revisions = [
            await self.commit(variant["id"], message=f"m{number}", data={"parameters": {"prompt": str(number)}})
            for number in range(commits)
        ]
        return application, variant, revisions


class EvaluatorClient(HistoryClient):
    """Speaks of applications and means evaluators: every request and every answer is renamed on its way."""

    async def try_call(self, method: str, path: str, **sent: Any) -> tuple[int, Any]:
        """Status and body."""
        if "json" in sent:
            sent["json"] = json.loads(renamed(json.dumps(sent["json"])))
        status, body = await super().try_call(method, renamed(path), **sent)
        return status, json.loads(renamed(json.dumps(body)))


@asynccontextmanager
async def clients_of(
    database: Database,
    *,
    count: int = 1,
    store: ColumnStore | None = None,
    clock: Clock | None = None,
    client: type[HistoryClient] = HistoryClient,
) -> AsyncIterator[list[HistoryClient]]:
    """Clients of one API, each with a new project."""
    projects = Projects(database, ManualClock())
    ids = {f"key-{number}": (await projects.create(f"project {number}")).id for number in range(count)}
    context = context_of(keys=KnownKeys(ids, user_id=USER_ID), database=database, store=store, clock=clock)
    async with serving(context) as session:
        yield [client(session, key, project_id) for key, project_id in ids.items()]
