"""When a delivery that has failed is tried again."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Final

from common.delivery_settings import DeliverySettings

RETRY_S: Final = 1.0
JITTER: Final = 0.2


def next_try(
    attempts: int, since: datetime, now: datetime, *, retry_after_s: float | None, settings: DeliverySettings
) -> datetime | None:
    """Return when to try again after this number of failed tries, or ``None`` if it has failed for long enough.

    ``since`` is the time of the first of these tries; ``retry_after_s`` is how long the target asks to wait.
    """
    if (now - since).total_seconds() >= settings.retry_for_s:
        return None
    delay_s = max(retry_delay_s(attempts, max_s=settings.retry_delay_max_s), retry_after_s or 0.0)
    return now + timedelta(seconds=delay_s)


def pause_reason(failure: str, settings: DeliverySettings) -> str:
    """Return why a delivery is paused that has failed for long enough."""
    return f"{failure} This was tried for {settings.retry_for_s / 3600:g} h."


def retry_delay_s(attempts: int, *, max_s: float) -> float:
    """Return the pause after this number of failed tries, in seconds: twice as long each time, with some jitter."""
    doubled_s = RETRY_S * 2.0 ** min(attempts - 1, 30)
    return min(doubled_s, max_s) * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - not a secret
