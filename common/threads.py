"""Work that would hold up the event loop, in a thread of its default executor, within the share of the project (contract §2)."""

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
Answer = TypeVar("Answer")

THREADS_COUNT: Final = min(32, (os.cpu_count() or 1) + 4)
"""Of the default executor (``concurrent.futures.ThreadPoolExecutor``)."""

QUEUE_S: Final = 60.0
"""How long the program's own work waits for a thread."""

_SHARES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FairShare]] = WeakKeyDictionary()
"""Each loop has an executor of its own."""


async def in_thread(
    function: Callable[Arguments, Answer], /, *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Answer:
    """Return what ``function`` returns, called in a thread. Raises ``Overloaded`` when the current tenant gets none in time.

    A thread that nobody waits for any more counts until it has ended.
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
