"""Migrations, projects, keys, secrets and errors, with a real Postgres."""

from __future__ import annotations

import asyncio
import shutil
import socket
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from common.errors import (
    DeadlineExceeded,
    InvalidInput,
    InvalidStatement,
    NotFound,
    NotMigrated,
    Overloaded,
    ServiceError,
    Unavailable,
)
from common.fair_share import Tenant, working_for
from common.ids import DEFAULT_PROJECT_ID
from common.migrations import InvalidMigration
from common.postgres.keys import (
    ALONE_FOR_S,
    INVALID_FOR_S,
    NEIGHBOURS_FOR_S,
    VALID_FOR_S,
    KeyOwner,
    Keys,
    KeyWanted,
    NewKey,
)
from common.postgres.migrate import DDL, cursor_secret, migrate, require_tables
from common.postgres.pool import Database, UniqueViolation, open_database
from common.postgres.projects import ABSENT_FOR_S, Projects
from common.settings import PostgresSettings
from tests.fakes.clock import ManualClock


def owner_of(made: NewKey) -> KeyOwner:
    """Who a request with a key without limits acts for."""
    return KeyOwner(made.key.project_id, made.key.user_id, key_id=made.key.id)


MIGRATIONS = sorted(path.stem for path in DDL.glob("*.sql"))


async def migrated(settings: PostgresSettings, folder: Path | None = None) -> list[str]:
    if folder is None:
        return await migrate(settings, default_project_id=DEFAULT_PROJECT_ID)
    return await migrate(settings, default_project_id=DEFAULT_PROJECT_ID, folder=folder)


class TestMigrations:
    async def test_second_migration_has_nothing_to_do(self, postgres_settings: PostgresSettings):
        assert await migrated(postgres_settings) == MIGRATIONS
        assert await migrated(postgres_settings) == []

    async def test_missing_tables_are_reported(self, postgres_settings: PostgresSettings):
        async with open_database(postgres_settings) as database:
            with pytest.raises(NotMigrated, match="Postgres does not have the tables of this version yet"):
                await require_tables(database)
            await migrated(postgres_settings)
            await require_tables(database)

    async def test_migrations_at_the_same_time_all_succeed(self, postgres_settings: PostgresSettings):
        applied = await asyncio.gather(*(migrated(postgres_settings) for _ in range(4)))

        assert sorted(applied) == [[], [], [], MIGRATIONS]

    async def test_changed_file_is_named(self, postgres_settings: PostgresSettings, tmp_path: Path):
        await migrated(postgres_settings)
        (tmp_path / "0001_baseline.sql").write_text("SELECT 1;")

        with pytest.raises(InvalidMigration, match=r"0001_baseline\.sql was changed"):
            await migrated(postgres_settings, tmp_path)

    async def test_failing_file_leaves_nothing_behind(self, postgres_settings: PostgresSettings, tmp_path: Path):
        (tmp_path / "0001_half.sql").write_text("CREATE TABLE half (a int);")
        (tmp_path / "0002_broken.sql").write_text("SELECT nothing;")

        with pytest.raises(InvalidStatement):
            await migrated(postgres_settings, tmp_path)

        async with open_database(postgres_settings) as database:
            with pytest.raises(NotMigrated):
                await database.fetch_one("SELECT * FROM half")

    async def test_next_file_is_applied_to_an_existing_database(
        self, postgres_settings: PostgresSettings, tmp_path: Path
    ):
        await migrated(postgres_settings)
        for path in DDL.iterdir():
            shutil.copy(path, tmp_path)
        (tmp_path / "9999_next.sql").write_text("ALTER TABLE projects ADD COLUMN color text;")

        assert await migrated(postgres_settings, tmp_path) == ["9999_next"]
        async with open_database(postgres_settings) as database:
            rows = await database.fetch_all("SELECT color FROM projects")
        assert [row["color"] for row in rows] == [None]

    async def test_default_project_has_environments(self, database: Database):
        assert await environments_of(database, DEFAULT_PROJECT_ID) == SEEDED

    async def test_archived_or_renamed_environments_are_not_created_again(
        self, database: Database, database_settings: PostgresSettings
    ):
        await database.fetch_all("UPDATE artifacts SET deleted_at = now(), name = 'Gone'")

        await migrated(database_settings)

        assert len(await environments_of(database, DEFAULT_PROJECT_ID)) == len(SEEDED)

    async def test_default_project_exists(self, database: Database):
        assert await Projects(database, ManualClock()).exists(DEFAULT_PROJECT_ID)


SEEDED = [
    (slug, 2, version, message)
    for slug in ("development", "staging", "production")
    for version, message in ((0, "Initial commit"), (1, None))
]


async def environments_of(database: Database, project_id: UUID) -> list[tuple[Any, ...]]:
    """Return slug, count of revisions, version and message of every revision of a project's environments, in the order
    of ids.
    """
    rows = await database.fetch_all(
        """
        SELECT a.slug, v.revisions_count, r.version, r.message
        FROM artifacts a
        LEFT JOIN variants v ON v.project_id = a.project_id AND v.artifact_id = a.id
        LEFT JOIN revisions r ON r.project_id = a.project_id AND r.variant_id = v.id
        WHERE a.project_id = $1 AND a.kind = 'environment' ORDER BY a.id, r.id
        """,
        project_id,
    )
    return [tuple(row.values()) for row in rows]


class TestSecrets:
    async def test_secret_of_cursors_is_created_once(self, postgres_settings: PostgresSettings):
        await migrated(postgres_settings)
        async with open_database(postgres_settings) as database:
            before = await cursor_secret(database)

            await migrated(postgres_settings)

            assert await cursor_secret(database) == before
            assert len(before) == 32

    async def test_secret_is_unavailable_before_migrate(self, postgres_settings: PostgresSettings):
        async with open_database(postgres_settings) as database:
            with pytest.raises(Unavailable):
                await cursor_secret(database)


class TestProjects:
    async def test_new_project_exists_and_is_listed(self, database: Database):
        projects = Projects(database, ManualClock())

        project = await projects.create("blue")

        assert await projects.exists(project.id)
        assert [one.name for one in await projects.all()] == ["default", "blue"]

    async def test_unknown_project_is_looked_up_again_after_a_second(self, database: Database):
        clock = ManualClock()
        projects = Projects(database, clock)
        project_id = uuid4()
        assert not await projects.exists(project_id)
        await database.fetch_all("INSERT INTO projects (id, name) VALUES ($1, 'late')", project_id)

        assert not await projects.exists(project_id)
        clock.advance(ABSENT_FOR_S)

        assert await projects.exists(project_id)


class TestKeys:
    async def test_key_finds_its_project_and_is_stored_as_a_hash(self, database: Database):
        keys = Keys(database, ManualClock())

        made = await keys.create(DEFAULT_PROJECT_ID, KeyWanted("laptop"))

        prefix, secret = made.text.split(".")
        assert (len(prefix), len(secret)) == (8, 64)
        assert await keys.find(made.text) == owner_of(made)
        [row] = await database.fetch_all("SELECT api_keys::text AS everything FROM api_keys")
        assert prefix in row["everything"]
        assert secret not in row["everything"]

    @pytest.mark.parametrize("change", [str.upper, lambda text: text[:-1], lambda text: text + "0", lambda _: ""])
    async def test_text_that_is_almost_the_key_finds_nothing(self, database: Database, change):
        keys = Keys(database, ManualClock())
        made = await keys.create(DEFAULT_PROJECT_ID, KeyWanted("laptop"))

        assert await keys.find(change(made.text)) is None

    async def test_prefix_with_another_secret_finds_nothing(self, database: Database):
        keys = Keys(database, ManualClock())
        one = await keys.create(DEFAULT_PROJECT_ID, KeyWanted("one"))
        two = await keys.create(DEFAULT_PROJECT_ID, KeyWanted("two"))

        assert await keys.find(one.text[:9] + two.text[9:]) is None

    async def test_revoked_key_is_invalid_here_at_once_and_elsewhere_soon(self, database: Database):
        clock = ManualClock()
        here, elsewhere = Keys(database, clock), Keys(database, clock)
        made = await here.create(DEFAULT_PROJECT_ID, KeyWanted("laptop"))
        assert await elsewhere.find(made.text) == owner_of(made)
        assert await here.find(made.text) == owner_of(made)

        await here.revoke(DEFAULT_PROJECT_ID, made.key.id)

        assert await here.find(made.text) is None
        assert await elsewhere.find(made.text) == owner_of(made)
        clock.advance(VALID_FOR_S)
        assert await elsewhere.find(made.text) is None

    async def test_wrong_key_is_looked_up_again_after_a_second(self, database: Database):
        clock = ManualClock()
        keys = Keys(database, clock)
        made = await keys.create(DEFAULT_PROJECT_ID, KeyWanted("laptop"))
        await database.fetch_all("UPDATE api_keys SET prefix = 'elsewher'")
        assert await keys.find(made.text) is None
        await database.fetch_all("UPDATE api_keys SET prefix = $1", made.key.prefix)

        assert await keys.find(made.text) is None
        clock.advance(INVALID_FOR_S)

        assert await keys.find(made.text) == owner_of(made)

    async def test_second_project_with_a_key_is_noticed_within_a_second(self, database: Database):
        clock = ManualClock()
        keys = Keys(database, clock)
        second = await Projects(database, clock).create("second")
        await keys.create(DEFAULT_PROJECT_ID, KeyWanted("laptop"))
        assert not await keys.has_neighbors(DEFAULT_PROJECT_ID)

        made = await keys.create(second.id, KeyWanted("laptop"))
        clock.advance(ALONE_FOR_S)

        assert await keys.has_neighbors(DEFAULT_PROJECT_ID)
        assert await keys.has_neighbors(second.id)
        await keys.revoke(second.id, made.key.id)
        clock.advance(NEIGHBOURS_FOR_S)
        assert not await keys.has_neighbors(DEFAULT_PROJECT_ID)

    async def test_other_projects_are_looked_up_once_a_second(self, database: Database):
        clock = ManualClock()
        keys = Keys(database, clock)
        assert not await keys.has_neighbors(DEFAULT_PROJECT_ID)

        await database.fetch_all("ALTER TABLE api_keys RENAME TO elsewhere")

        assert not await keys.has_neighbors(DEFAULT_PROJECT_ID)
        clock.advance(ALONE_FOR_S)
        assert await keys.has_neighbors(DEFAULT_PROJECT_ID)  # it cannot be determined now

    async def test_keys_are_listed_and_revoked_only_in_their_project(self, database: Database):
        keys = Keys(database, ManualClock())
        other = await Projects(database, ManualClock()).create("other")
        made = await keys.create(DEFAULT_PROJECT_ID, KeyWanted("laptop"))

        with pytest.raises(NotFound):
            await keys.revoke(other.id, made.key.id)

        assert await keys.of_project(other.id) == []
        assert await keys.of_project(DEFAULT_PROJECT_ID) == [made.key]

    async def test_key_needs_a_project(self, database: Database):
        with pytest.raises(NotFound):
            await Keys(database, ManualClock()).create(UUID(int=9), KeyWanted("nobody's"))


class TestTransactions:
    async def test_error_rolls_the_transaction_back(self, database: Database):
        projects = Projects(database, ManualClock())

        async def insert_and_fail() -> None:
            async with database.transaction() as transaction:
                await transaction.fetch_all("INSERT INTO projects (id, name) VALUES ($1, 'gone')", uuid4())
                raise KeyError("after the insert")

        with pytest.raises(KeyError):
            await insert_and_fail()

        assert [project.name for project in await projects.all()] == ["default"]

    async def test_transaction_without_an_error_is_committed(self, database: Database):
        async with database.transaction() as transaction:
            await transaction.fetch_all("INSERT INTO projects (id, name) VALUES ($1, 'kept')", uuid4())

        assert len(await Projects(database, ManualClock()).all()) == 2

    @pytest.mark.parametrize("first", [asyncio.CancelledError, InvalidInput])
    async def test_error_is_reported_although_the_connection_is_lost(
        self, database: Database, first: type[BaseException]
    ):
        async def lose_the_connection_and_fail() -> None:
            async with database.transaction() as transaction:
                row = await transaction.fetch_one("SELECT pg_backend_pid() AS pid")
                assert row is not None
                await database.fetch_all("SELECT pg_terminate_backend($1, 5000)", row["pid"])
                raise first

        with pytest.raises(first):
            await lose_the_connection_and_fail()

        await database.fetch_one("SELECT 1")


class TestErrors:
    async def test_unique_violation_names_its_constraint(self, database: Database):
        with pytest.raises(UniqueViolation) as caught:
            await database.fetch_all("INSERT INTO projects (id, name) VALUES ($1, 'again')", DEFAULT_PROJECT_ID)

        assert caught.value.constraint_name == "projects_pkey"

    @pytest.mark.parametrize(
        ("sql", "error"),
        [
            ("SELEC", InvalidStatement),
            ("SELECT * FROM no_such_table", Unavailable),
            ("SELECT 1 / 0", InvalidStatement),
            ("SELECT pg_sleep(30)", DeadlineExceeded),
            ("SELECT pg_terminate_backend(pg_backend_pid())", Unavailable),
        ],
    )
    async def test_error_of_postgres_becomes_one_of_ours(
        self, postgres_settings: PostgresSettings, sql: str, error: type[ServiceError]
    ):
        quick = postgres_settings.model_copy(update={"timeout_s": 0.3})
        async with open_database(quick) as database:
            with pytest.raises(error) as caught:
                await database.fetch_one(sql)

            assert caught.value.public_message.startswith("Postgres ") or not caught.value.transient
            await database.fetch_one("SELECT 1")

    async def test_text_with_u0000_is_invalid_input(self, database: Database):
        with pytest.raises(InvalidInput):
            await Projects(database, ManualClock()).create("a\0b")

    async def test_argument_of_the_wrong_type_is_an_invalid_statement(self, database: Database):
        with pytest.raises(InvalidStatement):
            await database.fetch_one("SELECT $1::int", "five")

    async def test_wait_for_a_connection_ends_at_the_deadline(self, postgres_settings: PostgresSettings):
        narrow = postgres_settings.model_copy(update={"timeout_s": 0.3, "connections_max": 1})
        async with open_database(narrow) as database:
            async with database.transaction():
                with pytest.raises(Overloaded):
                    await database.fetch_one("SELECT 1")

            await database.fetch_one("SELECT 1")

    async def test_project_with_its_share_leaves_connections_to_others(self, postgres_settings: PostgresSettings):
        greedy, neighbor = (Tenant(UUID(int=number), has_neighbors=True, queue_s=0.1) for number in (1, 2))
        async with open_database(postgres_settings.model_copy(update={"connections_max": 2})) as database:
            with working_for(greedy):
                async with database.transaction():
                    with pytest.raises(Overloaded):
                        await database.fetch_one("SELECT 1")
                    with working_for(neighbor):
                        assert await database.fetch_one("SELECT 1") is not None

                assert await database.fetch_one("SELECT 1") is not None

    async def test_postgres_away_is_unavailable_on_first_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, not listening: no other process can take it
            dsn = f"postgresql://nobody@127.0.0.1:{taken.getsockname()[1]}/nothing"
            settings = PostgresSettings.model_validate({"dsn": dsn, "timeout_s": 1})

            async with open_database(settings) as database:
                with pytest.raises(Unavailable):
                    await database.fetch_one("SELECT 1")
            with pytest.raises(Unavailable):
                await migrated(settings)

    async def test_missing_database_is_unavailable(self, postgres_settings: PostgresSettings):
        elsewhere = postgres_settings.dsn.get_secret_value().replace("/test", "/no_test")

        async with open_database(PostgresSettings.model_validate({"dsn": elsewhere})) as database:
            with pytest.raises(Unavailable):
                await database.fetch_one("SELECT 1")
