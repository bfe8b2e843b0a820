"""Postgres away: 503 on the routes of histories, spans keep flowing; back: served again, with no restart (contract §1)."""

from __future__ import annotations

from uuid import uuid4

import pytest

from common.postgres.pool import open_database
from common.settings import PostgresSettings
from query_api.applications.routes import APPLICATION_ROUTES
from query_api.route import Route
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A, KnownKeys, context_of, serving
from tests.support.history import HistoryClient
from tests.support.switchable_postgres import switchable

SPAN = {"trace_id": "a" * 32, "span_id": "b" * 16, "span_name": "s"}
LISTED = "/applications/query"


async def test_away_is_503_and_back_is_served_again(shared_postgres: PostgresSettings):
    broker = MemoryBroker()
    async with switchable(shared_postgres) as (switch, settings), open_database(settings) as database:
        context = context_of(database=database, broker=broker)
        async with serving(context) as session:
            client = HistoryClient(session, "none", PROJECT_A)
            await client.post(LISTED, {})

            await switch.off()
            for _ in range(3):
                async with session.post(LISTED, json={}) as response:
                    assert response.status == 503, await response.text()
                    assert int(response.headers["Retry-After"]) >= 1
                    assert isinstance((await response.json())["detail"], str)
            await client.post("/tracing/spans/ingest", {"spans": [SPAN]}, status=202)

            await switch.on()
            await client.post(LISTED, {})
    assert broker.records("spans")


@pytest.mark.parametrize("route", APPLICATION_ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_process_without_postgres_says_so_on_every_route(route: Route):
    ids = {"application_id": str(uuid4()), "application_variant_id": str(uuid4())}
    body = {
        "application": {"id": ids["application_id"], "slug": "a"},
        "application_variant": {"id": ids["application_variant_id"], "slug": "a", **ids},
        "application_variant_ref": {"slug": "a"},
        "application_revision": {"id": str(uuid4()), **ids},
        "application_revisions": ids,
        "application_ref": {"slug": "a"},
    }
    if route.path.endswith("/resolve"):
        del body["application_revision"]
    path = route.path
    for name in ("application_id", "application_variant_id"):
        path = path.replace(f"{{{name}}}", ids[name])
    path = path.replace("{application_revision_id}", str(body.get("application_revision", ids).get("id", "")))
    async with serving(context_of(keys=KnownKeys({"key": PROJECT_A}))) as session:
        client = HistoryClient(session, "key", PROJECT_A)

        await client.call(route.method, path, json=body, params={"from": str(uuid4()), "to": str(uuid4())}, status=503)
