"""The number of a version of a span in its partition (ADR 0003, ADR 0046, ADR 0048).

A version is what one record says about a span, together with its *additions* by then: the events of log records and the
verdicts of annotations that came later. Its number is the record's offset times ``OFFSET_STEP`` plus twice the number
of its additions, and ``ENDED`` unless the span is running: so the end of a span wins over each of its starts. The
deletion of a version has the last number of its offset, which is odd: it wins over everything that was stored of the
record, or is stored later, and loses to the next record, unless it deletes an end and the next record is a start.

Between partitions the *standing* of their latest versions decides first: a version that ended, the deletion of one, a
running version, the deletion of one. Among equals it is the time of the record, then the number, then the partition.
The span is visible if that is no deletion. ``rank`` in ``query_api/spans/versions.py`` is this rule in Python,
``RANK_SQL`` in SQL; a test compares the two.
"""

from __future__ import annotations

from typing import Final

OFFSET_STEP: Final = 2**17
"""Numbers for one offset."""

ENDED: Final = 2**62
"""The bit of the versions of spans that ended, and of their deletions."""

OFFSETS_END: Final = ENDED // OFFSET_STEP
"""Offsets of records are below this."""

ADDITIONS_MAX: Final = OFFSET_STEP // 2 - 1
"""How many additions a version may have, so that its number stays below that of its deletion."""


def version_of(record_offset: int, additions_count: int = 0, *, is_running: bool = False) -> int:
    """Return the number of the version of a record that has this many additions."""
    return record_offset * OFFSET_STEP + 2 * additions_count + (0 if is_running else ENDED)


def offset_of(version: int) -> int:
    """Return the offset of the record of a version or of a deletion."""
    return version % ENDED // OFFSET_STEP


def additions_count_of(version: int) -> int:
    """Return how many additions a version has."""
    return version % OFFSET_STEP // 2


def is_running(version: int) -> bool:
    """Return whether a version, or the one that a deletion deletes, is of a running span."""
    return version < ENDED


def is_deletion(version: int) -> bool:
    """Return whether the number is that of a deletion."""
    return version % 2 == 1


def deletion_of(version: int) -> int:
    """Return the number of the deletion of a version: the last of its offset."""
    return version | (OFFSET_STEP - 1)


def standing_of(version: int) -> int:
    """Return what decides between the latest versions of two partitions first; the higher one wins."""
    return 2 * (version >= ENDED) + (version % 2 == 0)


OFFSET_SQL: Final = f"intDiv(version % {ENDED}, {OFFSET_STEP})"
"""``offset_of`` as an expression over the column ``version``."""

IS_RUNNING_SQL: Final = f"version < {ENDED}"
"""``is_running`` as a condition on the column ``version``."""

HAS_ENDED_SQL: Final = f"version >= {ENDED}"
"""The opposite."""

IS_SENT_SQL: Final = "version % 2 = 0"
"""Whether a row is a version that was sent, and no deletion."""

DELETION_SQL: Final = f"bitOr(max(version), {OFFSET_STEP - 1})"
"""The deletion of the latest version of a partition."""

STANDING_SQL: Final = f"2 * (version >= {ENDED}) + (version % 2 = 0)"
"""``standing_of`` as an expression over the column ``version``."""

RANK_SQL: Final = (STANDING_SQL, "record_ms", "version", "partition_id")
"""What decides between the latest versions of the partitions of a span: the highest is visible, if no deletion."""

LATEST_FIRST_SQL: Final = tuple(f"{expression} DESC" for expression in RANK_SQL)
"""The same as an order."""

ARRIVAL_SQL: Final = (
    "if(arrival_partition_id = '', partition_id, arrival_partition_id)",
    f"if(arrival_partition_id = '', {OFFSET_SQL}, arrival_offset)",
    "span_index",
)
"""The place in Kafka at which a row of ``spans`` arrived: the key of ``span_arrivals``."""
