"""The audit log: every change and every refusal, of whom, and nothing else; over Postgres (ADR 0023); the command of
``docs/audit-log.md``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import aiohttp
import grpc.aio
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import SecretStr

from common.errors import InvalidStatement
from common.postgres.audit import AuditActor, AuditFilter, AuditKind, AuditLog, AuditSubject, BegunWrite, EndedWrite
from common.postgres.keys import KeyOwner, Keys, KeyWanted
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.scopes import KeyScope
from common.settings import AccessSettings, PostgresSettings, Settings
from common.times import SystemClock
from query_api.audit.recorder import AuditRecorder, recording
from query_api.http.dispatch import StartupState
from query_api.http.routes import ROUTES
from query_api.request.context import ApiContext
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.otlp_grpc import TRACES, serving_grpc
from tests.support.switchable_postgres import switchable

ADMIN: Final = "Access root"
WAIT_S: Final = 60
ROOT: Final = Path(__file__).parents[2]


class Auditor:
    """An API that records, with the keys of two projects."""

    def __init__(self, session: aiohttp.ClientSession, context: ApiContext, recorder: AuditRecorder) -> None:
        self.context = context
        self.recorder = recorder
        self._session = session
        assert isinstance(context.keys, Keys)
        self.keys = context.keys

    async def project(self) -> UUID:
        assert self.context.database is not None
        return (await Projects(self.context.database, SystemClock()).create("p")).id

    async def key(self, project_id: UUID, *scopes: KeyScope, name: str = "k", **limits: Any) -> str:
        wanted = KeyWanted(name, scopes or (KeyScope.ADMIN,), **limits)
        return (await self.keys.create(project_id, wanted)).text

    async def call(self, authorization: str, method: str, path: str, body: Any = None, **params: str) -> Any:
        headers = {"Authorization": authorization}
        async with self._session.request(method, path, json=body, headers=headers, params=params) as response:
            return response.status, await response.json() if response.content_type == "application/json" else None

    async def entries(self, authorization: str, path: str = "/audit", **params: str) -> list[dict[str, Any]]:
        """Return all entries, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            status, answer = await self.call(authorization, "GET", path, **params)
            assert status == 200, answer
            found += answer["entries"]
            if "windowing" not in answer:
                return found
            params["next"] = answer["windowing"]["next"]

    async def until(
        self, authorization: str, is_so: Callable[[list[dict[str, Any]]], bool], path: str = "/audit", **params: str
    ) -> list[dict[str, Any]]:
        async with asyncio.timeout(WAIT_S):
            while True:
                if is_so(found := await self.entries(authorization, path, **params)):
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture
async def auditor(shared_database: Database) -> AsyncIterator[Auditor]:
    async with auditing(shared_database) as found:
        yield found


@asynccontextmanager
async def auditing(database: Database, access: AccessSettings | None = None) -> AsyncIterator[Auditor]:
    clock = SystemClock()
    context = context_of(
        settings=Settings(auth="on", admin_key=SecretStr("root")),
        broker=MemoryBroker(),
        keys=Keys(database, clock),
        database=database,
        clock=clock,
    )
    recorder = AuditRecorder(AuditLog(database), clock, access or AccessSettings())
    async with recording(recorder), serving(context, audit=recorder) as session:
        yield Auditor(session, context, recorder)


def operations(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["operation"] for entry in entries]


async def test_change_is_recorded_with_who_what_and_outcome(auditor: Auditor) -> None:
    project_id = await auditor.project()
    key = await auditor.key(project_id, name="of ada")
    _, created = await auditor.call(key, "POST", "/applications/", {"application": {"slug": "app"}})
    application_id = created["application"]["id"]
    assert (await auditor.call(key, "POST", "/applications/", {"application": {"slug": "app"}}))[0] == 409
    assert (await auditor.call(key, "POST", f"/applications/{application_id}/archive"))[0] == 200
    await auditor.call(key, "POST", "/applications/query", {})

    found = await auditor.until(key, lambda entries: [e["outcome"] for e in entries] == ["done", "failed", "done"])

    archived, taken, first = found
    assert operations(found) == ["archive_application", "create_application", "create_application"]
    assert first["entities"] == [{"id": application_id, "slug": "app"}]
    assert archived["entities"][0]["id"] == application_id
    assert (taken["status"], taken["entities"]) == (409, [])
    listed = await auditor.keys.of_project(project_id)
    for entry in found:
        assert entry["kind"] == "write"
        assert (entry["actor"], entry["actor_name"], entry["key_id"]) == ("key", "of ada", str(listed[0].id))
        assert (entry["address"], entry["project_id"]) == ("127.0.0.1", str(project_id))
        assert abs(datetime.fromisoformat(entry["at"]) - datetime.now(UTC)) < timedelta(minutes=10)


async def test_refusals_are_recorded_and_equal_ones_counted(auditor: Auditor) -> None:
    project_id = await auditor.project()
    admin, reader = await auditor.key(project_id), await auditor.key(project_id, KeyScope.READ, name="reader")
    limited = await auditor.key(project_id, name="limited", requests_per_s=0.001)

    for _ in range(30):
        assert (await auditor.call(reader, "DELETE", "/retention"))[0] == 403
    await auditor.call(limited, "GET", "/projects/current")
    assert (await auditor.call(limited, "GET", "/projects/current"))[0] == 429
    await auditor.recorder.flush(is_last=True)

    found = await auditor.entries(admin)
    forbidden = [entry for entry in found if entry["status"] == 403]
    assert sum(entry["requests_count"] for entry in forbidden) == 30
    assert len(forbidden) <= 3
    assert {(e["actor_name"], e["operation"], e["outcome"]) for e in forbidden} == {
        ("reader", "delete_retention", "refused")
    }
    (too_many,) = [entry for entry in found if entry["status"] == 429]
    assert (too_many["actor_name"], too_many["operation"]) == ("limited", "get_current_project")
    assert {entry["kind"] for entry in found} == {"refusal"}


async def test_requests_without_a_valid_key_are_seen_by_the_administrator(auditor: Auditor) -> None:
    project_id = await auditor.project()
    admin = await auditor.key(project_id)
    revoked = await auditor.keys.create(project_id, KeyWanted("leaver"))
    await auditor.keys.revoke(project_id, revoked.key.id)
    unknown = f"{uuid4().hex[:8]}.{'0' * 64}"

    for authorization in (unknown, "nonsense", revoked.text, "Access wrong"):
        assert (await auditor.call(authorization, "GET", "/no/such/path"))[0] == 401
    assert (await auditor.call(unknown, "GET", "/admin/status"))[0] == 401
    await auditor.recorder.flush(is_last=True)

    (of_leaver,) = await auditor.entries(admin)
    assert (of_leaver["actor_name"], of_leaver["status"], of_leaver["actor"]) == ("leaver", 401, "key")
    of_nobody = await auditor.entries(ADMIN, "/admin/audit", project=str(UUID(int=0)), limit="1000")
    mine = [entry for entry in of_nobody if entry["operation"] in {"unknown_path", "get_admin_status"}]
    assert {entry["actor"] for entry in mine} == {"nobody"}
    assert {entry["operation"] for entry in mine} == {"unknown_path", "get_admin_status"}


async def test_flood_of_refusals_is_a_few_entries(auditor: Auditor) -> None:
    project_id = await auditor.project()
    admin = await auditor.key(project_id)
    owner = await auditor.keys.find(admin)
    assert owner is not None
    for number in range(50_000):
        subject = AuditSubject(project_id, AuditActor.KEY, "query_spans", owner.key_id, None, f"10.0.0.{number % 250}")
        auditor.recorder.refuse(subject, 429)
    await auditor.recorder.flush(is_last=True)

    found = await auditor.entries(admin)
    assert sum(entry["requests_count"] for entry in found) == 50_000
    assert len(found) < 100
    assert "several" in operations(found)


async def test_keys_of_the_reference_are_named_by_their_ids(auditor: Auditor) -> None:
    project_id = await auditor.project()
    admin = await auditor.key(project_id)
    _, made = await auditor.call(admin, "POST", "/keys")
    await auditor.call(admin, "DELETE", f"/keys/{made[:8]}")
    await auditor.recorder.flush(is_last=True)

    _, listed = await auditor.call(admin, "GET", "/projects/keys")
    [key_id] = [key["id"] for key in listed["keys"] if key["prefix"] == made[:8]]
    entries = await auditor.entries(admin)

    assert {entry["operation"]: entry["entities"] for entry in entries} == {
        "create_key": [{"id": key_id}],
        "delete_key": [{"id": key_id}],
    }


async def test_accounts_of_a_dry_run_are_not_recorded(auditor: Auditor) -> None:
    accounts = {name: {"user": {"email": f"{name}@example.org"}, "options": {"dry_run": True}} for name in "ab"}

    status, _ = await auditor.call(ADMIN, "POST", "/admin/simple/accounts/", {"accounts": accounts})
    await auditor.recorder.flush(is_last=True)

    assert status == 200
    assert await auditor.entries(ADMIN, "/admin/audit", operation="create_admin_simple_account") == []


async def test_no_secret_is_in_the_log(auditor: Auditor, shared_database: Database) -> None:
    project_id = await auditor.project()
    key = await auditor.key(project_id)
    secret = key.partition(".")[2]
    _, created = await auditor.call(key, "POST", "/projects/keys", {"key": {"name": "n", "scopes": ["read"]}})
    new_secret = created["text"].partition(".")[2]

    await auditor.call(key, "DELETE", f"/projects/keys/{key}")
    await auditor.call(key, "DELETE", f"/traces/{key}")
    await auditor.call(key, "POST", f"/subscriptions/{created['text']}/pause")
    accounts = {
        "accounts": {
            "a": {"user": {"email": "a@example.org"}, "options": {"create_api_keys": True, "return_api_keys": True}}
        }
    }
    _, opened = await auditor.call(ADMIN, "POST", "/admin/simple/accounts/", accounts)
    account_secret = opened["accounts"]["a"]["api_keys"]["key"].partition(".")[2]
    await auditor.call("Access " + secret, "GET", "/admin/status")
    await auditor.recorder.flush(is_last=True)

    rows = await shared_database.fetch_all("SELECT e::text AS line FROM audit_entries AS e")
    text = "\n".join(row["line"] for row in rows)
    assert text
    for hidden in (secret, new_secret, account_secret):
        assert hidden not in text
    (made,) = await auditor.entries(ADMIN, "/admin/audit", operation="create_admin_simple_account", limit="1")
    assert made["actor"] == "administrator"
    project_id = opened["accounts"]["a"]["projects"]["prj"]["id"]
    assert {"id": project_id} in made["entities"]


async def test_project_reads_only_its_own_log(auditor: Auditor) -> None:
    project_id, other_id = await auditor.project(), await auditor.project()
    key, other = await auditor.key(project_id), await auditor.key(other_id)
    for number in range(3):
        await auditor.call(key, "POST", "/queries/", {"query": {"slug": f"q{number}"}})
    await auditor.call(other, "POST", "/queries/", {"query": {"slug": "other"}})
    own = await auditor.until(key, lambda entries: len([e for e in entries if "status" in e]) == 3)
    await auditor.until(other, lambda entries: "status" in entries[0])

    assert [entry["entities"][0]["slug"] for entry in own] == ["q2", "q1", "q0"]
    assert [entry["entities"][0]["slug"] for entry in await auditor.entries(other)] == ["other"]
    assert await auditor.entries(other, key_id=own[0]["key_id"]) == []
    assert await auditor.entries(other, entity_id=own[0]["entities"][0]["id"]) == []
    _, page = await auditor.call(key, "GET", "/audit", limit="1")
    status, _ = await auditor.call(other, "GET", "/audit", limit="1", next=page["windowing"]["next"])
    assert status == 400
    assert (await auditor.call(key, "GET", "/admin/audit"))[0] == 401
    assert (await auditor.call(key, "GET", "/audit", project=str(other_id)))[0] == 422
    writer = await auditor.key(project_id, KeyScope.WRITE)
    assert (await auditor.call(writer, "GET", "/audit"))[0] == 403


async def test_log_is_filtered(auditor: Auditor) -> None:
    project_id = await auditor.project()
    key, reader = await auditor.key(project_id), await auditor.key(project_id, KeyScope.READ)
    _, made = await auditor.call(key, "POST", "/queries/", {"query": {"slug": "q"}})
    await auditor.call(key, "POST", "/queries/", {"query": {"slug": "q"}})
    await auditor.call(reader, "POST", "/queries/", {"query": {"slug": "q"}})
    await auditor.recorder.flush(is_last=True)
    every = await auditor.until(key, lambda entries: {e["outcome"] for e in entries} == {"done", "failed", "refused"})

    for filtered, expected in (
        ({"outcome": "done"}, {"done"}),
        ({"outcome": "failed"}, {"failed"}),
        ({"outcome": "refused"}, {"refused"}),
        ({"outcome": "unknown"}, set()),
        ({"operation": "create_query"}, {"done", "failed", "refused"}),
        ({"operation": "'; DROP TABLE audit_entries; --"}, set()),
        ({"entity_id": made["query"]["id"]}, {"done"}),
        ({"key_id": every[-1]["key_id"]}, {"done", "failed"}),
        ({"oldest": "2200-01-01T00:00:00Z"}, set()),
        ({"newest": "1970-01-01T00:00:00Z"}, set()),
        ({"oldest": "0001-01-01T00:00:00+14:00", "newest": "9999-12-31T23:59:59-14:00"}, {"done", "failed", "refused"}),
    ):
        status, answer = await auditor.call(key, "GET", "/audit", **filtered)
        assert status == 200, answer
        assert {entry["outcome"] for entry in answer["entries"]} == expected, filtered
    for wrong in (
        {"outcome": "all"},
        {"limit": "0"},
        {"limit": "1001"},
        {"operation": "a\0b"},
        {"entity_id": "x" * 201},
    ):
        assert (await auditor.call(key, "GET", "/audit", **wrong))[0] == 422, wrong
    assert (await auditor.call(key, "GET", "/audit", next="AAAA"))[0] == 400


async def test_walk_is_exact_while_entries_are_added_and_trimmed(shared_database: Database) -> None:
    async with auditing(shared_database, AccessSettings(audit_writes_max=100)) as auditor:
        project_id = await auditor.project()
        key = await auditor.key(project_id)
        for number in range(30):
            await auditor.call(key, "POST", "/queries/", {"query": {"slug": f"q{number}"}})
        begun = {entry["id"] for entry in await auditor.until(key, lambda entries: len(entries) == 30)}
        walked: list[int] = []
        params = {"limit": "7"}
        for page in range(100):
            _, answer = await auditor.call(key, "GET", "/audit", **params)
            walked += [entry["id"] for entry in answer["entries"]]
            await auditor.call(key, "POST", "/queries/", {"query": {"slug": f"more{page}"}})
            await auditor.recorder.trim(by_age=True)
            if "windowing" not in answer:
                break
            params["next"] = answer["windowing"]["next"]

        assert set(walked) == begun
        assert len(walked) == 30
        for number in range(120):
            await auditor.call(key, "POST", "/queries/", {"query": {"slug": f"z{number}"}})
        await auditor.recorder.flush()
        await auditor.recorder.trim(by_age=False)
        kept = await auditor.entries(key, limit="1000")
        assert len(kept) == 100
        assert kept[0]["entities"][0]["slug"] == "z119"


async def test_old_entries_are_deleted(shared_database: Database, auditor: Auditor) -> None:
    project_id = await auditor.project()
    key = await auditor.key(project_id)
    await auditor.call(key, "POST", "/queries/", {"query": {"slug": "q"}})
    await auditor.until(key, lambda entries: len(entries) == 1 and "status" in entries[0])
    log = AuditLog(shared_database)

    await log.trim_age(1.0)
    assert len(await auditor.entries(key)) == 1
    while await log.trim_age(0.0):
        pass
    assert await auditor.entries(key) == []


async def test_entry_cannot_be_changed(shared_database: Database, auditor: Auditor) -> None:
    project_id = await auditor.project()
    key = await auditor.key(project_id)
    await auditor.call(key, "POST", "/queries/", {"query": {"slug": "q"}})
    (entry,) = await auditor.until(key, lambda entries: len(entries) == 1 and "status" in entries[0])

    for change in ("status = 500", "actor = 'nobody'", "at = now()", "operation = 'other'"):
        with pytest.raises(InvalidStatement, match="cannot be changed"):
            await shared_database.fetch_all(f"UPDATE audit_entries SET {change} WHERE id = {entry['id']}")
    await AuditLog(shared_database).end([EndedWrite(entry["id"], 403, [])])
    assert await auditor.entries(key) == [entry]


async def test_change_without_an_entry_is_refused(shared_postgres: PostgresSettings) -> None:
    async with (
        switchable(shared_postgres) as (switch, settings),
        open_database(settings) as database,
        auditing(database) as auditor,
    ):
        project_id = await auditor.project()
        key = await auditor.key(project_id)
        trace = f"/traces/{uuid4().hex}"
        await auditor.call(key, "POST", "/queries/", {"query": {"slug": "before"}})
        await switch.off()
        refused = await auditor.call(key, "POST", "/queries/", {"query": {"slug": "q"}})
        assert refused[0] == 503
        auditor.keys.find = _always(await _owner(auditor, project_id))  # type: ignore[assignment,method-assign]
        status, answer = await auditor.call(key, "DELETE", trace)
        assert (status, answer["detail"]) == (
            503,
            "Changes are recorded in the audit log, which cannot be written now.",
        )
        auditor.recorder.refuse(AuditSubject(project_id, AuditActor.NOBODY, "while away"), 401)
        await switch.on()
        del auditor.keys.find

        def is_complete(entries: list[dict[str, Any]]) -> bool:
            return set(operations(entries)) == {"create_query", "while away"} and "status" in entries[-1]

        found = await auditor.until(key, is_complete)
        assert [entry["outcome"] for entry in found if entry["kind"] == "write"] == ["done"]


async def _owner(auditor: Auditor, project_id: UUID) -> Any:
    return KeyOwner(project_id, uuid4())


def _always(value: Any) -> Callable[..., Awaitable[Any]]:
    async def answer(*_: object) -> Any:
        return value

    return answer


async def test_grpc_refusals_are_recorded(auditor: Auditor) -> None:
    project_id = await auditor.project()
    admin, reader = await auditor.key(project_id), await auditor.key(project_id, KeyScope.READ)
    request = ExportTraceServiceRequest().SerializeToString()
    state = StartupState(auditor.context, audit=auditor.recorder)
    async with serving_grpc(auditor.context, state=state) as address, grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(TRACES)(request, metadata=(("authorization", f"ApiKey {reader}"),))
        assert await call.code() == grpc.StatusCode.PERMISSION_DENIED

    (entry,) = await auditor.until(admin, lambda entries: len(entries) == 1)
    assert (entry["operation"], entry["status"], entry["address"]) == ("export_otlp_traces", 403, "127.0.0.1")


async def test_entries_stay_when_the_project_is_deleted(auditor: Auditor) -> None:
    project_id = await auditor.project()
    key = await auditor.key(project_id, name="gone")
    await auditor.call(key, "POST", "/queries/", {"query": {"slug": "q"}})
    await auditor.until(key, lambda entries: len(entries) == 1)
    assert auditor.context.database is not None
    await Projects(auditor.context.database, SystemClock()).delete(project_id)

    (entry,) = await auditor.entries(ADMIN, "/admin/audit", project=str(project_id))
    assert (entry["actor_name"], entry["operation"]) == ("gone", "create_query")


async def test_many_changes_at_once_are_all_recorded(auditor: Auditor, shared_database: Database) -> None:
    project_id = await auditor.project()
    key = await auditor.key(project_id)

    calls = [auditor.call(key, "POST", "/queries/", {"query": {"slug": f"q{number}"}}) for number in range(60)]
    statuses = [status for status, _ in await asyncio.gather(*calls)]
    await auditor.until(key, lambda entries: all("status" in entry for entry in entries))

    found = await AuditLog(shared_database).read(AuditFilter(project_id), count_max=1_000)
    done = [entry for entry in found if entry.kind is AuditKind.WRITE]
    assert sorted(entry.status or 0 for entry in done) == sorted(statuses)


@pytest.mark.parametrize(
    ("in_postgres", "is_on_disk"), [([True], False), ([True, True], False), ([False], True), ([True, False], True)]
)
async def test_only_entries_of_changes_in_postgres_do_not_wait_for_the_disk(
    in_postgres: list[bool], is_on_disk: bool
) -> None:
    database = RememberingDatabase()
    subject = AuditSubject(uuid4(), AuditActor.NOBODY, "create_key")

    await AuditLog(database).begin([BegunWrite(subject, None, [], each) for each in in_postgres])  # type: ignore[arg-type]

    assert database.arguments[-1] is is_on_disk


class RememberingDatabase:
    """Remembers the arguments of the last statement."""

    arguments: tuple[object, ...] = ()

    async def fetch_all(self, _sql: str, /, *arguments: object) -> list[Any]:
        self.arguments = arguments
        return []


async def test_statement_of_entries_waits_for_the_disk_only_if_asked(shared_database: Database) -> None:
    sql = "SELECT set_config('synchronous_commit', 'remote_write', true)"
    subject = AuditSubject(uuid4(), AuditActor.NOBODY, "create_key")
    for in_postgres, expected in ((False, "remote_write"), (True, "off")):
        async with shared_database.transaction() as transaction:
            await transaction.fetch_all(sql)
            await AuditLog(transaction).begin([BegunWrite(subject, None, [], in_postgres)])  # type: ignore[arg-type]
            row = await transaction.fetch_one("SELECT current_setting('synchronous_commit') AS setting")
        assert row is not None
        assert row["setting"] == expected


async def test_outcome_that_cannot_be_stored_costs_no_other_one(shared_database: Database) -> None:
    log = AuditLog(shared_database)
    recorder = AuditRecorder(log, SystemClock(), AccessSettings())
    subject = AuditSubject(uuid4(), AuditActor.NOBODY, "create_key")
    ids = await log.begin([BegunWrite(subject, None, [])] * 3)

    for entry_id, slug in zip(ids, ("one", "\0", "three"), strict=True):
        recorder.end(EndedWrite(entry_id, 200, [{"id": str(uuid4()), "slug": slug}]))

    assert await recorder.flush()
    entries = await log.read(AuditFilter(subject.project_id), count_max=10)
    assert [entry.status for entry in entries] == [200, None, 200]


async def test_commands_on_a_server_are_recorded(auditor: Auditor, shared_postgres: PostgresSettings) -> None:
    url = str(auditor._session._base_url).rstrip("/")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLEARSPAN_")}
    environment |= {"CLEARSPAN_POSTGRES__DSN": shared_postgres.dsn.get_secret_value(), "CLEARSPAN_URL": url}

    async def clearspan(*arguments: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "clearspan", *arguments, env=environment, cwd=ROOT,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        printed, _ = await process.communicate()
        return process.returncode, printed.decode()

    code, printed = await clearspan("projects", "create", f"of-commands-{uuid4().hex}", "--json")
    assert code == 0, printed
    project_id = json.loads(printed)["id"]
    code, printed = await clearspan("keys", "create", "first", "--project", project_id, "--json")
    key = json.loads(printed)
    code, printed = await clearspan("keys", "revoke", str(uuid4()), "--project", project_id)
    assert code == 1, printed

    code, printed = await clearspan("audit-log", "--last", "1h", "--key", key["key"], "--json")
    assert code == 0, printed
    found = [json.loads(line) for line in printed.splitlines()]
    assert [(e["operation"], e["outcome"]) for e in found] == [
        ("clearspan keys revoke", "failed"),
        ("clearspan keys create", "done"),
    ]
    assert {entry["actor"] for entry in found} == {"command_line"}
    assert "@" in found[0]["actor_name"]
    assert found[1]["entities"] == [{"id": key["id"]}]
    assert key["key"].partition(".")[2] not in printed
    code, printed = await clearspan(
        "audit-log", "--all-projects", "--admin-key", "root", "--operation", "clearspan projects create"
    )
    assert (code, project_id in printed) == (0, True), printed
    code, printed = await clearspan("audit-log", "--all-projects", "--admin-key", "wrong")
    assert (code, "does not accept the admin key" in printed) == (1, True)
    code, printed = await clearspan("audit-log", "--oldest", "yesterday", "--key", key["key"])
    assert (code, "--oldest" in printed) == (2, True)


def test_only_changes_of_histories_do_not_wait_for_the_disk() -> None:
    plurals = ("applications", "evaluators", "environments", "queries", "workflows")
    kinds = tuple(f"{below}/{plural}" for below in ("", "/simple") for plural in plurals)
    for route in ROUTES:
        assert not route.is_in_postgres or route.path.startswith(kinds), route.path
    assert next(route for route in ROUTES if route.path == "/applications/revisions/commit").is_in_postgres


def test_every_route_that_changes_something_is_recorded() -> None:
    recorded = {f"{route.method} {route.path}" for route in ROUTES if route.changes_something}
    not_recorded = {f"{route.method} {route.path}" for route in ROUTES if route.method != "GET"} - recorded

    assert {
        "DELETE /traces/{trace_id}",
        "POST /projects/keys",
        "POST /keys",
        "DELETE /keys/{prefix}",
        "PUT /masking",
        "POST /admin/dead-letters/replay",
    } <= recorded
    assert {"DELETE /admin/projects/{project_id}", "PATCH /simple/traces/{trace_id}"} <= recorded
    sends = ("/v1/", "/ingest", "/traces", "/traces/{trace_id}", "POST /annotations", "POST /invocations")
    reads = ("/query", "/retrieve", "/log", "/resolve", "/check", "/analytics")
    assert [each for each in not_recorded if not each.endswith(reads) and not any(s in each for s in sends)] == []
    assert [each for each in not_recorded if each.startswith(("DELETE", "PATCH"))] == []
