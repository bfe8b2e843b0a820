"""Leave tables of a stopped stack as a kill during an insert does: ``python -m tests.support.interrupted_insert DIR``.

The rows in ``spans`` stay. Positions are those after the first record of each partition, as if the process had ended
before it recorded later ones. With ``--without-copies`` the later rows are also missing in the tables that the views
fill.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from common.clickhouse.connect import open_store
from common.clickhouse.store import Statement
from common.settings import ClickHouseSettings

DEADLINE_S = 60.0
SYNC = {"mutations_sync": 1}

FIRST_POSITIONS = (
    "CREATE TABLE first_positions ENGINE = Memory AS SELECT DISTINCT project_id, partition_id,"
    " 0 AS through_offset, record_ms, stored_us FROM stored_through FINAL",
    "TRUNCATE TABLE stored_through",
    "INSERT INTO stored_through SELECT * FROM first_positions",
    "DROP TABLE first_positions",
)
NO_COPIES = (
    "ALTER TABLE span_versions DELETE WHERE version > 0",
    "ALTER TABLE span_arrivals DELETE WHERE record_offset > 0",
)


async def interrupt(data_dir: Path, *, without_copies: bool) -> None:
    """Change the tables below ``data_dir``; no other process may have them open."""
    store = open_store(ClickHouseSettings(interface="chdb"), data_dir=data_dir)
    try:
        for sql in (*FIRST_POSITIONS, *(NO_COPIES if without_copies else ())):
            await store.execute(Statement(sql, settings=SYNC), deadline_s=DEADLINE_S)
    finally:
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--without-copies", action="store_true")
    options = parser.parse_args()
    asyncio.run(interrupt(options.data_dir, without_copies=options.without_copies))


if __name__ == "__main__":
    main()
