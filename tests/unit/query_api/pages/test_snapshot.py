"""Positions of pages of traces: what a cursor holds, and what a window includes."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from common.errors import InvalidCursor
from query_api.pages.snapshot import Snapshot, TraceWindow, traces_window
from query_api.spans.versions import TracePosition
from query_api.spans.windowing import Order, Windowing

POSITION = TracePosition(-5, b"t" * 16)


def read(window: TraceWindow, **windowing: object) -> TraceWindow:
    asked = Windowing.model_validate({"next": "a cursor", **windowing})
    snapshot = Snapshot.of_partitions({"new": 99})
    return traces_window(asked, snapshot=snapshot, position=window.pack(POSITION), now_us=0)


@pytest.mark.parametrize("logs_count", [0, 1, 300])
def test_cursor_keeps_the_position_and_the_snapshot(logs_count: int) -> None:
    window = TraceWindow(snapshot=Snapshot.of_partitions({f"log {number}": number for number in range(logs_count)}))

    found = read(window)

    assert found == replace(window, after=POSITION)


def test_reference_cursor_includes_newest_on_all_pages_after_it() -> None:
    asked = {"newest": "2026-01-01", "order": "descending"}
    window = traces_window(
        Windowing.model_validate({**asked, "next": str(UUID(int=7))}),
        snapshot=Snapshot(),
        position=None,
        now_us=0,
    )

    assert window.after == TracePosition(window.newest_us or 0, UUID(int=7).bytes)
    for page in (window, read(window, **asked)):
        assert page.includes(window.newest_us or 0)
        assert not page.includes((window.newest_us or 0) + 1)


@pytest.mark.parametrize("order", list(Order))
def test_reference_cursor_of_traces_without_its_bound_is_rejected(order: Order) -> None:
    asked = Windowing.model_validate({"next": str(UUID(int=7)), "order": order})

    with pytest.raises(InvalidCursor):
        traces_window(asked, snapshot=Snapshot(), position=None, now_us=0)


@pytest.mark.parametrize("packed", [b"", b"short", bytes(25) + b"x"])
def test_invalid_position_is_rejected(packed: bytes) -> None:
    with pytest.raises(InvalidCursor):
        traces_window(Windowing(next="a cursor"), snapshot=Snapshot(), position=packed, now_us=0)


def test_window_includes_oldest_and_excludes_newest() -> None:
    window = TraceWindow(oldest_us=3, newest_us=5)

    assert [window.includes(start_us) for start_us in (2, 3, 4, 5)] == [False, True, True, False]
    assert TraceWindow().includes(0)
