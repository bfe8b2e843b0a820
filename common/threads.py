"""Run blocking work in threads of the event loop's default executor, within the share of the project (contract §2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from common.fair_share import FairShare
from common.tenant import current_tenant
from common.waiting import shielded

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

THREADS_COUNT: Final = min(32, (os.cpu_count() or 1) + 4)
"""The default of ``concurrent.futures.ThreadPoolExecutor``."""

QUEUE_S: Final = 60.0
"""How long the program's own work waits for a thread."""

_SHARES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FairShare]] = WeakKeyDictionary()
"""By event loop, because each has its own executor."""


async def in_thread(
    function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call ``function`` in a thread. Raises ``Overloaded`` if the current tenant gets no thread in time.

    A thread whose caller was cancelled counts until it ends.
    """
    loop, tenant = asyncio.get_running_loop(), current_tenant()
    share = _share_of(loop)
    await share.acquire(tenant, timeout_s=QUEUE_S)
    running = loop.run_in_executor(None, partial(copy_context().run, partial(function, *args, **kwargs)))
    running.add_done_callback(lambda _: share.release(tenant))
    return await shielded(running)


def _share_of(loop: asyncio.AbstractEventLoop) -> FairShare:
    if loop not in _SHARES:
        _SHARES[loop] = FairShare("threads", THREADS_COUNT)
    return _SHARES[loop]
