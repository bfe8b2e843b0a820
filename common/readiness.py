"""What a process waits for, by component: its parts report here, ``/readyz`` shows it; and the loop that retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from common.errors import Overloaded, ServiceError, Unavailable
from common.kafka.record import LostPartition
from common.telemetry import NOT_READY, get_logger
from common.waiting import Backoff

T = TypeVar("T")

NOT_CONNECTED: Final = "Not connected yet."

_log = get_logger(__name__)


class Readiness:
    """What the process waits for, by component. Ready if no component is red."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._gaps: dict[str, str] = {}

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

    def gap(self, partition: str, reason: str) -> None:
        """Name the latest gap of a partition for as long as the process runs. It does not make the process unready."""
        self._gaps[partition] = reason

    @property
    def gaps(self) -> dict[str, str]:
        """Partition → what of it cannot be read any more; empty if nothing was missing since the process started."""
        return dict(self._gaps)

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


class Retry:
    """Retries transient failures; ``/readyz`` is red meanwhile."""

    def __init__(
        self,
        *,
        readiness: Readiness,
        delay_s_max: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._readiness = readiness
        self._delay_s_max = delay_s_max
        self._sleep = sleep

    async def until_done(
        self, act: Callable[[], Awaitable[T]], *, component: str, also: tuple[type[ServiceError], ...] = ()
    ) -> T:
        """Return the result of ``act``; retry after each transient failure except ``LostPartition``, and after those in
        ``also``. The component is ready again when this ends, however it ends.
        """
        backoff = Backoff(delay_s_max=self._delay_s_max)
        try:
            while True:
                try:
                    return await act()
                except ServiceError as exc:
                    if isinstance(exc, LostPartition) or not (exc.transient or isinstance(exc, also)):
                        raise
                    delay_s = max(backoff.next_delay_s(), exc.retry_after_s if isinstance(exc, Overloaded) else 0.0)
                    self._readiness.red(component, exc.detail)
                    _log.warning("Waiting.", component=component, error=exc.detail, next_try_s=round(delay_s, 2))
                    await self._sleep(delay_s)
        finally:  # also if it is cancelled: what nobody waits for must not keep the process unready
            self._readiness.green(component)
