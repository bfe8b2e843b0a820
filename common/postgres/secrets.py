"""Random bytes that all processes of an installation share; migrate makes them."""

from __future__ import annotations

from typing import Final

from common.errors import Unavailable
from common.postgres.pool import Database
from common.postgres.queries import SQL

OF_CURSORS: Final = "cursor"


async def cursor_secret(database: Database, /) -> bytes:
    """What signs cursors: 32 bytes. Raises ``Unavailable`` until migrate has run."""
    row = await database.fetch_one(SQL["find_secret"], OF_CURSORS)
    if row is None:
        raise Unavailable("The secret of the cursors is not there yet: run `clearspan migrate`.")
    return bytes(row["value"])
