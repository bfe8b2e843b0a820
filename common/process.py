"""A process of the system: until when it runs, and its exit code."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from common.settings import InvalidSettings, Settings
from common.telemetry import Logger, configure_logging

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signal(stop: Callable[[], object], *, log: Logger, what: str) -> Iterator[None]:
    """Call ``stop`` and log ``what`` at the first SIGTERM or SIGINT; end the process at once at the second."""
    loop = asyncio.get_running_loop()
    is_stopping = False

    def on_signal(number: int) -> None:
        nonlocal is_stopping
        if is_stopping:
            os._exit(128 + number)
        is_stopping = True
        log.info(what, signal=signal.Signals(number).name)
        stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def run_process(main: Coroutine[Any, Any, None], settings: Settings, *, log: Logger, failure: str) -> int:
    """Run a process to its end; return its exit code, 0 only after an orderly end.

    An error that ends it is logged as ``failure``. Raises ``InvalidSettings``.
    """
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(main)
    except InvalidSettings:
        raise
    except Exception:
        log.exception(failure)
        return 1
    return 0
