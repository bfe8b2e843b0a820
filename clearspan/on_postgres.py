"""How a command works on Postgres: the installation it means, its failures in words, and the exit code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.postgres.pool import Database


def on_postgres(run: Callable[[Database], Awaitable[None]]) -> int:
    """Do something with the database; 1 with a sentence on standard error where that fails."""
    from clearspan.target import explained, target_settings  # noqa: PLC0415 - rooms are loaded by the command that needs them
    from common.errors import ServiceError  # noqa: PLC0415
    from common.postgres.pool import open_database  # noqa: PLC0415

    async def run_on_database() -> None:
        async with open_database(target_settings().postgres) as database:
            await run(database)

    try:
        asyncio.run(run_on_database())
    except ServiceError as exc:
        print(f"clearspan: {explained(exc, 'postgres')}", file=sys.stderr)
        return 1
    return 0
