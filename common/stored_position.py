"""How far a partition is stored: the value that the worker records after each batch, and its announcement (ADR 0007).

``StoredPosition(P, Q, n)`` says: every span of project P from partition Q up to offset n, inclusive, is queryable or
rejected. Only the highest offset of a project and partition matters, so positions may come late, twice and in any
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import orjson

from common.errors import InvalidInput

ALL_PROJECTS: Final = UUID(int=0)
"""Means every record of a partition, whatever its projects, even one without spans or with only rejected ones."""

ANNOUNCED_TOGETHER_MAX: Final = 1_000
"""Positions in one message: at most 200 KB."""


class StoredPosition(NamedTuple):
    """One project in one partition, stored up to ``through_offset``, inclusive."""

    project_id: UUID
    partition_id: str
    through_offset: int
    record_ms: int
    """The timestamp of the record at that offset."""

    stored_us: int
    """When it was known to be stored, microseconds since 1970."""


def encode_positions(positions: Sequence[StoredPosition]) -> Iterator[bytes]:
    """Yield the messages that announce positions: JSON arrays of
    ``[project, partition, offset, record_ms, stored_us]``.
    """
    for first in range(0, len(positions), ANNOUNCED_TOGETHER_MAX):
        together = positions[first : first + ANNOUNCED_TOGETHER_MAX]
        yield orjson.dumps([[str(position.project_id), *position[1:]] for position in together])


def decode_positions(message: bytes) -> list[StoredPosition]:
    """Return what ``encode_positions`` encoded. Raises ``InvalidInput`` for anything else."""
    try:
        return [
            StoredPosition(UUID(project_id), str(partition_id), int(offset), int(record_ms), int(stored_us))
            for project_id, partition_id, offset, record_ms, stored_us in orjson.loads(message)
        ]
    except (ValueError, TypeError, AttributeError) as exc:
        raise InvalidInput(f"This is not an announcement of stored positions: {exc}") from exc
