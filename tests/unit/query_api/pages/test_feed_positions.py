from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidCursor, Unavailable
from query_api.pages.arrivals import CURSOR_PARTITIONS_MAX, WHOLE_RECORD, ArrivalPlace, Positions
from query_api.request.cursor import write_cursor
from query_api.spans.windowing import Windowing

places = st.builds(ArrivalPlace, st.integers(0, 2**64 - 1), st.integers(0, WHOLE_RECORD))


@given(st.dictionaries(st.text(), places))
def test_positions_round_trip(stood: dict[str, ArrivalPlace]) -> None:
    read = Positions.unpack(Positions().moved(stood).pack())

    assert {partition_id: read.after(partition_id) for partition_id in stood} == stood
    assert read.after("another log") is None or "another log" in stood


def test_moving_in_one_partition_keeps_the_others() -> None:
    before = Positions().moved({"a": ArrivalPlace(1, 2), "b": ArrivalPlace(3, 4)})
    after = before.moved({"b": ArrivalPlace(5, 6)})

    assert (after.after("a"), after.after("b")) == (ArrivalPlace(1, 2), ArrivalPlace(5, 6))
    assert before.after("b") == ArrivalPlace(3, 4)


def test_cursor_size_does_not_reveal_the_records_of_a_partition() -> None:
    near, far = (Positions().moved({"a": ArrivalPlace(offset, 0)}) for offset in (0, 10**9))

    assert len(near.pack()) == len(far.pack())


@pytest.mark.parametrize("packed", [b"\0", bytes(8), bytes(9), bytes(8) + b"\x80" * 11, bytes(8) + b"\1"])
def test_truncated_positions_are_rejected(packed: bytes) -> None:
    with pytest.raises(InvalidCursor):
        Positions.unpack(packed)


def _far_along(logs_count: int) -> Positions:
    return Positions().moved({str(number): ArrivalPlace(2**64 - 1, 2**32 - 1) for number in range(logs_count)})


def test_cursor_holds_at_most_4000_partitions() -> None:
    cursor = write_cursor(_far_along(CURSOR_PARTITIONS_MAX).pack(), scope=bytes(16), secret=b"s")

    assert Windowing(next=cursor).next == cursor
    with pytest.raises(Unavailable, match="4000 partitions"):
        _far_along(CURSOR_PARTITIONS_MAX + 1).pack()
