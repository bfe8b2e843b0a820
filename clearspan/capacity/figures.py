"""The measured figures that a plan is computed from, each with where ``docs/performance.md`` has it.

All of them were measured on one machine (``MACHINE``) on one day (``DATE``), with spans of 460 and of 2,000 bytes. A
span of another size is between these two or beyond them on the same line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DATE: Final = "2026-11-27"
MACHINE: Final = "two cores of an AMD EPYC and 24 GB, without other work"
PLAIN_BYTES: Final = 460
LLM_BYTES: Final = 2_000
"""The sizes on the wire of the two sets of spans that were measured."""

SPREAD: Final = 1.5
"""The machine "is shared and varies by half": a figure may be this many times larger or smaller."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one span takes, measured for plain and for LLM spans."""

    meaning: str
    unit: str
    plain: float
    llm: float
    source: str
    """A text of ``docs/performance.md`` that has both, or from which they follow."""

    def of(self, bytes_count: float) -> float:
        """Return the figure of a span of this size on the wire; a small span costs at least half of a plain one."""
        slope = (self.llm - self.plain) / (LLM_BYTES - PLAIN_BYTES)
        return max(self.plain / 2, self.plain + slope * (bytes_count - PLAIN_BYTES))


DECODING: Final = Figure("decoding", "µs", 7.2, 116.9, "| two decoders | 7.2 µs | 116.9 µs |")
WORKER: Final = Figure(
    "the rest of the worker", "µs", 9.1, 34.6, "| Python and the rest of the worker | 9.1 µs | 34.6 µs |"
)
INSERTING: Final = Figure("inserting, in the engine", "µs", 18.4, 67.8, "| insert | 18.4 µs | 67.8 µs |")
MERGING: Final = Figure("merging at a million spans, in the engine", "µs", 13.4, 27.6, "| merges | 13.4 µs | 27.6 µs |")
INSERTED_IN_TURN: Final = Figure(
    "the time that one worker waits for its insert",
    "µs",
    1e6 / 46_532,
    1e6 / 16_562,
    "makes 46,532 plain and 16,562 LLM spans a second",
)
ON_DISK: Final = Figure("on disk, merged", "B", 197, 804, "| all tables | 197 B | 804 B |")
NARROW: Final = Figure("on disk, of it `span_versions`", "B", 17, 43, "| `span_versions` | 17 B | 43 B |")

FIGURES: Final = (DECODING, WORKER, INSERTING, MERGING, INSERTED_IN_TURN, ON_DISK, NARROW)

REWRITES_AT_MILLION: Final = 1.4
REWRITES_AT_TWENTY_MILLION: Final = 3.2
REWRITES_SOURCE: Final = "1.4 rows of `spans` for each that is inserted at a million spans and 3.2 at twenty million"
"""Rows that merges write for each that is inserted: it grows by the same for each tenfold of the spans."""

QUERIES_PER_CORE: Final = 29.9 / 2
QUERIES_SOURCE: Final = "299 times 200, 29.9 a second"
"""Mixed queries a second and core, next to 5,000 spans/s."""

WORKER_MEMORY_GIB: Final = 1.0
WORKER_MEMORY_SOURCE: Final = "keeps the worker below 1 GB"
GROUPED_US: Final = 0.55
GROUPED_SOURCE: Final = "2,723 ms for five million spans"
"""Processor time of grouping one span by service and minute."""

INSERT_MS: Final = 73
INSERT_SOURCE: Final = "73 ms of an insert are for its parts"
"""Processor time of one insert besides its rows, on each server: parts of three tables, about 130 files."""

BATCH_GROWTH: Final = 3
"""Bytes of the columns of a batch for each byte on the wire: 10,000 LLM spans of 2 KB reach the limit of 64 MiB."""

MERGED_PART_BYTES_MAX: Final = 150 * 2**30
"""The engine merges no parts beyond this size together (`max_bytes_to_merge_at_max_space_in_pool`)."""

BATCH_ROWS: Final = 20_000
BATCH_BYTES: Final = 20_000 * 2_000 // 2
"""A batch ends at 20,000 spans, or at the size at which LLM spans end it: 10,000."""

SOURCES: Final = (
    *(figure.source for figure in FIGURES),
    REWRITES_SOURCE,
    QUERIES_SOURCE,
    WORKER_MEMORY_SOURCE,
    GROUPED_SOURCE,
    INSERT_SOURCE,
)
"""Texts that ``docs/performance.md`` has; a test looks for them."""
