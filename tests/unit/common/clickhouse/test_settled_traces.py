"""What a run keeps until it is inserted (ADR 0049)."""

from __future__ import annotations

from uuid import UUID

from common.clickhouse.settled_traces import (
    SettledTrace,
    SettlingReason,
    TraceName,
    pack_settled,
    settled_rows,
    unpack_settled,
)

TRACES = [
    SettledTrace(TraceName(UUID(int=5), bytes(range(16))), 2**40, 1, 1_760_000_000_000_000, SettlingReason.COMPLETE),
    SettledTrace(TraceName(UUID(int=2**128 - 1), b"\xff" * 16), 2**40, 2**32 - 1, 1, SettlingReason.INCOMPLETE),
]


def test_traces_are_the_same_after_packing() -> None:
    assert unpack_settled(pack_settled(TRACES)) == TRACES
    assert unpack_settled(pack_settled([])) == []


def test_rows_have_a_column_for_each_member() -> None:
    assert settled_rows(TRACES).select(["run", "generation", "reason"]).to_pylist() == [
        {"run": 2**40, "generation": 1, "reason": "complete"},
        {"run": 2**40, "generation": 2**32 - 1, "reason": "incomplete"},
    ]
