"""Spans that tests name by numbers: of the trace, of the span, and of its parent."""

from __future__ import annotations

from typing import Any

from common.span import Span
from tests.support.span_corpus import START_NS


def numbered_span(number: int, *, trace: int = 1, parent: int | None = None, start_us: int = 0, **members: Any) -> Span:
    """Return span ``s{number}``, which starts ``start_us`` after the start of the test data and lasts 1 ms.

    Without a ``parent`` it is a root. ``members`` are those of ``Span``, instead of the plain ones.
    """
    start_ns = START_NS + start_us * 1_000
    plain: dict[str, Any] = {
        "trace_id": trace.to_bytes(16, "big"),
        "span_id": number.to_bytes(8, "big") * 2,
        "parent_id": None if parent is None else parent.to_bytes(8, "big") * 2,
        "name": f"s{number}",
        "kind": 1,
        "start_ns": start_ns,
        "end_ns": start_ns + 1_000_000,
        "status_code": 0,
        "status_message": None,
        "attributes": {},
    }
    return Span(**{**plain, **members})
