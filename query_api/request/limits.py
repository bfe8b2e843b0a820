"""The limits of the API that nobody has to set; ``common/settings.py`` has those that an operator may set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from common.limits import MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """A value of ``ApiContext``: a test passes smaller ones."""

    outline_spans: int = 250_000
    """How many spans the outline of a trace may have."""

    sample_spans: int = 10_000
    """How many spans facets and coverage examine at most: the newest that match."""

    sample_bytes: int = 32 * MIB
    """And how many bytes of responses these may have together."""

    sample_count_s: float = 1.0
    """Time to count what matches. Without a filter the primary key answers; with one, every row is tested."""

    round_spans: int = 20_000
    """How many candidates an export finds with one statement."""

    chunk_bytes: int = 4 * MIB
    """How many bytes of responses an export reads with one statement; at least one span."""

    insert_pauses_s: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    """How long a page of sessions or users waits between its reads for the end of an insert that it saw half of."""

    replayed_together: int = 200
    """How many dead letters are read and published together."""

    replayed_bytes: int = 16 * MIB
    """And how many bytes these may have, unless one alone has more."""

    end_offsets_s: float = 1.0
    """How long a request waits for news about the ends of partitions, once they are known."""

    status_part_s: float = 3.0
    """How long ``/admin/status`` waits for each of its parts."""

    check_s: float = 2.0
    """How long ``/readyz`` waits for each system."""


DEFAULT_LIMITS: Final = Limits()
