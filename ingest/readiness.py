"""What the worker waits for, by component: every step reports here, ``ingest/health.py`` shows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from common.errors import ServiceError, Unavailable
from common.telemetry import NOT_READY, get_logger

NOT_CONNECTED: Final = "Not connected yet."

_log = get_logger(__name__)


class Readiness:
    """What the process waits for, by component. Ready if no component is red."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def red(self, component: str, reason: str) -> None:
        """Mark a component as not ready; the latest reason is reported."""
        self._reasons[component] = reason
        NOT_READY.labels(component).set(1)

    def waits_for(self, component: str, reason: str) -> None:
        """Mark a component as not ready, and log it if it was ready or never connected."""
        if self._reasons.get(component, NOT_CONNECTED) == NOT_CONNECTED:
            _log.warning("Waiting.", component=component, error=reason)
        self.red(component, reason)

    def green(self, component: str) -> None:
        """Mark a component as ready, and log it if it was not."""
        if self._reasons.pop(component, None) is not None:
            NOT_READY.labels(component).set(0)
            _log.info("No longer waiting.", component=component)

    @property
    def reasons(self) -> dict[str, str]:
        """Component → why it is not ready; empty if all are."""
        return dict(self._reasons)


async def probe(readiness: Readiness, component: str, ask: Callable[[], Awaitable[object]]) -> None:
    """Report whether a system is available. One that rejects the probe is available, too."""
    try:
        await ask()
    except Unavailable as exc:
        readiness.waits_for(component, exc.detail)
        return
    except ServiceError as exc:
        _log.debug("The probe was rejected, so the system is available.", component=component, error=exc.detail)
    readiness.green(component)
