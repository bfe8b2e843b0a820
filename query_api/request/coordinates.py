"""Coordinates of published records, encrypted for their project: intake returns them, and a query waits for them (ADR
0011).

The text is opaque to clients. It is a cursor over ``topic/partition/offset`` of the last record in each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from common.kafka.record import Coordinates
from query_api.request.cursor import fingerprint, read_cursor, write_cursor
from query_api.request.route import Request

COORDINATES_HEADER: Final = "X-Clearspan-Coordinates"
COORDINATES_MAX: Final = 200
"""Partitions in one header, and coordinates in one request: clients and proxies limit a header to 8 KiB."""

_DIGITS_WRITTEN: Final = 12
"""The least digits of an offset: the length of the text must not reveal how many records of all projects a partition
holds."""

_DIGITS_MAX: Final = 18
"""The most digits of a number: more than any offset has, and fewer than 64 bits."""


def coordinates_header(request: Request, where: Sequence[Coordinates]) -> dict[str, str]:
    """Return the header with the coordinates of the published records; nothing without records."""
    if not where:
        return {}
    return {
        COORDINATES_HEADER: sign_coordinates(where, project_id=request.project_id, secret=request.context.cursor_secret)
    }


def sign_coordinates(where: Sequence[Coordinates], *, project_id: UUID, secret: bytes) -> str:
    """Encrypt the last coordinates in each partition, as a text that only its project can use."""
    last = {(place.topic, place.partition): place for place in sorted(where)}
    texts = [f"{place.topic}/{place.partition}/{place.offset:0{_DIGITS_WRITTEN}}" for place in last.values()]
    position = ",".join(texts[:COORDINATES_MAX]).encode()
    return write_cursor(position, scope=_scope(project_id), secret=secret)


def read_signed_coordinates(text: str, *, project_id: UUID, secret: bytes) -> list[Coordinates]:
    """Return what ``sign_coordinates`` encrypted for the project. Raises ``InvalidCursor``."""
    position = read_cursor(text, scope=_scope(project_id), secret=secret).decode()
    return [parse_coordinates(part) for part in position.split(",")]


def parse_coordinates(text: str) -> Coordinates:
    """Read ``topic/partition/offset``. Raises ``ValueError``."""
    topic, *numbers = text.rsplit("/", 2)
    if len(numbers) != 2 or not topic or not all(_is_number(number) for number in numbers):
        raise ValueError(text)
    return Coordinates(topic, int(numbers[0]), int(numbers[1]))


def _scope(project_id: UUID) -> bytes:
    return fingerprint([b"coordinates", project_id.bytes])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
