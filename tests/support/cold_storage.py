"""An engine whose cold volume is an S3 stand-in, and where its spans are."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.clickhouse.store import ColumnStore, Statement
from common.errors import InvalidStatement
from tests.support.clickhouse import ClickHouseServer
from tests.support.s3_stand_in import S3StandIn

HOT: Final = "default"
COLD: Final = "cold"
"""Names of disks and of volumes."""

MOVED_S_MAX: Final = 120.0

STORAGE: Final = """<storage_configuration>
<disks>
<cold>
<type>s3</type><endpoint>{bucket}/spans/</endpoint><region>us-east-1</region>
<access_key_id>test</access_key_id><secret_access_key>test</secret_access_key><retry_attempts>1</retry_attempts>
</cold>
<other><type>local</type><path>{directory}/other/</path></other>
</disks>
<policies>
<tiered><volumes>
<default><disk>default</disk></default>
<cold><disk>cold</disk><perform_ttl_move_on_insert>false</perform_ttl_move_on_insert></cold>
</volumes></tiered>
<elsewhere><volumes><fast><disk>other</disk></fast><cold><disk>cold</disk></cold></volumes></elsewhere>
</policies>
</storage_configuration>"""

IN_THE_WAY: Final = re.compile("PART_IS_TEMPORARILY_LOCKED|NO_SUCH_DATA_PART|already on")

PARTS: Final = """
SELECT partition, disk_name AS disk, sum(rows) AS rows_count
FROM system.parts
WHERE active AND database = currentDatabase() AND table IN ('spans', 'spans_local')
GROUP BY partition, disk
"""


def storage_of(s3: S3StandIn, directory: Path) -> str:
    """The configuration of an engine with the policies of ``tiered_server``."""
    return STORAGE.format(bucket=s3.bucket, directory=directory)


@contextmanager
def tiered_server(directory: Path, s3: S3StandIn) -> Iterator[ClickHouseServer]:
    """An engine with the policies ``tiered``, which can replace ``default``, and ``elsewhere``, which cannot."""
    server = ClickHouseServer(directory, more=storage_of(s3, directory))
    server.start()
    try:
        yield server
    finally:
        server.stop()


async def rows_by_disk(store: ColumnStore) -> dict[tuple[str, str], int]:
    """How many rows of spans each month has on each disk."""
    rows = (await store.select(Statement(PARTS), deadline_s=60.0)).to_pylist()
    return {(row["partition"].decode(), row["disk"].decode()): row["rows_count"] for row in rows}


async def wait_for_disks(store: ColumnStore, is_reached: Callable[[dict[tuple[str, str], int]], bool]) -> None:
    """Wait until the engine has moved what it should."""
    deadline_s = time.monotonic() + MOVED_S_MAX
    while not is_reached(found := await rows_by_disk(store)):
        assert time.monotonic() < deadline_s, found
        await asyncio.sleep(0.1)


async def move_spans(store: ColumnStore, disk: str, months: Collection[str] | None = None) -> None:
    """Move every part, or those of some months, to a disk now, whatever its age."""
    deadline_s = time.monotonic() + MOVED_S_MAX
    while remaining := [
        month for month, where in await rows_by_disk(store) if where != disk and (months is None or month in months)
    ]:
        sql = f"ALTER TABLE spans MOVE PARTITION {remaining[0]} TO DISK '{disk}'"
        try:
            await store.execute(Statement(sql), deadline_s=60.0)
        except InvalidStatement as exc:  # a merge has it, or has just ended
            if IN_THE_WAY.search(exc.detail) is None or time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(0.05)
