"""Signed coordinates: what is signed for a project is read for it, and for no other."""

from __future__ import annotations

from uuid import UUID

import pytest

from common.errors import InvalidCursor
from common.kafka.record import Coordinates
from query_api.request.cursor import COORDINATES_MAX, read_signed_coordinates, sign_coordinates
from tests.support.api import PROJECT_A

PROJECT_B = UUID("00000000-0000-7000-8000-00000000000b")
WHERE = [
    Coordinates("spans", 1, 7),
    Coordinates("spans", 0, 9),
    Coordinates("spans", 1, 10),
    Coordinates("s", 1, 8),
]


def _signed(where: list[Coordinates], *, project_id: UUID = PROJECT_A) -> str:
    return sign_coordinates(where, project_id=project_id, secret=b"secret")


def _read(text: str, *, project_id: UUID = PROJECT_A, secret: bytes = b"secret") -> list[Coordinates]:
    return read_signed_coordinates(text, project_id=project_id, secret=secret)


def test_the_last_record_of_each_partition_is_signed() -> None:
    assert _read(_signed(WHERE)) == [Coordinates("s", 1, 8), Coordinates("spans", 0, 9), Coordinates("spans", 1, 10)]


def test_coordinates_of_another_project_or_secret_are_rejected() -> None:
    for project_id, secret in ((PROJECT_B, b"secret"), (PROJECT_A, b"other")):
        with pytest.raises(InvalidCursor):
            _read(_signed(WHERE), project_id=project_id, secret=secret)


def test_length_of_coordinates_does_not_reveal_offsets() -> None:
    assert len(_signed([Coordinates("spans", 0, 9)])) == len(_signed([Coordinates("spans", 0, 10**11)]))


def test_number_of_signed_partitions_is_limited() -> None:
    where = [Coordinates("otlp_spans", partition, 10**12) for partition in range(COORDINATES_MAX + 1)]

    assert len(_read(_signed(where))) == COORDINATES_MAX
    assert len(_signed(where)) < 8 * 1024
