"""Where a partition is read from, and what is named as missing."""

from __future__ import annotations

import pytest

from common.kafka.record import Gap, GapCause, Partition
from common.kafka.starts import CommittedOffset, Start, start_of

AT = Partition("spans", 0)
OLD, NEW = "old-topic-id", "new-topic-id"


@pytest.mark.parametrize(
    ("committed", "held", "is_new", "offset", "gap"),
    [
        pytest.param(None, range(9), False, 0, None, id="a new group"),
        pytest.param(None, range(5, 9), False, 5, None, id="a new group and a log that begins late"),
        pytest.param(CommittedOffset(7, NEW), range(9), False, 7, None, id="in range"),
        pytest.param(CommittedOffset(7), range(9), False, 7, None, id="committed by another program"),
        pytest.param(CommittedOffset(5, NEW), range(5, 9), False, 5, None, id="the first record"),
        pytest.param(CommittedOffset(9, NEW), range(5, 9), False, 9, None, id="the end"),
        pytest.param(CommittedOffset(9, NEW), range(9, 9), False, 9, None, id="everything read, and deleted"),
        pytest.param(CommittedOffset(3, NEW), range(5, 9), False, 5, (3, 5, GapCause.DELETED), id="deleted"),
        pytest.param(CommittedOffset(3, NEW), range(9, 9), False, 9, (3, 9, GapCause.DELETED), id="all deleted"),
        pytest.param(CommittedOffset(12, NEW), range(5, 9), False, 5, (9, 12, GapCause.TRUNCATED), id="truncated"),
        pytest.param(
            CommittedOffset(7, OLD), range(9), False, 0, (7, None, GapCause.CREATED_AGAIN), id="another topic"
        ),
        pytest.param(CommittedOffset(7), range(9), True, 0, (7, None, GapCause.CREATED_AGAIN), id="found replaced"),
        pytest.param(None, range(9), True, 0, (0, None, GapCause.CREATED_AGAIN), id="found replaced, commit deleted"),
        pytest.param(CommittedOffset(7, NEW), range(9), True, 7, None, id="another worker has read the new topic"),
    ],
)
def test_start_and_gap(
    committed: CommittedOffset | None,
    held: range,
    is_new: bool,
    offset: int,
    gap: tuple[int, int | None, GapCause] | None,
) -> None:
    expected = Start(offset, None if gap is None else Gap(AT, *gap, NEW))

    assert start_of(AT, committed, held, topic_id=NEW, is_new=is_new) == expected


def test_broker_without_topic_ids_ignores_those_that_were_committed() -> None:
    assert start_of(AT, CommittedOffset(7, OLD), range(9), topic_id="") == Start(7)


@pytest.mark.parametrize(
    ("gap", "words", "count"),
    [
        (Gap(AT, 3, 5, GapCause.DELETED), "deleted the offsets 3 to 4 before they were read; reading goes on at 5", 2),
        (Gap(AT, 9, 12, GapCause.TRUNCATED), "lost the offsets 9 to 11, which were read before", 0),
        (
            Gap(AT, 7, None, GapCause.CREATED_AGAIN),
            "Records of the deleted topic, from offset 7 on, are lost unless",
            0,
        ),
        (Gap(AT, 0, None, GapCause.CREATED_AGAIN), "Records of the deleted topic are lost unless a worker had", 0),
    ],
)
def test_gap_is_said_in_words_and_counted(gap: Gap, words: str, count: int) -> None:
    assert words in gap.in_words()
    assert gap.records_count == count
