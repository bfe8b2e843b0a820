"""Where partitions end; what real brokers answer is asked in the contract tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from aiokafka import TopicPartition

from common.errors import Unavailable
from common.kafka.watermarks import TRIES_MAX, end_offsets

ONE, OTHER = TopicPartition("spans", 0), TopicPartition("spans", 1)


class _Consumer:
    """Names batches instead of records, as the embedded broker does, and tells a high watermark after so many polls."""

    def __init__(self, *, polls: int) -> None:
        self._polls_left = polls

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert offset == 1

    def highwater(self, partition: TopicPartition) -> int | None:
        return 20 if partition == OTHER or self._polls_left == 0 else None

    async def getmany(self, *partitions: TopicPartition, timeout_ms: int, max_records: int) -> None:
        assert partitions == (ONE,)
        self._polls_left -= 1


@pytest.mark.parametrize("polls", [0, TRIES_MAX])
async def test_the_high_watermark_is_the_end(polls: int) -> None:
    assert await end_offsets(_Consumer(polls=polls), [ONE, OTHER]) == {ONE: 20, OTHER: 20}


async def test_an_end_that_is_not_told_in_time_is_no_end() -> None:
    with pytest.raises(Unavailable, match="spans/0"):
        await end_offsets(_Consumer(polls=TRIES_MAX + 1), [ONE, OTHER])
