"""The position of a subscription as text: signed and encrypted like a cursor, and bound to its project.

A position of one subscription is valid for every other one of the project, because the feed is the same.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from common.errors import InvalidCursor
from query_api.pages.arrivals import Positions
from query_api.spans.window import fingerprint, read_cursor, write_cursor

POSITION_LENGTH_MAX: Final = 131_072


def _scope(project_id: UUID) -> bytes:
    return fingerprint([b"position of a subscription", project_id.bytes])


def write_position(packed: bytes, project_id: UUID, *, secret: bytes) -> str:
    """Return a position as responses show it. ``packed`` is what ``Positions.pack`` returned."""
    return write_cursor(packed, scope=_scope(project_id), secret=secret)


def read_position(text: str, project_id: UUID, *, secret: bytes, at: str) -> Positions:
    """Return the position of a text. Raises ``InvalidCursor`` if it is not one of this project; ``at`` is its path."""
    try:
        return Positions.unpack(read_cursor(text, scope=_scope(project_id), secret=secret).position)
    except InvalidCursor as exc:
        raise InvalidCursor(
            f"{at}: this is neither a time nor a position of a subscription of this project; allowed: now, beginning, a"
            " created_at such as 2026-05-01T12:00:00Z, or the position of a subscription."
        ) from exc
