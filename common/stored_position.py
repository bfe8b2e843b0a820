"""How far a log is stored: the value that the worker writes after each insert, and as it is announced (ADR 0007).

``StoredPosition(P, L, n)`` says: every span of project P that came by log L up to offset n, included, is queryable or refused.
Of one project and log only the highest offset means anything, so these may come late, twice and in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import orjson

from common.errors import InvalidInput

ALL_PROJECTS: Final = UUID(int=0)
"""Stands for every record of a log, whosever its spans, and also where it held none or only refused ones."""

ANNOUNCED_TOGETHER_MAX: Final = 1_000
"""In one message: at most 200 KB."""


class StoredPosition(NamedTuple):
    """One project in one log, settled up to ``through_offset``, included."""

    project_id: UUID
    partition_id: str
    through_offset: int
    record_ms: int
    """The timestamp of the record at that offset."""

    stored_us: int
    """When it was known to be stored, microseconds since 1970."""


def encode_positions(positions: Sequence[StoredPosition]) -> Iterator[bytes]:
    """The messages that announce these: JSON arrays of ``[project, log, offset, record_ms, stored_us]``."""
    for first in range(0, len(positions), ANNOUNCED_TOGETHER_MAX):
        together = positions[first : first + ANNOUNCED_TOGETHER_MAX]
        yield orjson.dumps([[str(each.project_id), *each[1:]] for each in together])


def decode_positions(message: bytes) -> list[StoredPosition]:
    """What ``encode_positions`` announced. Raises ``InvalidInput`` for anything else."""
    try:
        return [
            StoredPosition(UUID(project_id), str(partition_id), int(offset), int(record_ms), int(stored_us))
            for project_id, partition_id, offset, record_ms, stored_us in orjson.loads(message)
        ]
    except (ValueError, TypeError, AttributeError) as exc:
        raise InvalidInput(f"This is no announcement of what is stored: {exc}") from exc
