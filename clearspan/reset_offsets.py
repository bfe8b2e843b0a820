"""``clearspan reset-offsets``: after a restore of ClickHouse, let the worker read again what the tables lack.

Reading a record again changes nothing that is stored, so reading too much is harmless, and too little loses spans
(docs/backup.md).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clearspan.audited import audited_if_possible
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.console import fail, report_failures
from clearspan.embedded.layout import Layout, is_held
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import require_tables
from common.clickhouse.stored_through import read_positions_of
from common.errors import ServiceError
from common.kafka.offsets import MovedBack, move_back
from common.postgres.pool import open_database
from common.settings import Settings
from common.stored_position import ALL_PROJECTS
from jobs.settling.records import rewind

READ_S: Final = 60.0
"""Deadline of the statement that reads the stored positions."""

_COLUMNS: Final = (
    TableColumn("topic", is_whole=True),
    TableColumn("partition", "right", is_whole=True),
    TableColumn("committed", "right", is_whole=True),
    TableColumn("reads from", "right", is_whole=True),
    TableColumn("records", "right", is_whole=True),
)


def run(settings: Settings, *, dry_run: bool, as_json: bool) -> int:
    """Run the command; return its exit code, 1 also if Kafka no longer has records that the tables lack."""
    if _is_meant_for_the_embedded_stack(settings):
        return fail(
            f"reset-offsets is for ClickHouse servers only, and an embedded stack runs on {settings.data_dir}. For a"
            " server, set CLEARSPAN_CLICKHOUSE__HOST."
        )
    moved: list[MovedBack] = []
    code = report_failures(_move_back(settings, moved, dry_run=dry_run), settings, "kafka")
    if code != 0:
        return code
    if as_json:
        print_objects(map(_members, moved))
    else:
        _print(moved, dry_run=dry_run)
    gone = [each for each in moved if each.gone_count]
    return fail(_describe_gone(gone)) if gone else 0


def _is_meant_for_the_embedded_stack(settings: Settings) -> bool:
    """Return whether a stack runs on the data directory while no setting names a ClickHouse server."""
    names_store = {"host", "interface"} & settings.clickhouse.model_fields_set
    return not names_store and is_held(Layout(settings.data_dir.resolve()))


async def _move_back(settings: Settings, moved: list[MovedBack], *, dry_run: bool) -> None:
    store = open_store(settings.clickhouse, data_dir=settings.data_dir.resolve())
    try:
        await require_tables(store)
        positions = await read_positions_of(store, ALL_PROJECTS, deadline_s=READ_S)
        through = {position.partition_id: position.through_offset for position in positions}
        if dry_run:
            moved += await move_back(settings.kafka, through, dry_run=True)
            return
        async with audited_if_possible(settings, "reset-offsets") as changed:
            moved += await move_back(settings.kafka, through)
            changed.ids += [f"{each.partition.topic}/{each.partition.partition}" for each in moved]
            await _rewind_settling(settings, through)
    finally:
        await store.close()


async def _rewind_settling(settings: Settings, through: Mapping[str, int]) -> None:
    """Let traces settle from what the tables hold; if Postgres is away, say on standard error what is missing."""
    try:
        async with open_database(settings.postgres) as database:
            await rewind(database, through)
    except ServiceError as error:
        print(f"Traces that settled after the backup may be missing: {error.detail}", file=sys.stderr)


def _print(moved: Sequence[MovedBack], *, dry_run: bool) -> None:
    if not moved:
        print("The tables hold every record that the group has committed. Nothing was changed.")
        return
    print_table(_COLUMNS, map(_row, moved))
    count = sum(each.committed_offset - each.next_offset for each in moved)
    would_be = "would be" if dry_run else "are"
    print(f"\n{count:,} records {would_be} read again.{' Nothing was changed.' if dry_run else ''}")


def _row(moved: MovedBack) -> Sequence[object]:
    records = moved.committed_offset - moved.next_offset
    return (*moved.partition, moved.committed_offset, moved.next_offset, records)


def _members(moved: MovedBack) -> dict[str, Any]:
    return {
        **moved.partition._asdict(),
        "committed_offset": moved.committed_offset,
        "next_offset": moved.next_offset,
        "gone_count": moved.gone_count,
    }


def _describe_gone(gone: Sequence[MovedBack]) -> str:
    counts = ", ".join(f"{each.gone_count} of {each.partition.topic}/{each.partition.partition}" for each in gone)
    return f"Kafka has deleted records that the tables lack: {counts}. Spans in them are lost."
