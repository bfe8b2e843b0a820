"""The limits of what is taken in (contract §6), as one value that settings fill and codecs obey."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * 1024

NESTING_DEPTH_BOUND = 31
"""The deepest that every encoding can say: protobuf's parser follows 100 messages, and a level of an object is three."""


@dataclass(frozen=True, slots=True)
class SpanLimits:
    """What a record and a span may be at most. Past it: a dead letter with a code, or a refusal over HTTP."""

    record_bytes_max: int = 10 * MIB
    span_bytes_max: int = 4 * MIB
    nesting_depth_max: int = 24
    past_ns_min: int = 946_684_800_000_000_000  # 2000-01-01T00:00:00Z
    ahead_ns_max: int = 24 * 3600 * 1_000_000_000
