"""The partitions of ``GET /status/freshness``."""

from __future__ import annotations

from query_api.freshness.status import partitions_of
from query_api.request.progress import EndOffsetsRead, Through


def test_partitions_are_ordered_and_have_a_backlog() -> None:
    ends = EndOffsetsRead(1, {"c/b/10": 2, "c/b/9": 7, "c/a/0": 0})

    partitions = partitions_of(ends, {"c/b/9": Through(4, 1, 1)}, {}, sees_all=True)

    found = [(partition.topic, partition.partition, partition.behind_records) for partition in partitions]
    assert found == [("a", 0, 0), ("b", 9, 2), ("b", 10, 2)]


def test_partition_stored_beyond_the_read_end_has_no_backlog() -> None:
    [partition] = partitions_of(EndOffsetsRead(1, {"c/a/0": 3}), {"c/a/0": Through(9, 1, 1)}, {}, sees_all=True)

    assert (partition.behind_records, partition.is_behind) == (0, False)


def test_project_does_not_see_what_others_store() -> None:
    [partition] = partitions_of(EndOffsetsRead(1, {"c/a/0": 3}), {"c/a/0": Through(1, 1, 1)}, {}, sees_all=False)

    assert partition.model_dump(exclude_none=True) == {"topic": "a", "partition": 0}
