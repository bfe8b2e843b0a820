"""The number of a version of a span in its partition (ADR 0003, ADR 0046).

A version is what one record says about a span, together with the events and the verdicts of annotations that were added
by then. Its number is the record's offset times ``OFFSET_STEP`` plus twice the number of these. The deletion of a
version has the last number of its offset, which is odd: it wins over everything that was stored of the record, or is
stored later, and loses to the next record.
"""

from __future__ import annotations

from typing import Final

OFFSET_STEP: Final = 2**17
"""Numbers for one offset. Offsets up to 2^46 fit into 63 bits."""

JOINED_EVENTS_MAX: Final = OFFSET_STEP // 2 - 1
"""How many events a version may have, so that its number stays below that of its deletion."""


def version_of(record_offset: int, events_count: int = 0) -> int:
    """Return the number of the version of a record that has this many events of log records."""
    return record_offset * OFFSET_STEP + 2 * events_count


def offset_of(version: int) -> int:
    """Return the offset of the record of a version or of a deletion."""
    return version // OFFSET_STEP


def last_of(record_offset: int) -> int:
    """Return the last number of an offset, which is that of its deletion."""
    return (record_offset + 1) * OFFSET_STEP - 1


OFFSET_SQL: Final = f"intDiv(version, {OFFSET_STEP})"
"""``offset_of`` as an expression over the column ``version``."""

ARRIVAL_SQL: Final = (
    "if(arrival_partition_id = '', partition_id, arrival_partition_id)",
    f"if(arrival_partition_id = '', {OFFSET_SQL}, arrival_offset)",
    "span_index",
)
"""The place in Kafka at which a row of ``spans`` arrived: the key of ``span_arrivals``."""
