"""Accounts, the project of a key, and the commands about both: over HTTP and as processes, on a real Postgres."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import aiohttp
import pytest
from pydantic import SecretStr

from common.ids import DEFAULT_PROJECT_ID, DEFAULT_USER_ID
from common.postgres.keys import KeyOwner, Keys, KeyWanted
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.scopes import KeyScope
from common.settings import PostgresSettings, Settings
from common.times import SystemClock
from tests.fakes.clock import ManualClock
from tests.support.api import context_of, serving, status_of
from tests.support.command_line import RunCommand, runner

ADMIN_KEY = "the-key-of-the-admin"
ADMIN = {"Authorization": f"Access {ADMIN_KEY}"}
Result = TypeVar("Result")
OPTIONS = {"create_api_keys": True, "return_api_keys": True, "seed_defaults": False}
KEY = re.compile(r"[A-Za-z0-9_-]{8}\.[0-9a-f]{64}")


@pytest.fixture
async def client(shared_database: Database) -> AsyncIterator[aiohttp.ClientSession]:
    settings = Settings(auth="on", admin_key=SecretStr(ADMIN_KEY))
    keys = Keys(shared_database, SystemClock())
    async with AsyncExitStack() as resources:
        context = context_of(settings=settings, keys=keys, database=shared_database)
        yield await resources.enter_async_context(serving(context))


def _email() -> str:
    return f"{uuid4().hex}@example.org"


async def _create(client: aiohttp.ClientSession, body: Any, headers: Any = ADMIN) -> tuple[int, dict[str, Any]]:
    response = await client.post("/api/admin/simple/accounts/", json=body, headers=headers)
    return response.status, await response.json()


async def _count(database: Database, table: str) -> int:
    row = await database.fetch_one(f"SELECT count(*) AS n FROM {table}")
    assert row is not None
    return int(row["n"])


class TestAccounts:
    async def test_account_is_a_user_with_a_new_project_and_a_key(self, client: aiohttp.ClientSession):
        email, other = _email(), _email()
        accounts = {
            "user": {"user": {"email": email}, "options": OPTIONS},
            "b": {"user": {"email": other}, "options": OPTIONS},
        }

        status, made = await _create(client, {"accounts": accounts})

        first, second = made["accounts"]["user"], made["accounts"]["b"]
        assert status == 200
        assert KEY.fullmatch(first["api_keys"]["key"])
        assert (first["user"]["email"], second["user"]["email"]) == (email, other)
        assert first["projects"]["prj"]["id"] != second["projects"]["prj"]["id"]
        for account in (first, second):
            current = await client.get("/projects/current", headers={"Authorization": account["api_keys"]["key"]})
            returned = await current.json()
            for member, word in (
                ("projects", "project"),
                ("organizations", "organization"),
                ("workspaces", "workspace"),
            ):
                shown = {"id": returned[f"{word}_id"], "name": returned[f"{word}_name"]}
                assert list(account[member].values()) == [shown]

    async def test_the_key_acts_for_the_user_of_the_account(
        self, client: aiohttp.ClientSession, shared_database: Database
    ):
        _, made = await _create(client, {"accounts": {"u": {"user": {"email": _email()}, "options": OPTIONS}}})
        account = made["accounts"]["u"]

        owner = await Keys(shared_database, ManualClock()).find(account["api_keys"]["key"])

        assert owner is not None
        assert owner[:2] == (UUID(account["projects"]["prj"]["id"]), UUID(account["user"]["id"]))

    async def test_known_address_is_the_same_user_with_another_project(self, client: aiohttp.ClientSession):
        body = {"accounts": {"u": {"user": {"email": _email()}}}}

        (_, first), (_, second) = [await _create(client, body) for _ in range(2)]

        one, two = first["accounts"]["u"], second["accounts"]["u"]
        assert one["user"] == two["user"]
        assert one["projects"] != two["projects"]

    @pytest.mark.parametrize("options", [None, {}, {"create_api_keys": True}, {"return_api_keys": True}])
    async def test_key_is_created_only_if_it_is_requested_and_returned(
        self, client: aiohttp.ClientSession, shared_database: Database, options: Any
    ):
        account = {"user": {"email": _email()}} | ({} if options is None else {"options": options})
        before = await _count(shared_database, "api_keys")

        status, made = await _create(client, {"accounts": {"u": account}})

        assert (status, made["accounts"]["u"]["api_keys"]) == (200, {})
        assert await _count(shared_database, "api_keys") == before

    @pytest.mark.parametrize(
        ("account_options", "request_options"),
        [({"dry_run": True}, {}), ({}, {"dry_run": True}), ({"dry_run": False}, {"dry_run": True})],
    )
    async def test_dry_run_stores_nothing_and_returns_no_key(
        self,
        client: aiohttp.ClientSession,
        shared_database: Database,
        account_options: dict[str, bool],
        request_options: dict[str, bool],
    ):
        email = _email()
        account = {"user": {"email": email}, "options": {**OPTIONS, "seed_defaults": True, **account_options}}
        tables = ("projects", "users", "artifacts", "api_keys")
        before = [await _count(shared_database, table) for table in tables]

        status, made = await _create(client, {"accounts": {"u": account}, "options": request_options})

        would_be = made["accounts"]["u"]
        assert (status, would_be["user"], would_be["api_keys"]) == (200, {"email": email}, {})
        assert would_be["projects"] == {"prj": {"name": email}}
        assert [await _count(shared_database, table) for table in tables] == before

    async def test_dry_run_of_one_account_creates_the_others(
        self, client: aiohttp.ClientSession, shared_database: Database
    ):
        wanted = {
            name: {"user": {"email": _email()}, "options": {**OPTIONS, "dry_run": name == "dry"}}
            for name in ("dry", "real")
        }
        before = await _count(shared_database, "projects")

        status, made = await _create(client, {"accounts": wanted})

        assert (status, list(made["accounts"])) == (200, ["dry", "real"])
        assert [bool(account["api_keys"]) for account in made["accounts"].values()] == [False, True]
        assert await _count(shared_database, "projects") == before + 1

    @pytest.mark.parametrize(
        ("options", "environments"),
        [
            ({}, ["development", "staging", "production"]),
            ({"seed_defaults": True}, ["development", "staging", "production"]),
            ({"seed_defaults": False}, []),
        ],
    )
    async def test_project_of_an_account_has_environments_by_default(
        self, client: aiohttp.ClientSession, options: Any, environments: list[str]
    ):
        keys = {"create_api_keys": True, "return_api_keys": True}
        _, made = await _create(client, {"accounts": {"u": {"user": {"email": _email()}, "options": keys | options}}})
        account = made["accounts"]["u"]

        headers = {"Authorization": account["api_keys"]["key"]}
        found = await (await client.post("/simple/environments/query", headers=headers)).json()

        assert [environment["slug"] for environment in found["environments"]] == environments
        assert {environment["created_by_id"] for environment in found["environments"]} <= {account["user"]["id"]}

    @pytest.mark.parametrize(
        "authorization", [None, "", "Access", "Access ", "Access wrong", ADMIN_KEY, f"ApiKey {ADMIN_KEY}"]
    )
    async def test_wrong_admin_key_is_401_and_creates_nothing(
        self, client: aiohttp.ClientSession, shared_database: Database, authorization: str | None
    ):
        before = await _count(shared_database, "projects")
        headers = {} if authorization is None else {"Authorization": authorization}

        status, body = await _create(client, {"accounts": {"u": {"user": {"email": _email()}}}}, headers)

        assert (status, body) == (401, {"detail": {"message": "Unauthorized"}})
        assert await _count(shared_database, "projects") == before

    async def test_401_names_the_scheme(self, client: aiohttp.ClientSession):
        async with client.post("/admin/simple/accounts/", json={}) as of_admins, client.get("/projects/current") as own:
            found = [(response.status, response.headers["WWW-Authenticate"]) for response in (of_admins, own)]

        assert found == [(401, "Access"), (401, "ApiKey")]

    async def test_admin_key_is_valid_for_no_other_route(self, client: aiohttp.ClientSession):
        assert await status_of(client.get("/projects/current", headers=ADMIN)) == 401

    @pytest.mark.parametrize(
        ("body", "loc"),
        [
            ({}, ["body", "accounts"]),
            ({"accounts": {}}, ["body", "accounts"]),
            ({"accounts": {"u": {}}}, ["body", "accounts", "u", "user"]),
            ({"accounts": {"u": {"user": {}}}}, ["body", "accounts", "u", "user", "email"]),
            ({"accounts": {"u": {"user": {"email": ""}}}}, ["body", "accounts", "u", "user", "email"]),
            ({"accounts": {"u": {"user": {"email": "a\0b"}}}}, ["body", "accounts", "u", "user", "email"]),
            ({"accounts": {"u": {"user": {"email": "a" * 321}}}}, ["body", "accounts", "u", "user", "email"]),
            ({"accounts": {str(n): {"user": {"email": "e"}} for n in range(101)}}, ["body", "accounts"]),
        ],
    )
    async def test_invalid_account_is_422(
        self, client: aiohttp.ClientSession, shared_database: Database, body: Any, loc: list[str]
    ):
        before = await _count(shared_database, "projects")

        status, answer = await _create(client, body)

        assert (status, answer["detail"][0]["loc"]) == (422, loc)
        assert await _count(shared_database, "projects") == before

    async def test_a_hundred_accounts_and_the_longest_address_are_valid(self, client: aiohttp.ClientSession):
        email = _email().rjust(320, "a")

        status, made = await _create(client, {"accounts": {str(n): {"user": {"email": email}} for n in range(100)}})

        assert (status, len(made["accounts"])) == (200, 100)

    async def test_accounts_are_created_all_or_none(self, client: aiohttp.ClientSession, shared_database: Database):
        tables = ("users", "projects", "api_keys")
        before = [await _count(shared_database, table) for table in tables]
        await shared_database.fetch_all(
            "ALTER TABLE projects ADD CONSTRAINT nobody_is_last CHECK (name <> 'z@last') NOT VALID"
        )
        accounts = {name: {"user": {"email": name}, "options": OPTIONS} for name in ("a@first", "z@last")}

        status, _ = await _create(client, {"accounts": accounts})

        await shared_database.fetch_all("ALTER TABLE projects DROP CONSTRAINT nobody_is_last")
        assert status == 500
        assert [await _count(shared_database, table) for table in tables] == before

    async def test_requests_about_the_same_addresses_do_not_deadlock(self, client: aiohttp.ClientSession):
        """The second address of one request is the first of the other."""
        emails = [_email() for _ in range(6)]
        bodies = [
            {"accounts": {email: {"user": {"email": email}} for email in order}} for order in (emails, emails[::-1]) * 4
        ]

        made = await asyncio.gather(*(_create(client, body) for body in bodies))

        assert [status for status, _ in made] == [200] * 8
        users = {str(account["user"]) for _, answer in made for account in answer["accounts"].values()}
        assert len(users) == 6


class TestCurrentProject:
    async def test_current_project_is_that_of_the_key(self, client: aiohttp.ClientSession, shared_database: Database):
        project = await Projects(shared_database, ManualClock()).create("checkout")
        key = await Keys(shared_database, ManualClock()).create(project.id, KeyWanted("k"))

        response = await client.get("/api/preview/projects/current/", headers={"Authorization": f"ApiKey {key.text}"})

        answer = await response.json()
        assert (answer["project_id"], answer["project_name"]) == (str(project.id), "checkout")
        assert (answer["is_default_project"], answer["is_demo"], answer["user_role"]) == (False, False, "owner")
        assert answer["scopes"] == ["admin", "ingest", "read", "write"]
        assert {"organization_id", "organization_name", "workspace_id", "workspace_name"} <= answer.keys()

    @pytest.mark.parametrize(("granted", "shown"), [(KeyScope.READ, ["read"]), (KeyScope.WRITE, ["read", "write"])])
    async def test_current_project_says_what_the_key_may_do(
        self, granted: KeyScope, shown: list[str], client: aiohttp.ClientSession, shared_database: Database
    ):
        project = await Projects(shared_database, ManualClock()).create("checkout")
        key = await Keys(shared_database, ManualClock()).create(project.id, KeyWanted("k", (granted,)))

        response = await client.get("/projects/current", headers={"Authorization": f"ApiKey {key.text}"})

        assert (await response.json())["scopes"] == shown

    async def test_current_project_without_authentication_is_the_default(self, shared_database: Database):
        async with serving(context_of(database=shared_database)) as client:
            answer = await (await client.get("/projects/current")).json()

        assert (answer["project_id"], answer["is_default_project"]) == (str(DEFAULT_PROJECT_ID), True)

    async def test_users_of_a_project_are_those_of_its_keys(
        self, client: aiohttp.ClientSession, shared_database: Database
    ):
        names = {"own": _email(), "other": _email()}
        accounts = {name: {"user": {"email": email}, "options": OPTIONS} for name, email in names.items()}
        _, made = await _create(client, {"accounts": accounts})
        key = made["accounts"]["own"]["api_keys"]["key"]
        found = await Keys(shared_database, ManualClock()).find(key)
        assert found is not None
        await Keys(shared_database, ManualClock()).create(found.project_id, KeyWanted("without a user"))

        response = await client.get("/projects/users", headers={"Authorization": key})

        users = (await response.json())["users"]
        assert users == [{"id": str(DEFAULT_USER_ID)}, made["accounts"]["own"]["user"]]

    async def test_missing_project_is_404(self, shared_database: Database):
        settings = Settings(auth="off", default_project_id=UUID(int=7))
        async with serving(context_of(database=shared_database, settings=settings)) as client:
            assert await status_of(client.get("/projects/current")) == 404

    async def test_unavailable_postgres_is_503_with_retry_after(self):
        away = PostgresSettings.model_validate({"dsn": "postgresql://nobody@127.0.0.1:1/none", "timeout_s": 0.5})
        async with open_database(away) as database, serving(context_of(database=database)) as client:
            response = await client.get("/projects/current")

        assert response.status == 503
        assert int(response.headers["Retry-After"]) >= 1


class TestPermissions:
    PATH = "/api/access/permissions/check?action=run_service&resource_type=service&scope_type=x&scope_id=y"

    async def test_valid_key_may_do_everything(self, client: aiohttp.ClientSession, shared_database: Database):
        project = await Projects(shared_database, ManualClock()).create("served")
        key = await Keys(shared_database, ManualClock()).create(project.id, KeyWanted("k"))

        for path in (self.PATH, "/access/permissions/check"):
            response = await client.get(path, headers={"Authorization": f"ApiKey {key.text}"})

            assert (response.status, await response.json()) == (200, {"effect": "allow"})

    async def test_any_other_key_is_401(self, client: aiohttp.ClientSession):
        for headers in ({}, {"Authorization": "ApiKey aaaaaaaa." + "0" * 64}, ADMIN):
            response = await client.get(self.PATH, headers=headers)

            assert (response.status, await response.json()) == (401, {"detail": {"message": "Unauthorized"}})

    async def test_permission_without_authentication_is_allowed(self):
        async with serving(context_of()) as client:
            assert await (await client.get(self.PATH)).json() == {"effect": "allow"}


@pytest.fixture
def run(
    shared_postgres: PostgresSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> RunCommand:
    dsn = shared_postgres.dsn.get_secret_value()
    environment = {"CLEARSPAN_POSTGRES__DSN": dsn, "CLEARSPAN_DATA_DIR": str(tmp_path)}
    return runner(monkeypatch, capsys, environment)


def objects(run: RunCommand, *arguments: str) -> list[dict[str, Any]]:
    """Run a command with ``--json``; return its objects."""
    done = run(*arguments, "--json")
    assert done.code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def in_database(settings: PostgresSettings, work: Callable[[Database], Awaitable[Result]]) -> Result:
    """Return what ``work`` returns, on a loop of its own: a command needs the thread without one."""

    async def run_with_database() -> Result:
        async with open_database(settings) as database:
            return await work(database)

    return asyncio.run(run_with_database())


def owners_of(settings: PostgresSettings, *keys: str) -> list[KeyOwner | None]:
    async def find(database: Database) -> list[KeyOwner | None]:
        return [await Keys(database, ManualClock()).find(key) for key in keys]

    return in_database(settings, find)


class TestCommands:
    def test_project_is_created_listed_and_gets_keys_by_its_name(
        self, run: RunCommand, shared_postgres: PostgresSettings
    ):
        name, email = f"team {uuid4()}", _email()
        [project] = objects(run, "projects", "create", name)
        [key] = objects(run, "keys", "create", "laptop", "--project", name, "--user", email)

        [owner] = owners_of(shared_postgres, key["key"])
        of_project = "SELECT slug FROM artifacts WHERE project_id = $1 ORDER BY id"
        environments = in_database(
            shared_postgres, lambda database: database.fetch_all(of_project, UUID(project["id"]))
        )

        assert [row["slug"] for row in environments] == ["development", "staging", "production"]
        assert project in objects(run, "projects", "list")
        assert [listed["id"] for listed in objects(run, "keys", "list", "--project", name)] == [key["id"]]
        assert owner is not None
        assert owner[:2] == (UUID(project["id"]), UUID(key["user_id"]))
        assert owner.user_id != DEFAULT_USER_ID

    def test_key_with_limits_is_rotated(self, run: RunCommand, shared_postgres: PostgresSettings):
        limits = ("--scope", "ingest", "--scope", "read", "--expires", "90d", "--requests-per-s", "2.5")
        [made] = objects(run, "keys", "create", "service", *limits, "--concurrent-max", "4")
        [rotated] = objects(run, "keys", "rotate", made["id"], "--overlap", "2d")

        owners = owners_of(shared_postgres, made["key"], rotated["key"])
        listed = run("keys", "list").stdout

        for key, owner in zip((made, rotated), owners, strict=True):
            assert owner is not None
            assert owner.scopes == {KeyScope.INGEST, KeyScope.READ}
            assert (owner.requests_per_s, owner.concurrent_max, str(owner.key_id)) == (2.5, 4, key["id"])
            [line] = [line for line in listed.splitlines() if key["id"] in line]
            assert f"{key['prefix']}.…" in line
            assert "ingest,read" in line
        assert run("keys", "rotate", str(uuid4())).code == 1

    @pytest.mark.parametrize(
        "option",
        [("--scope", "all"), ("--expires", "soon"), ("--requests-per-s", "0"), ("--concurrent-max", "1.5")],
        ids=lambda option: option[0],
    )
    def test_wrong_limit_is_explained(self, run: RunCommand, option: tuple[str, str]):
        refused = run("keys", "create", "k", *option)

        assert refused.code == 2
        assert f"argument {option[0]}" in refused.stderr

    def test_revoked_key_is_invalid(self, run: RunCommand, shared_postgres: PostgresSettings):
        [key] = objects(run, "keys", "create", "old")

        [revoked] = objects(run, "keys", "revoke", key["id"])

        assert revoked == {"id": key["id"], "is_revoked": True}
        assert owners_of(shared_postgres, key["key"]) == [None]
        assert key["user_id"] == str(DEFAULT_USER_ID)

    def test_key_without_a_project_is_one_of_the_default_project(
        self, run: RunCommand, shared_postgres: PostgresSettings, monkeypatch: pytest.MonkeyPatch
    ):
        project = in_database(
            shared_postgres,
            lambda database: Projects(database, ManualClock()).create("the default of this installation"),
        )
        monkeypatch.setenv("CLEARSPAN_DEFAULT_PROJECT_ID", str(project.id))

        [key] = objects(run, "keys", "create", "laptop")

        assert key["project_id"] == str(project.id)
        assert [listed["id"] for listed in objects(run, "keys", "list")] == [key["id"]]
        assert f"{project.name}  (default)" in run("projects", "list").stdout

    def test_name_of_two_projects_is_rejected_with_their_ids(self, run: RunCommand):
        name = f"twice {uuid4()}"
        ids = [objects(run, "projects", "create", name)[0]["id"] for _ in range(2)]

        refused = run("keys", "list", "--project", name)

        assert refused.code == 1
        assert all(project_id in refused.stderr for project_id in ids)

    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (["keys", "list", "--project", "nobody's"], 1, "There is no project"),
            (["keys", "list", "--project", str(UUID(int=9))], 1, "There is no project"),
            (["keys", "revoke", str(UUID(int=9))], 1, "There is no key"),
            (["keys", "revoke", "x"], 2, "ID: 'x' is not an id"),
            (["keys", "create", str(UUID(int=9))], 2, "name the project with --project"),
            (["keys", "create", ""], 2, "argument NAME: must not be empty"),
            (["keys", "create", "ci", "--user", ""], 2, "argument --user: must not be empty"),
            (["projects", "create", " "], 2, "must not be empty"),
            (["projects", "create", str(UUID(int=9))], 2, "must not look like an id"),
            (["projects"], 2, "ACTION"),
            (["projects", "--help"], 0, "no project sees the data of"),
            (["keys", "--help"], 0, "Authorization: ApiKey KEY"),
        ],
    )
    def test_exit_code_and_text_of_commands(self, run: RunCommand, arguments: list[str], code: int, words: str):
        done = run(*arguments)

        assert (done.code, words in done.stdout + done.stderr) == (code, True)

    def test_text_output_names_the_next_step(self, run: RunCommand):
        project = run("projects", "create", f"for people {uuid4()}")
        listed = run("projects", "list")

        assert "clearspan keys create NAME --project" in project.stdout
        assert "default  (default)" in listed.stdout
