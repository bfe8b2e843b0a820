"""Settled traces as rows of the table ``settled_traces``, and as the bytes that a run keeps until they are there (ADR
0049).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

import pyarrow as pa

SETTLED_TRACES_TABLE: Final = "settled_traces"

_ROW: Final = struct.Struct(">16s16sQIqB")


class SettlingReason(StrEnum):
    """Why a trace is settled."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


class TraceName(NamedTuple):
    """What names a trace."""

    project_id: UUID
    trace_id: bytes


class SettledTrace(NamedTuple):
    """A trace that a run has settled."""

    name: TraceName
    run: int
    generation: int
    """How often it has settled, from 1."""

    settled_us: int
    """When, in microseconds since 1970."""

    reason: SettlingReason


def pack_settled(traces: Sequence[SettledTrace]) -> bytes:
    """Return what ``unpack_settled`` reads."""
    rows = (
        _ROW.pack(
            trace.name.project_id.bytes, trace.name.trace_id, *trace[1:4], trace.reason is SettlingReason.COMPLETE
        )
        for trace in traces
    )
    return zlib.compress(b"".join(rows), 1)


def unpack_settled(packed: bytes) -> list[SettledTrace]:
    """Return the traces that ``pack_settled`` packed."""
    return [
        SettledTrace(
            TraceName(UUID(bytes=project), trace_id),
            run,
            generation,
            settled_us,
            SettlingReason.COMPLETE if is_complete else SettlingReason.INCOMPLETE,
        )
        for project, trace_id, run, generation, settled_us, is_complete in _ROW.iter_unpack(zlib.decompress(packed))
    ]


def settled_rows(traces: Sequence[SettledTrace]) -> pa.Table:
    """Return traces as the rows to insert."""
    return pa.table(
        {
            "project_id": pa.array([trace.name.project_id.bytes for trace in traces], pa.binary(16)),
            "run": pa.array([trace.run for trace in traces], pa.uint64()),
            "trace_id": pa.array([trace.name.trace_id for trace in traces], pa.binary(16)),
            "generation": pa.array([trace.generation for trace in traces], pa.uint32()),
            "settled_us": pa.array([trace.settled_us for trace in traces], pa.int64()),
            "reason": pa.array([str(trace.reason) for trace in traces], pa.string()).dictionary_encode(),
        }
    )
