"""Resolve names that callers chose, in threads that serve nothing else (ADR 0034).

The name server of a zone may answer late or never, and a look-up cannot be cancelled. In the threads of the event loop,
a few such names would stop everything else that needs one: queries, exports, inserts.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from common.fair_share import FairShare, current_tenant, shielded

LOOKUPS_MAX: Final = 16
"""Look-ups at the same time in one process; a project with neighbors has at most half. A look-up whose caller has given
up counts until its thread ends."""

LOOKUP_S: Final = 10.0
"""How long a name server may take to answer."""

QUEUE_S: Final = 10.0
"""How long work that is no request waits for its turn."""

AddressInfo: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
"""As ``socket.getaddrinfo`` returns it: family, kind, protocol, canonical name, address."""

_SHARES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FairShare]] = WeakKeyDictionary()


class UnresolvedNameError(OSError):
    """A name has no address, or none was found in time. The message says which."""

    def __init__(self, message: str) -> None:
        super().__init__(socket.EAI_AGAIN, message)

    def __str__(self) -> str:
        return str(self.strerror)


async def resolve(host: str, port: int | None = None) -> list[AddressInfo]:
    """Return the addresses of a host for connections over TCP; at least one. An address needs no look-up.

    Raises ``UnresolvedNameError``, and ``Overloaded`` if the current tenant gets no turn in time.
    """
    look_up: Callable[..., list[Any]] = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    with suppress(socket.gaierror, ValueError):
        return look_up(flags=socket.AI_NUMERICHOST)
    loop, tenant = asyncio.get_running_loop(), current_tenant()
    share = _share_of(loop)
    await share.acquire(tenant, timeout_s=QUEUE_S)
    try:
        running = _in_own_thread(loop, partial(look_up, flags=socket.AI_ADDRCONFIG))
    except BaseException:  # no thread could be started
        share.release(tenant)
        raise
    running.add_done_callback(lambda _: share.release(tenant))
    try:
        async with asyncio.timeout(LOOKUP_S):
            return await shielded(running)
    except TimeoutError:
        raise UnresolvedNameError(f"the name '{host[:255]}' was not resolved within {LOOKUP_S:g} s") from None
    except (socket.gaierror, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, socket.gaierror) else "it is not a name"
        raise UnresolvedNameError(f"the name '{host[:255]}' cannot be resolved: {reason}") from exc


def _share_of(loop: asyncio.AbstractEventLoop) -> FairShare:
    if loop not in _SHARES:
        _SHARES[loop] = FairShare("look-ups of names", LOOKUPS_MAX)
    return _SHARES[loop]


def _in_own_thread(
    loop: asyncio.AbstractEventLoop, function: Callable[[], list[AddressInfo]]
) -> asyncio.Future[list[AddressInfo]]:
    """Call ``function`` in a new thread, which does not keep the process from ending."""
    result: asyncio.Future[list[AddressInfo]] = loop.create_future()

    def run() -> None:
        try:
            deliver_result: Callable[[], None] = partial(result.set_result, function())
        except Exception as exc:  # noqa: BLE001 - it is raised where the result is awaited
            deliver_result = partial(result.set_exception, exc)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(deliver_result)

    Thread(target=run, name="resolve", daemon=True).start()
    return result
