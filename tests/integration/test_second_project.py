"""No response to one project contains data of another, on any route (contract §2).

Every route is called with the key of a second project and with every id, slug and cursor of the first. The same requests
with the key of the first project prove that they find something.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.codec import span_json
from common.limits import SpanLimits
from common.postgres.keys import Keys
from common.postgres.pool import Database
from common.postgres.projects import Account, WantedAccount, open_accounts
from common.settings import ClickHouseSettings
from common.span import Resource, Scope, Span
from query_api.http.routes import ROUTES
from query_api.request.route import Access, Route
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.span_corpus import STORED_US, store_record
from tests.support.trespass import Attempt, Known, attempts, chooses_an_id, nowhere, shape

SECRET: Final = "xylophone-7f3a"
COST: Final = 987654.25
TRACE_ID, SPAN_ID = bytes([0xA7]) * 16, bytes([0xB9]) * 16
KINDS: Final = {
    "applications": "application",
    "evaluators": "evaluator",
    "environments": "environment",
    "queries": "query",
}
DATA: Final = {"query": {"filtering": {"conditions": [{"field": "span_name", "value": SECRET}]}}}
"""Data of the newest revision of each kind; that of a saved query finds the span with all secrets."""

KNOWN_PATHS: Final = {route.path for route in ROUTES}

TAKE_BYTES: Final = {f"{route.method} {route.path}" for route in ROUTES if route.raw_body}
"""Routes that take no JSON: a JSON request gets 415."""

TELLS_NOTHING_OF_A_PROJECT: Final = {
    "POST /simple/traces": "stores spans; the response repeats what was sent",
    "POST /annotations": "the same",
    "POST /invocations": "the same",
    "POST /tracing/spans/ingest": "the same",
    "POST /traces/ingest": "the same",
    "POST /traces": "the same",
    "PUT /traces/{trace_id}": "the same",
    "POST /tracing/traces": "the same",
    "PUT /tracing/traces/{trace_id}": "the same",
    "GET /v1/traces": "says that it is there",
    "GET /otlp/v1/traces": "the same",
    **dict.fromkeys(TAKE_BYTES, "takes bytes; whose they are, the intake tests show"),
    "GET /prices/unknown": "no call here lacks a price; its own tests show that a project sees its own models",
    "POST /filters/parse": "reads a text, and nothing that is stored",
    "POST /applications/revisions/check": "compares data that is sent; without `from` with nothing",
    "POST /evaluators/revisions/check": "the same",
    "GET /status/freshness": "of partitions; its own tests show that a project sees the times of its own records",
    "DELETE /traces/{trace_id}": "says how many it deleted",
    "DELETE /simple/traces/{trace_id}": "repeats what was sent",
    "DELETE /annotations/{trace_id}": "the same",
    "DELETE /invocations/{trace_id}": "the same",
    "DELETE /tracing/traces/{trace_id}": "the same",
    "GET /retention": "says how many spans there are; its own tests show that they are the project's",
    "PUT /retention": "the same",
    "DELETE /retention": "the same",
    "POST /projects/keys": "returns a new key",
    "POST /keys": "the same",
    "GET /keys": "prefixes are no names of things; the tests of keys show that they are the project's",
    "DELETE /keys/{prefix}": "repeats what was sent",
    "GET /audit": "nothing is recorded here; its own tests show that a project sees its own entries",
    "PUT /masking": "repeats what was sent",
    "DELETE /masking": "the same",
    "GET /access/permissions/check": "says that the key is in force",
    "POST /applications/revisions": "refused where there is a revision",
    "POST /evaluators/revisions": "the same",
    "POST /environments/revisions": "the same",
    "POST /queries/revisions": "the same",
    "POST /subscriptions/{subscription_id}/skip": "refused without a batch under way",
    "POST /subscriptions/{subscription_id}/test": "says whether the target took a span",
    "POST /alerts": "refused without a bound",
    "POST /alerts/{alert_id}/skip": "refused without a message that waits",
    "POST /alerts/{alert_id}/test": "says whether the target took a message",
}
"""Routes that return nothing even to the owner's key. That they change nothing of another project is still checked."""


@dataclass
class World:
    """Two projects: the first has all data, the second knows its ids."""

    client: aiohttp.ClientSession
    database: Database
    store: ColumnStore
    broker: MemoryBroker
    owner: Account
    stranger: Account
    twin: Account
    """A project with the same data as that of the stranger."""

    known: Known
    texts: frozenset[str]
    """Texts that occur only in the data of the first project."""

    async def send(self, attempt: Attempt, account: Account) -> tuple[int, str]:
        """Return the status, and the headers and body as text."""
        assert account.key is not None
        headers = {"Authorization": f"ApiKey {account.key.text}", "Accept-Encoding": "identity"}
        async with self.client.request(
            attempt.method, attempt.path, params=attempt.parameters, json=attempt.body, headers=headers
        ) as response:
            return response.status, f"{dict(response.headers)} {(await response.read()).decode()}"

    def leaked(self, attempt: Attempt, response: str) -> list[str]:
        """Return the texts of the first project in a response that were not part of the request."""
        return [text for text in self.texts if text in response and not attempt.sends(text)]

    async def rows(self) -> Mapping[str, Any]:
        """Return all rows of the first project, by table."""
        rows: dict[str, Any] = {}
        for table in await _postgres_tables(self.database):
            sql = f"SELECT t::text FROM {table} AS t WHERE project_id = $1 ORDER BY 1"
            rows[table] = [tuple(row) for row in await self.database.fetch_all(sql, self.owner.project.id)]
        for table in await _clickhouse_tables(self.store):
            sql = f"SELECT count() AS n, sum(cityHash64(toString(tuple(*)))) AS h FROM {table} WHERE project_id = {{p:UUID}}"
            found = await self.store.select(Statement(sql, {"p": self.owner.project.id}), deadline_s=60.0)
            rows[table] = found.to_pylist()
        return rows


async def _postgres_tables(database: Database) -> list[str]:
    sql = """SELECT c.table_name FROM information_schema.columns c
        JOIN information_schema.tables t USING (table_schema, table_name)
        WHERE c.table_schema = 'public' AND c.column_name = 'project_id' AND t.table_type = 'BASE TABLE' ORDER BY 1"""
    return [str(row["table_name"]) for row in await database.fetch_all(sql)]


async def _clickhouse_tables(store: ColumnStore) -> list[str]:
    sql = """SELECT t.name AS name FROM system.tables t WHERE t.database = currentDatabase() AND t.engine LIKE '%MergeTree'
        AND (SELECT count() FROM system.columns c WHERE c.database = t.database AND c.table = t.name AND c.name = 'project_id') > 0"""
    found = await store.select(Statement(sql, {}), deadline_s=60.0)
    return sorted(row["name"].decode() for row in found.to_pylist())


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    settings = chdb_settings()
    await migrate(settings, data_dir=chdb_dir)
    store = open_store(settings, data_dir=chdb_dir)
    yield store
    await store.close()


@pytest.fixture
async def world(store: ColumnStore, shared_database: Database) -> AsyncIterator[World]:
    """The second project has only one span, in a trace with the id of a trace of the first."""
    # A known address means the same user and the same name; the project is always new.
    emails = {"owner": "owner@example.org", "stranger": "stranger@example.org", "twin": "stranger@example.org"}
    wanted = {name: WantedAccount(emails[name], with_key=True, seed_defaults=False) for name in emails}
    accounts = await open_accounts(shared_database, wanted)
    clock = ManualClock(now_ns=STORED_US * 1000 + 3_600_000_000_000)
    broker = MemoryBroker()
    keys = Keys(shared_database, clock)
    context = context_of(broker=broker, store=store, clock=clock, keys=keys, database=shared_database)
    async with serving(context) as client:
        known = Known(accounts["owner"].project.id, [], {}, "")
        world = World(
            client,
            shared_database,
            store,
            broker,
            accounts["owner"],
            accounts["stranger"],
            accounts["twin"],
            known,
            frozenset(),
        )
        await _fill(world)
        yield world


async def _fill(world: World) -> None:
    """Create one of everything in the first project."""
    await _store_spans(world)
    entities = await _make_histories(world)
    simple = await _make_simple_traces(world)
    page = await _own(world, "POST", "/spans/query", {"windowing": {"limit": 1}})
    traces = [(TRACE_ID.hex(), SPAN_ID[:8].hex()), *simple]
    world.known = Known(world.owner.project.id, traces, entities, page["windowing"]["next"])
    world.texts = frozenset(
        {
            *(SECRET, str(COST), world.owner.project.name, page["windowing"]["next"]),
            *(str(id_) for id_ in (world.owner.user.id, world.owner.project.id)),
            *(SPAN_ID[:8].hex(), *(id_ for ids in simple for id_ in ids)),
            *(entity["id"] for entity in entities.values()),
        }
    )


async def _store_spans(world: World) -> None:
    """Store a span of the first project with all secrets, and one of the second in a trace with the same id."""
    ids = {"session": {"id": f"{SECRET}-session"}, "user": {"id": f"{SECRET}-user"}}
    costs = {"metrics": {"costs": {"incremental": {"total": COST}}}}
    attributes = {"ag": {**ids, **costs, "data": {"outputs": SECRET}}}
    resource, scope = Resource({"service": {"name": SECRET}}), Scope(SECRET, "1", {})
    own = _span(SPAN_ID, name=SECRET, attributes=attributes, resource=resource, scope=scope)
    await store_record(world.store, [own], project_id=world.owner.project.id)
    other = _span(bytes([0xC1]) * 16, name="of the stranger", attributes={}, resource=Resource({}))
    for account in (world.stranger, world.twin):
        await store_record(world.store, [other], offset=1, project_id=account.project.id)


def _span(span_id: bytes, **members: Any) -> Span:
    return Span(
        trace_id=TRACE_ID,
        span_id=span_id,
        parent_id=None,
        kind=1,
        start_ns=STORED_US * 1000,
        end_ns=STORED_US * 1000 + 1_000_000,
        status_code=0,
        status_message=None,
        **members,
    )


async def _make_simple_traces(world: World) -> list[tuple[str, str]]:
    """Create a simple trace, an annotation and an invocation of the first project; return their ids."""
    link = {"trace_id": TRACE_ID.hex(), "span_id": SPAN_ID[:8].hex()}
    made = []
    for path, one, references, links in (
        ("/simple/traces", "trace", {}, {}),
        ("/annotations", "annotation", {"evaluator": {"slug": "of-owner-evaluator"}}, {"invocation": link}),
        ("/invocations", "invocation", {"application": {"slug": "of-owner-application"}}, None),
    ):
        trace = {"data": {"outputs": {"score": SECRET}}, "references": references, "links": links}
        made.append((await _own(world, "POST", path, {one: trace}))[one])
    for record in world.broker.records("spans"):
        assert record.value is not None
        spans = span_json.decode(record.value, limits=SpanLimits(), now_ns=STORED_US * 1000).spans
        log = f"cluster/spans/{record.partition}"
        offset = record.offset + 2
        await store_record(world.store, spans, partition_id=log, offset=offset, project_id=world.owner.project.id)
    return [(each["trace_id"], each["span_id"]) for each in made]


async def _make_histories(world: World) -> dict[str, Mapping[str, str]]:
    """Create one entity of each kind, deploy the application to the environment, and return their names."""
    kinds = {plural: kind for plural, kind in KINDS.items() if f"/simple/{plural}" in KNOWN_PATHS}
    for plural, kind in kinds.items():
        about = {"name": SECRET, "description": SECRET, "meta": {"why": SECRET}, "data": DATA.get(kind, {})}
        await _own(world, "POST", f"/simple/{plural}", {kind: {"slug": f"of-owner-{kind}", **about}})
    deploy = {"application_ref": {"slug": "of-owner-application"}, "environment_ref": {"slug": "of-owner-environment"}}
    await _own(world, "POST", "/applications/revisions/deploy", deploy)
    entities: dict[str, Mapping[str, str]] = {"project": {"id": str(world.owner.project.id)}}
    for plural, kind in kinds.items():
        for layer in ("", "_variant", "_revision"):
            path = f"/{plural}{layer.replace('_', '/')}{'s' if layer else ''}/query"
            rows = (await _own(world, "POST", path, {}))[f"{kind}{layer}s" if layer else plural]
            entities[f"{kind}{layer}"] = {name: rows[-1][name] for name in ("id", "slug")}
    target = {"kind": "kafka", "bootstrap": "127.0.0.1:1", "topic": SECRET}
    subscribe = {"slug": "of-owner-subscription", "name": SECRET, "target": target}
    made = (await _own(world, "POST", "/subscriptions", {"subscription": subscribe}))["subscription"]
    entities["subscription"] = {name: made[name] for name in ("id", "slug")}
    watch = {"slug": "of-owner-alert", "name": SECRET, "target": target, "measure": {"of": "count"}, "window": "1m"}
    made = (await _own(world, "POST", "/alerts", {"alert": {**watch, "above": 1}}))["alert"]
    entities["alert"] = {name: made[name] for name in ("id", "slug")}
    made = (await _own(world, "POST", "/projects/keys", {"key": {"name": SECRET, "scopes": ["read"]}}))["key"]
    entities["key"] = {"id": made["id"], "slug": made["prefix"]}
    await _own(world, "PUT", "/masking", {"masking": {"rules": [{"value": SECRET, "action": "redact"}]}})
    return entities | {
        f"workflow{entity.removeprefix('application')}": entities[entity]
        for entity in entities
        if entity.startswith("application")
    }


async def _own(world: World, method: str, path: str, body: Any) -> Any:
    status, response = await world.send(Attempt(method, path, [], body), world.owner)
    assert status < 300, response
    return orjson.loads(response[response.index("} {") + 2 :])


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


def _in_order(routes: Iterable[Route]) -> list[Route]:
    """Order routes: those that delete come late, those that create under a known id last."""
    return sorted(routes, key=lambda route: (chooses_an_id(route), route.method == "DELETE"))


async def test_second_project_finds_and_changes_nothing_on_any_route(world: World) -> None:
    before, published = await world.rows(), world.broker.records("spans")
    leaks, statuses = [], defaultdict(set)
    for route in _in_order(ROUTES):
        for attempt in attempts(route, world.known):
            status, response = await world.send(attempt, world.stranger)
            statuses[_name(route)].add(status)
            leaks += [(attempt, text) for text in world.leaked(attempt, response)]

    assert leaks == []
    assert await world.rows() == before
    assert {status for value in statuses.values() for status in value if status >= 500} == set()
    implausible = [name for name, each in statuses.items() if each <= {415, 422} and name not in TAKE_BYTES]
    assert implausible == []
    since = [record for record in world.broker.records("spans") if record not in published]
    assert {record.header("project-id") for record in since} == {str(world.stranger.project.id).encode()}


@pytest.mark.long
async def test_same_requests_succeed_with_the_key_of_the_project(world: World) -> None:
    """Otherwise the test above would prove nothing."""
    silent = []
    for route in _in_order(ROUTES):
        if route.access is not Access.PROJECT:
            continue
        responses = [(attempt, await world.send(attempt, world.owner)) for attempt in attempts(route, world.known)]
        if not any(world.leaked(attempt, response) for attempt, (_, response) in responses):
            silent.append(_name(route))

    assert set(silent) == TELLS_NOTHING_OF_A_PROJECT.keys() & {_name(route) for route in ROUTES}


@pytest.mark.long
async def test_what_another_project_has_looks_like_what_nobody_has(world: World) -> None:
    """Two projects with the same data ask, one for what the owner has, one for what does not exist: answers differ in
    nothing, neither in figures nor in headers."""
    differences = []
    for route in _in_order(ROUTES):
        if route.access is not Access.PROJECT:  # says nothing of a project, or needs another key
            continue
        pairs = zip(attempts(route, world.known), attempts(route, nowhere(world.known)), strict=True)
        for of_owner, of_nobody in pairs:
            found = [await world.send(of_owner, world.stranger), await world.send(of_nobody, world.twin)]
            shapes = [(status, shape(response, world.known)) for status, response in found]
            if shapes[0] != shapes[1]:
                differences.append((_name(route), of_owner, *shapes))

    assert differences == []


READS: Final = (
    "GET /traces/{trace_id}",
    "GET /spans/{trace_id}/{span_id}",
    "GET /applications/{application_id}",
    "GET /environments/revisions/{environment_revision_id}",
    "POST /queries/revisions/retrieve",
    "GET /subscriptions/{subscription_id}",
    "GET /alerts/{alert_id}",
)
TIMES: Final = 15
REPEATS: Final = 6
CLASS: Final = 1.5
"""By how much the median durations of two classes of timing differ."""


@pytest.mark.parametrize("name", READS)
@pytest.mark.long
async def test_what_another_project_has_takes_as_long_as_what_nobody_has(world: World, name: str) -> None:
    """The pairs alternate, so that a busy machine slows both; a defect shows in every repeat."""
    [route] = [route for route in ROUTES if _name(route) == name]
    pairs_of_attempts = zip(attempts(route, world.known), attempts(route, nowhere(world.known)), strict=True)
    known, unknown = next(pair for pair in pairs_of_attempts if pair[0] != pair[1])

    found = []
    for _ in range(REPEATS):
        pairs = [(await _seconds(world, known), await _seconds(world, unknown)) for _ in range(TIMES)]
        medians = sorted(statistics.median(took_s) for took_s in zip(*pairs, strict=True))
        found.append(medians[1] / medians[0])
        if found[-1] < CLASS:
            break

    assert min(found) < CLASS


async def _seconds(world: World, attempt: Attempt) -> float:
    began_s = time.perf_counter()
    await world.send(attempt, world.stranger)
    return time.perf_counter() - began_s
