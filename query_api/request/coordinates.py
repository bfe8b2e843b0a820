"""Coordinates of published records, signed for their project: intake hands them out, and a query waits for them (ADR 0011).

A client keeps the text as it is. Inside it is a cursor: ``topic/partition/offset`` of the last record in each partition.
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
"""Partitions in one header, and coordinates in one request: clients and proxies bound a header at 8 KiB."""

_DIGITS_WRITTEN: Final = 12
"""Of an offset at least: the length of the text must not show how many records of all projects a partition holds."""

_DIGITS_MAX: Final = 18
"""Of a number: more than any offset has, less than 64 bits."""


def coordinates_header(request: Request, where: Sequence[Coordinates]) -> dict[str, str]:
    """The header that says where the records of a request are; none where there are no records."""
    if not where:
        return {}
    return {
        COORDINATES_HEADER: sign_coordinates(where, project_id=request.project_id, secret=request.context.cursor_secret)
    }


def sign_coordinates(where: Sequence[Coordinates], *, project_id: UUID, secret: bytes) -> str:
    """The last record in each partition, as a text that only its project can use."""
    last = {(each.topic, each.partition): each for each in sorted(where)}
    named = [f"{each.topic}/{each.partition}/{each.offset:0{_DIGITS_WRITTEN}}" for each in last.values()]
    position = ",".join(named[:COORDINATES_MAX]).encode()
    return write_cursor(position, scope=_scope(project_id), secret=secret)


def read_signed_coordinates(text: str, *, project_id: UUID, secret: bytes) -> list[Coordinates]:
    """What ``sign_coordinates`` signed for the project. Raises ``InvalidCursor``."""
    position = read_cursor(text, scope=_scope(project_id), secret=secret).decode()
    return [parse_coordinates(each) for each in position.split(",")]


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
