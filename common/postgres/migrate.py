"""Brings the tables up to date with the numbered files of ``ddl/``, each applied once.

The table ``schema_migrations`` records them. Everything is one transaction under an advisory lock: if two processes
start, the second finds nothing left to do, and a file that fails changes nothing. Also makes the secret that
signs cursors, which all processes of an installation share.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from common.errors import NotMigrated, Unavailable
from common.ids import DEFAULT_USER_ID
from common.migrations import Migration, is_behind, load_migrations, pending
from common.postgres.pool import Connector, Database, connection_options, translated
from common.postgres.projects import FIRST_ENVIRONMENTS, SQL
from common.settings import PostgresSettings

DDL: Final = Path(__file__).parent / "ddl"
LOCK_KEY: Final = 0x436C_6561_7273_7061
"""`Clearspa` in ASCII: an advisory lock is a number that all processes know."""

DEADLINE_S: Final = 300.0
CURSOR_KEY_NAME: Final = "cursor"
SECRET_BYTES: Final = 32


async def migrate(settings: PostgresSettings, /, *, default_project_id: UUID, folder: Path = DDL) -> list[str]:
    """Apply the files that are not applied yet, and return their names in order.

    Also creates the default project with its environments, and the secret that signs cursors, unless they exist. Raises
    ``InvalidMigration`` if an applied file has changed, and the errors of ``Database``.
    """
    with translated():
        options = connection_options(settings) | {"command_timeout": DEADLINE_S}
        connection = await Connector(settings).connect(options.pop("dsn"), **options)
        try:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY)
                migrations = await _apply_pending(connection, folder)
                default = (default_project_id, "default", FIRST_ENVIRONMENTS, DEFAULT_USER_ID)
                await connection.execute(SQL["create_project"], *default)
                await connection.execute(SQL["ensure_secret"], CURSOR_KEY_NAME, secrets.token_bytes(SECRET_BYTES))
        finally:
            await connection.close(timeout=settings.timeout_s)
    return [f"{migration.number:04}_{migration.name}" for migration in migrations]


async def require_tables(database: Database, /) -> None:
    """Raise ``NotMigrated`` unless Postgres has the tables of this program. Raises the errors of ``Database`` too."""
    applied = await database.fetch_all(SQL["applied_migrations"])
    if is_behind(DDL, [row["number"] for row in applied]):
        raise NotMigrated("Postgres")


async def cursor_secret(database: Database, /) -> bytes:
    """Return the 32 bytes that sign cursors. Raises ``Unavailable`` until ``migrate`` has run."""
    row = await database.fetch_one(SQL["find_secret"], CURSOR_KEY_NAME)
    if row is None:
        raise Unavailable("The secret that signs cursors does not exist yet: run `clearspan migrate`.")
    return bytes(row["value"])


async def _apply_pending(connection: Any, folder: Path) -> list[Migration]:
    await connection.execute(SQL["create_record_of_migrations"])
    applied = {row["number"]: row["sha256"] for row in await connection.fetch(SQL["applied_migrations"])}
    migrations = pending(load_migrations(folder), applied, database="Postgres")
    for migration in migrations:
        await connection.execute(migration.text)
        await connection.execute(SQL["record_migration"], migration.number, migration.name, migration.sha256)
    return migrations
