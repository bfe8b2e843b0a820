"""How far the spans of a project are stored, looked up in the table: announcements may be late or lost (ADR 0007)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from common.clickhouse.stored_through import read_positions_of
from query_api.pages.snapshot import Snapshot
from query_api.request.context import ApiContext

PARTITIONS_MAX: Final = 4_000
"""Remembered by a walk, in up to 85 KB of a cursor: those stored last. The embedded broker adds some at each start, and nothing is added
to older ones any more."""


async def look_up_stored(context: ApiContext, project_id: UUID) -> None:
    """Let ``context.stored`` know what the table says; a statement of 2 ms. ``ALL_PROJECTS`` stands for every record of a log."""
    deadline_s = context.settings.query.budget_s
    context.stored.learn(await read_positions_of(context.store, project_id, deadline_s=deadline_s))


async def snapshot_of_walk(context: ApiContext, project_id: UUID, *, is_continued: bool) -> Snapshot:
    """What is stored now, for a walk that begins: to be taken before its first page is read.

    What is not known then would move its trace or session when more of it comes, over the position of the walk, so the
    table is asked. A walk that ``is_continued`` has a cursor that remembers; only one of the reference's making does not.
    """
    if not is_continued:
        await look_up_stored(context, project_id)
    return Snapshot.of_partitions(context.stored.offsets(project_id, most=PARTITIONS_MAX))
