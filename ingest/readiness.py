"""What the worker waits for, in words: every step reports here, ``ingest/health.py`` shows it."""

from __future__ import annotations

from common.telemetry import NOT_READY, get_logger

_log = get_logger(__name__)


class Readiness:
    """What the process waits for, by name. Green when nothing is red."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def red(self, component: str, reason: str) -> None:
        """Not ready because of this; the latest reason is shown."""
        self._reasons[component] = reason
        NOT_READY.labels(component).set(1)

    def green(self, component: str) -> None:
        """This no longer stands in the way; the log says when that was, too."""
        if self._reasons.pop(component, None) is not None:
            NOT_READY.labels(component).set(0)
            _log.info("No longer waiting.", component=component)

    @property
    def reasons(self) -> dict[str, str]:
        """Component → why it is not ready; empty when all is well."""
        return dict(self._reasons)
