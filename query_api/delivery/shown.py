"""A subscription as responses show it, and what of it an alert shares.

Its position is a text, signed and encrypted like a cursor and bound to its project. A position of one subscription is
valid for every other one of the project on the same feed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

from common.errors import InvalidCursor
from query_api.delivery.schemas import (
    Delivered,
    ExpiredOut,
    FeedKind,
    LastError,
    PendingBatch,
    RejectedOut,
    SkippedBatch,
    State,
    SubscriptionOut,
    TargetOut,
)
from query_api.delivery.stored import Subscription, batch_id_of
from query_api.pages.arrivals import WHOLE_RECORD, ArrivalPlace, Positions
from query_api.pages.settled_feed import SettledPosition
from query_api.request.route import Request
from query_api.spans.window import fingerprint, read_cursor, write_cursor

FeedPosition: TypeAlias = Positions | SettledPosition
"""A position in the feed of spans, or in that of settled traces."""


def unpack_position(packed: bytes, feed: str) -> FeedPosition:
    """Return the position that is stored for a subscription to ``feed``. Raises ``InvalidCursor``."""
    return SettledPosition.unpack(packed) if feed == FeedKind.SETTLED_TRACES else Positions.unpack(packed)


def _scope(project_id: UUID, feed: str) -> bytes:
    parts = [b"position of a subscription", project_id.bytes]
    return fingerprint(parts if feed == FeedKind.SPANS else [*parts, feed.encode()])


def write_position(packed: bytes, project_id: UUID, feed: str, *, secret: bytes) -> str:
    """Return a position as responses show it. ``packed`` is what ``pack`` returned."""
    return write_cursor(packed, scope=_scope(project_id, feed), secret=secret)


def read_position(text: str, project_id: UUID, feed: str, *, secret: bytes, at: str) -> FeedPosition:
    """Return the position of a text. Raises ``InvalidCursor`` if it is not one of this project; ``at`` is its path."""
    try:
        return unpack_position(read_cursor(text, scope=_scope(project_id, feed), secret=secret).position, feed)
    except InvalidCursor as exc:
        raise InvalidCursor(
            f"{at}: this is neither a time nor a position of a subscription of this project on {feed}; allowed: now,"
            " beginning, a created_at such as 2026-05-01T12:00:00Z, or the position of such a subscription."
        ) from exc


SKIPPED_MAX: Final = 10
"""Skipped batches that are remembered."""


def state_of(status: str, failing_since: datetime | None) -> State:
    """Return what a subscription or an alert does."""
    if status == State.PAUSED:
        return State.PAUSED
    return State.ACTIVE if failing_since is None else State.RETRYING


def last_error_of(reason: str | None, at: datetime | None) -> LastError | None:
    """Return the last failure of a subscription or an alert."""
    return None if reason is None or at is None else LastError(reason=reason, at=at)


def shown(
    request: Request, subscription: Subscription, *, now: datetime, last_settled: int, secret: str | None = None
) -> SubscriptionOut:
    """Return what a response holds. ``secret`` is one that was made for the target just now; ``last_settled`` is the
    last run in which a trace of the project settled.
    """
    is_late = is_behind(request, subscription, last_settled=last_settled)
    lag_s = (now - subscription.through_at).total_seconds() if is_late else 0.0
    return SubscriptionOut(
        id=subscription.id,
        slug=subscription.slug,
        name=subscription.name,
        on=FeedKind(subscription.feed),
        **subscription.selection,
        target=TargetOut(**subscription.target, secret=secret),
        status=state_of(subscription.status, subscription.failing_since),
        reason=subscription.reason,
        position=_position(request, subscription.feed, subscription.position),
        lag_s=round(max(lag_s, 0.0), 3),
        pending=_pending(subscription),
        delivered=Delivered(
            spans=subscription.delivered_spans, batches=subscription.delivered_count, at=subscription.delivered_at
        ),
        rejected=_rejected(subscription),
        expired=ExpiredOut(spans=subscription.expired_spans, at=subscription.expired_at),
        last_error=last_error_of(subscription.last_error, subscription.last_error_at),
        skipped=[
            SkippedBatch(**{**each, "position": _skipped_position(request, subscription.feed, each)})
            for each in subscription.skipped
        ]
        or None,
        created_at=subscription.created_at,
        created_by_id=subscription.created_by,
        updated_at=subscription.updated_at,
        updated_by_id=subscription.updated_by,
    )


def is_behind(request: Request, subscription: Subscription, *, last_settled: int) -> bool:
    """Return whether there is something that the subscription has not passed. ``context.stored`` is up to date."""
    if subscription.pending is not None:
        return True
    position = unpack_position(subscription.position, subscription.feed)
    if isinstance(position, SettledPosition):
        return position.run < last_settled
    through = request.context.stored.through(request.project_id)
    return any(
        position.after(partition_id) < ArrivalPlace(last.offset, WHOLE_RECORD) for partition_id, last in through.items()
    )


def skipped_with(subscription: Subscription, *, now: datetime) -> list[Mapping[str, Any]]:
    """Return the record of skipped batches with the one that is pending now."""
    batch = {
        "batch_id": batch_id_of(subscription.id, subscription.batch_number),
        "spans": subscription.pending_spans,
        "at": now.isoformat(),
        "reason": subscription.last_error,
        "position": subscription.position.hex(),
    }
    return [*subscription.skipped, batch][-SKIPPED_MAX:]


def _pending(subscription: Subscription) -> PendingBatch | None:
    if subscription.pending is None:
        return None
    return PendingBatch(
        batch_id=batch_id_of(subscription.id, subscription.batch_number),
        spans=subscription.pending_spans,
        attempts=subscription.attempts,
        failing_since=subscription.failing_since,
        retry_at=subscription.retry_at,
    )


def _rejected(subscription: Subscription) -> RejectedOut | None:
    if subscription.last_rejection_at is None:
        return None
    return RejectedOut(
        spans=subscription.rejected_spans,
        reason=subscription.last_rejection or "The target gave no reason.",
        at=subscription.last_rejection_at,
    )


def _position(request: Request, feed: str, packed: bytes) -> str:
    return write_position(packed, request.project_id, feed, secret=request.context.cursor_secret)


def _skipped_position(request: Request, feed: str, skipped: Any) -> str:
    return _position(request, feed, bytes.fromhex(skipped["position"]))
