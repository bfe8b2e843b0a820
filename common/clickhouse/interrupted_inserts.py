"""Complete what an insert has left whose process was killed, where nobody will repeat it.

A worker inserts rows into ``spans``, from which views fill two more tables, and then records the position (ADR 0007).
If it is killed in between, Kafka delivers the records again, and the next worker does the rest. The broker of the
embedded stack keeps records in memory and is killed with it. So the rows would stay without their copies, and the feed
would never reach them.
"""

from __future__ import annotations

from typing import Final

from common.clickhouse.engines import SQL
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_of, positions_table
from common.telemetry import get_logger

_log = get_logger(__name__)

DEADLINE_S: Final = 600.0
"""For one statement that reads narrow columns of all spans: half a second for ten million."""


async def complete_interrupted_inserts(store: ColumnStore, *, clusters: str) -> None:
    """Make every row of ``spans`` readable in every way, and log where that was needed.

    Only rows of partitions whose ids begin with ``clusters``: of brokers that are gone. Records of any other would be
    delivered again, and their rows be stored below the position that is recorded here.

    Right only while nothing is inserted. Raises the errors of ``ColumnStore``. If it is interrupted, it can be called
    again.
    """
    find = Statement(SQL["positions_without_record"], {"clusters": clusters})
    found = await store.select(find, deadline_s=DEADLINE_S)
    if not found.num_rows:
        return
    positions = positions_of(found)
    for position, following in zip(positions, found.column("following").to_pylist(), strict=True):
        place = {
            "project_id": str(position.project_id),
            "partition_id": position.partition_id,
            "following": following,
        }
        await store.execute(Statement(SQL["insert_rows_without_record"], place), deadline_s=DEADLINE_S)
    await store.insert(STORED_THROUGH_TABLE, positions_table(positions), dedup_token="", deadline_s=DEADLINE_S)
    _log.warning("An insert was interrupted when the stack was killed. It is complete now.", partitions=len(positions))
