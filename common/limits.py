"""The limits of records and spans (contract §6); settings take their defaults from here, and codecs apply them."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * 1024

NESTING_DEPTH_BOUND = 31
"""The deepest nesting that every encoding supports: protobuf parses 100 nested messages, and a level of an object takes
three."""


@dataclass(frozen=True, slots=True)
class SpanLimits:
    """Limits of one record and one span; beyond them a span is dead-lettered, or rejected over HTTP."""

    record_bytes_max: int = 10 * MIB
    span_bytes_max: int = 4 * MIB
    nesting_depth_max: int = 24
    past_ns_min: int = 946_684_800_000_000_000  # 2000-01-01T00:00:00Z
    ahead_ns_max: int = 24 * 3600 * 1_000_000_000
