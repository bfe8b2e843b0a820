"""An alert as responses show it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.codec.checks import json_double
from query_api.delivery.alerts.schemas import AlertOut, Breach, Evaluated, Messages
from query_api.delivery.alerts.store import StoredAlert, StoredBreach
from query_api.delivery.schemas import State, TargetOut
from query_api.delivery.shown import last_error_of, state_of

BREACHES_MAX: Final = 100
"""Groups in breach that a response lists."""


def shown_alert(
    alert: StoredAlert, breaches: Sequence[StoredBreach], *, breaches_count: int, secret: str | None = None
) -> AlertOut:
    """Return what a response holds. ``secret`` is one that was made for the target just now."""
    is_paused = alert.status == State.PAUSED
    return AlertOut(
        id=alert.id,
        slug=alert.slug,
        name=alert.name,
        **alert.definition,
        **alert.selection,
        target=TargetOut(**alert.target, secret=secret),
        status=state_of(alert.status, alert.failing_since),
        reason=alert.reason,
        evaluated=None
        if alert.evaluated_at is None
        else Evaluated(at=alert.evaluated_at, groups=alert.groups_count, left_out=alert.left_out_count or None),
        next_at=None if is_paused else alert.next_at,
        breaches=[Breach(by=dict(each.by), value=json_double(each.value), since=each.since) for each in breaches],
        breaches_count=breaches_count,
        messages=Messages(
            delivered=alert.delivered_count,
            at=alert.delivered_at,
            waiting=alert.waiting_count,
            attempts=alert.attempts,
            retry_at=alert.retry_at,
        ),
        last_error=last_error_of(alert.last_error, alert.last_error_at),
        created_at=alert.created_at,
        created_by_id=alert.created_by,
        updated_at=alert.updated_at,
        updated_by_id=alert.updated_by,
    )
