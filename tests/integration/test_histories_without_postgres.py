"""Without Postgres, routes of histories are 503 and spans keep flowing; they recover without a restart (contract §1)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from common.postgres.pool import open_database
from common.settings import PostgresSettings
from query_api.queries.revisions import APPLICATION_ROUTES, EVALUATOR_ROUTES
from query_api.queries.saved import QUERY_ROUTES
from query_api.registry.routes import ENVIRONMENT_ROUTES
from query_api.request.route import Route
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A, KnownKeys, context_of, serving
from tests.support.history import HistoryClient
from tests.support.switchable_postgres import switchable

SPAN = {"trace_id": "a" * 32, "span_id": "b" * 16, "span_name": "s"}
LISTED = "/applications/query"


async def test_postgres_away_is_503_until_it_is_back(shared_postgres: PostgresSettings):
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
                    # The address of Postgres and the text of its driver belong in the log.
                    assert await response.json() == {"detail": "Postgres is unavailable."}
            await client.post("/tracing/spans/ingest", {"spans": [SPAN]}, status=202)

            await switch.on()
            await client.post(LISTED, {})
    assert broker.records("spans")


KINDS = {
    "application": APPLICATION_ROUTES,
    "evaluator": EVALUATOR_ROUTES,
    "environment": ENVIRONMENT_ROUTES,
    "query": QUERY_ROUTES,
}


@pytest.mark.parametrize(
    ("kind", "route"),
    [
        pytest.param(kind, route, id=f"{route.method} {route.path}")
        for kind, routes in KINDS.items()
        for route in routes
    ],
)
async def test_process_without_postgres_says_so_on_every_route(kind: str, route: Route):
    ids = {f"{kind}_id": str(uuid4()), f"{kind}_variant_id": str(uuid4())}
    body: dict[str, Any] = {
        kind: {"id": ids[f"{kind}_id"], "slug": "a"},
        f"{kind}_variant": {"id": ids[f"{kind}_variant_id"], "slug": "a", **ids},
        f"{kind}_variant_ref": {"slug": "a"},
        f"{kind}_revision": {"id": str(uuid4()), **ids},
        f"{kind}_revisions": ids,
        f"{kind}_ref": {"slug": "a"},
    }
    revision_id = body[f"{kind}_revision"]["id"]
    if route.body is not None and not route.ignores_unknown:
        known = {f"{kind}_ref", f"{kind}_revisions"} & {field.alias for field in route.body.model_fields.values()}
        body = {name: body[name] for name in known}
    if route.path.endswith("/check"):
        body = {"from": revision_id, f"{kind}_revision": {"data": {}}}
    params = {"from": str(uuid4()), "to": str(uuid4())} if route.path.endswith("/diff") else {}
    path = route.path
    for name in (f"{kind}_id", f"{kind}_variant_id"):
        path = path.replace(f"{{{name}}}", ids[name])
    path = path.replace(f"{{{kind}_revision_id}}", revision_id)
    async with serving(context_of(keys=KnownKeys({"key": PROJECT_A}))) as session:
        client = HistoryClient(session, "key", PROJECT_A)

        await client.call(route.method, path, json=body, params=params, status=503)
