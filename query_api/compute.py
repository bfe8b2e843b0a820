"""CPU-bound work of requests in child processes, shared fairly between projects (contract §2, ADR 0014).

Processes start with the first task, because most installations never need them. A process that dies is replaced, and
its task runs once more. The bytes of waiting bodies are bounded by ``query_api/http/body.py``.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from common.children.child import Failure, ServiceFailure, packed
from common.children.pool import ChildPool, Lost, PoolLimits, Program
from common.errors import ServiceError, Unavailable
from common.fair_share import QUEUE_S, FairShare, Tenant, current_tenant, in_thread, shielded
from common.limits import KIB
from common.settings import ComputeSettings
from common.telemetry import COMPUTE_RESTARTS

IN_PROCESS_BYTES_MAX: Final = 64 * KIB
"""JSON up to this size is read in this process: about 10 ms at worst."""

NICENESS: Final = 5
"""Gives the event loop of the API priority if there are fewer cores than processes."""

Result = TypeVar("Result")


class ComputeFailed(ServiceError):
    """A task raised an unexpected exception, or killed its process every time: a bug of ours."""


class ProcessDied(ComputeFailed):
    """A task killed its process every time."""


class TookTooLong(Unavailable):
    """A task took longer than its time, and its process was ended."""


class Compute(Protocol):
    """Runs slow functions outside of the event loop."""

    async def run(self, function: Callable[..., Any], /, *arguments: Any, timeout_s: float | None = None) -> Any:
        """Return ``function(*arguments)``. Function, arguments and result must be picklable.

        ``timeout_s`` is less than the time that every task has. Raises the ``ServiceError`` that the function raises,
        ``Overloaded`` if the current tenant gets no turn in time, and in processes ``TookTooLong`` and ``ProcessDied``.
        """
        ...

    async def close(self) -> None:
        """End threads and processes. Safe to call twice."""
        ...


class ThreadCompute:
    """Runs tasks in threads of this process, under its interpreter lock."""

    async def run(self, function: Callable[..., Any], /, *arguments: Any, timeout_s: float | None = None) -> Any:
        """Return ``function(*arguments)``. Nothing can end a thread: the time has no limit."""
        del timeout_s
        return await in_thread(function, *arguments)

    async def close(self) -> None:
        """Do nothing: no resource is held."""


class ProcessCompute:
    """Runs tasks in child processes."""

    def __init__(self, settings: ComputeSettings) -> None:
        program = Program(name="compute", run=_call, count_restart=COMPUTE_RESTARTS.inc)
        self._pool = ChildPool(program, PoolLimits(processes=settings.processes, ends_max=2, hangs_max=1))
        self._run_s_max = settings.run_s
        self._places = FairShare("processes for large requests", settings.processes)
        self._closed = False

    @property
    def process_ids(self) -> list[int]:
        """The ids of the running processes."""
        return self._pool.process_ids

    async def run(self, function: Callable[..., Any], /, *arguments: Any, timeout_s: float | None = None) -> Any:
        """Return ``function(*arguments)``; see ``Compute``.

        Cancelling the call drops a waiting task. A running task continues and keeps its tenant's place, because its
        response must be read from the pipe.
        """
        tenant = current_tenant()
        await self._places.acquire(tenant, timeout_s=QUEUE_S)
        if self._closed:
            self._places.release(tenant)
            raise Unavailable("The API is stopping.")
        limit_s = min(self._run_s_max, timeout_s or self._run_s_max)
        match await shielded(self._begun(tenant, function, arguments, limit_s)):
            case ServiceFailure() as failure:
                raise failure.error()
            case Failure(trace):
                raise ComputeFailed(trace)
            case Lost(_, is_hung=True):
                raise TookTooLong(f"Reading the request took longer than {limit_s:g} s.")
            case Lost(tries_count):
                raise ProcessDied(f"The process of the request died {tries_count} times.")
            case success:
                return success.value

    async def close(self) -> None:
        """End the processes and drop running and waiting tasks."""
        self._closed = True
        await self._pool.close()

    def _begun(
        self, tenant: Tenant, function: Callable[..., Any], arguments: tuple[Any, ...], limit_s: float
    ) -> asyncio.Future[Any]:
        """Begin a task, which gives the tenant's place back at its end."""
        try:
            running = self._pool.submit(function, *map(packed, arguments), timeout_s=limit_s)
        except Exception:  # noqa: BLE001 - a value cannot be pickled
            self._places.release(tenant)
            raise ComputeFailed(traceback.format_exc()) from None
        running.add_done_callback(lambda _: self._places.release(tenant))
        return running


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task at a lower priority. Not before the first task, whose unpickling imports modules."""
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    return function(*arguments)


async def run_if_large(compute: Compute, function: Callable[..., Result], /, *arguments: Any, is_large: bool) -> Result:
    """Return ``function(*arguments)``, called in this thread unless the work is large. Raises as ``Compute.run``."""
    if not is_large:
        return function(*arguments)
    result: Result = await compute.run(function, *arguments)
    return result
