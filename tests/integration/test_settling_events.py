"""An event of a log record that comes later is a change of its trace: it settles again (contract §3.6, ADR 0046)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from tests.integration.test_settled_feed import SettledReader
from tests.support.joining import ANSWERED, ASKED, LOGS, OTHER_LOGS, SPAN, SPANS_LOG, Sent, open_world
from tests.support.settling import SettlingWorld


async def test_trace_settles_again_with_the_events_of_log_records(
    database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    root = SPAN._replace(parent_id=None)
    async with open_world(chdb_dir, chdb_settings()) as joining:
        world = SettlingWorld(joining.store, database)
        reader = SettledReader(world)
        seen: list[tuple[int, int]] = []
        for sent in (
            Sent(LOGS, 0, events=[ASKED]),
            Sent(SPANS_LOG, 0, span=root),
            Sent(OTHER_LOGS, 0, events=[ANSWERED]),
            Sent(OTHER_LOGS, 1, events=[ANSWERED]),
        ):
            await joining.handle(sent)
            await world.run(31.0)
            for trace in (await reader.page())["traces"]:
                [span] = trace["spans"].values()
                seen.append((trace["settled"]["generation"], len(span["events"])))

    assert seen == [(1, 1), (2, 2)], "the same event again changes nothing"
