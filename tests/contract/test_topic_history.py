"""Which topic of a name came first stays known, whatever the clocks of the workers say (ADR 0027)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore
from common.clickhouse.topic_history import StoredTopicHistory
from common.kafka.partition_ids import PartitionIds
from common.kafka.record import Partition
from common.kafka.topics import ClusterTopics
from common.settings import ClickHouseSettings
from tests.fakes.clock import ManualClock

AT = Partition("spans", 0)
DAY_S = 86_400


@pytest.fixture
async def store(chdb_settings: Callable[[], ClickHouseSettings], chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    opened = open_store(chdb_settings(), data_dir=chdb_dir)
    yield opened
    await opened.close()


async def test_topic_that_is_created_again_comes_later_although_the_first_worker_was_a_day_fast(
    store: ColumnStore,
) -> None:
    clock = ManualClock()
    clock.advance(DAY_S)
    history = StoredTopicHistory(store, clock)
    await PartitionIds(history, adds=True).learn(ClusterTopics("c", {"spans": "A", "other": "X"}))
    clock.advance(3_600 - DAY_S)
    worker, api = PartitionIds(history, adds=True), PartitionIds(history, adds=False)

    for topic_id in ("C", "B"):
        topics = ClusterTopics("c", {"spans": topic_id, "other": "X"})
        assert await worker.learn(topics) == {"spans"}
        await api.learn(topics)
        assert worker.id_of(AT) == api.id_of(AT) == f"c+{topic_id}/spans/0"

    assert worker.id_of(Partition("other", 0)) == "c/other/0"
    assert await history.read("c") == {"spans": ["A", "C", "B"], "other": ["X"]}
