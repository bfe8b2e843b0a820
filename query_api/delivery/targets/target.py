"""What delivers a batch of spans to one system (ADR 0018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class DeliveryBatch:
    """Spans that are delivered together, in the order of the feed."""

    id: str
    """The same on every retry of a batch, also after a restart. A later try holds no span that an earlier one did not
    hold; spans that were replaced or deleted in between are missing."""

    subscription: str
    """The slug of the subscription."""

    created_at: datetime
    """When the batch was read, in UTC."""

    spans: Sequence[Mapping[str, Any]]
    """Span objects as ``/spans/query`` returns them; empty only if ``traces`` is not."""

    traces: Sequence[Mapping[str, Any]] | None = None
    """The settled traces that ``spans`` are of, ``{trace_id, settled, spans}`` each; ``None`` if it is about spans.
    One that is too large has no spans, and the member ``spans_left_out``."""


@dataclass(frozen=True, slots=True)
class RejectedSpans:
    """Spans of a batch that a target has acknowledged and will not keep; they are not delivered again."""

    count: int
    reason: str
    """What the target says; may be empty."""


class TargetUnavailable(Exception):
    """The target did not take the batch now; it is retried.

    ``reason`` is shown to the user. ``retry_after_s`` is when the target asked to be tried again, in seconds.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(reason)


class TargetRefused(Exception):
    """The target refuses the batch and would refuse it again; the subscription is paused. The user sees ``reason``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Target(Protocol):
    """Delivers batches to one system, one at a time. It connects on first use."""

    async def deliver(self, batch: DeliveryBatch, /) -> RejectedSpans | None:
        """Return once the target has acknowledged the batch; the result is what it says that it will not keep.

        Raises ``TargetUnavailable`` or ``TargetRefused``. A batch of which a part was taken may be delivered again.
        """
        ...

    async def check(self) -> str | None:
        """Return why the target cannot be reached now, or ``None``. It delivers nothing."""
        ...

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...


class MessageTarget(Protocol):
    """Delivers single messages to one system."""

    async def send(self, message_id: str, kind: str, created_at: datetime, data: Mapping[str, Any], /) -> None:
        """Send ``{"type": kind, "timestamp": …, "data": …}``; ``message_id`` is the same on every retry.

        Raises as ``Target.deliver``.
        """
        ...

    async def check(self) -> str | None:
        """Return why the target cannot be reached now, or ``None``. It sends nothing."""
        ...

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...
