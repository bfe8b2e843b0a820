"""The row that a version maps to."""

from __future__ import annotations

from query_api.spans.versions import Version, standing_in


def version(offset: int, *, start_us: int = 1, partition_id: bytes = b"a") -> Version:
    return Version(start_us, b"s" * 16, b"t" * 16, partition_id, offset)


def test_version_with_a_row_is_found() -> None:
    assert standing_in([version(2)], {version(1), version(2), version(3)}) == {version(2): version(2)}


def test_version_without_a_row_maps_to_its_latest_replacement() -> None:
    assert standing_in([version(2)], {version(1), version(3), version(4)}) == {version(2): version(4)}


def test_only_later_version_of_same_partition_and_place_replaces_a_version() -> None:
    others = {version(1), version(3, partition_id=b"b"), version(3, start_us=2)}

    assert standing_in([version(2)], others) == {}
