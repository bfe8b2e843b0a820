"""Child processes that run CPU-bound tasks, shared fairly between projects (contract §2).

Processes start with the first task, because most installations never need them. A process that dies is replaced, and
its task runs once more. The bytes of waiting bodies are bounded by ``query_api/http/body.py``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from common.errors import Unavailable
from common.fair_share import QUEUE_S, FairShare, Tenant, current_tenant, in_thread, shielded
from common.limits import KIB, MIB
from common.settings import ComputeSettings
from common.telemetry import COMPUTE_RESTARTS, get_logger
from query_api.compute.ipc import ComputeFailed, Rejection, Response, Task, encode, packed, receive_async

IN_PROCESS_BYTES_MAX: Final = 64 * KIB
"""JSON up to this size is read in this process: about 10 ms at worst."""

TRIES_MAX: Final = 2
READ_BUFFER_BYTES: Final = MIB
ROOT: Final = Path(__file__).parents[2]

Result = TypeVar("Result")

_log: Final = get_logger("clearspan.compute")


class Compute(Protocol):
    """Runs slow functions outside of the event loop."""

    async def run(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return ``function(*arguments)``. Function, arguments and result must be picklable.

        Raises the ``ServiceError`` that the function raises, and ``Overloaded`` if the current tenant gets no turn in
        time.
        """
        ...

    async def close(self) -> None:
        """End threads and processes. Safe to call twice."""
        ...


class ThreadCompute:
    """Runs tasks in threads of this process, under its interpreter lock."""

    async def run(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return ``function(*arguments)``."""
        return await in_thread(function, *arguments)

    async def close(self) -> None:
        """Do nothing: no resource is held."""


class ProcessCompute:
    """Runs tasks in child processes. ``models_module`` creates the models of routes: see ``ipc.receive``."""

    def __init__(self, settings: ComputeSettings, *, models_module: str = "") -> None:
        self._lanes = tuple(_Lane(settings.run_s, models_module) for _ in range(settings.processes))
        self._idle = [*self._lanes]
        self._places = FairShare("processes for large requests", settings.processes)
        self._running: set[asyncio.Task[Response]] = set()
        self._closed = False

    @property
    def process_ids(self) -> list[int]:
        """The ids of the running processes."""
        return [lane.process.pid for lane in self._lanes if lane.process is not None]

    async def run(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return ``function(*arguments)``; see ``Compute``.

        Cancelling the call drops a waiting task. A running task continues and keeps its tenant's place, because its
        response must be read from the pipe.
        """
        tenant = current_tenant()
        lane = await self._take(tenant)
        task = Task(function, [packed(argument) for argument in arguments])
        running = asyncio.create_task(_response_of(lane, task), name="compute")
        self._running.add(running)
        running.add_done_callback(lambda _: self._give_back(running, lane, tenant))
        response = await shielded(running)
        if isinstance(response, Rejection):
            raise response.error()
        return response.value

    async def close(self) -> None:
        """End the processes and drop running and waiting tasks."""
        self._closed = True
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for lane in self._lanes:
            await lane.close()

    async def _take(self, tenant: Tenant) -> _Lane:
        await self._places.acquire(tenant, timeout_s=QUEUE_S)
        if self._closed:
            self._places.release(tenant)
            raise Unavailable("The API is stopping.")
        return self._idle.pop()

    def _give_back(self, running: asyncio.Task[Response], lane: _Lane, tenant: Tenant) -> None:
        self._running.discard(running)
        self._idle.append(lane)
        self._places.release(tenant)


async def _response_of(lane: _Lane, task: Task) -> Response:
    """Run a task. Never raises, because the traceback of an exception would keep a large task alive in a cycle."""
    try:
        return await lane.run(task)
    except Exception:  # noqa: BLE001 - a process cannot start, or a value cannot be pickled: the request reports it
        return Rejection.of(ComputeFailed(traceback.format_exc()))


class _Lane:
    """Runs one process at a time: after one dies or hangs, the next task starts a new one."""

    def __init__(self, run_s_max: float, models_module: str) -> None:
        self._run_s_max = run_s_max
        self._models_module = models_module
        self.process: Process | None = None

    async def run(self, task: Task) -> Response:
        """Return the response of the process, or an error if it gives none."""
        for _ in range(TRIES_MAX):
            try:
                return await self._try(task)
            except TimeoutError:
                return Rejection.of(Unavailable(f"Reading the request took longer than {self._run_s_max:g} s."))
            except (EOFError, ConnectionError):
                COMPUTE_RESTARTS.inc()
                _log.warning("A process for large bodies died; replaced it.")
        return Rejection.of(ComputeFailed(f"The process of the request died {TRIES_MAX} times."))

    async def _try(self, task: Task) -> Response:
        if self.process is None:
            self.process = await _start_process(self._models_module)
        requests, responses = self.process.stdin, self.process.stdout
        assert requests is not None  # noqa: S101 - a pipe
        assert responses is not None  # noqa: S101 - a pipe
        try:
            async with asyncio.timeout(self._run_s_max):
                for part in encode(task):
                    requests.write(part)
                await requests.drain()
                response: Response = await receive_async(responses)
        except (TimeoutError, EOFError, ConnectionError, asyncio.CancelledError):
            await self.close()
            raise
        return response

    async def close(self) -> None:
        """Kill the process, which has no state to lose, and wait for its end."""
        process, self.process = self.process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # reads on: `wait` also waits until the pipes are read to their end


async def _start_process(models_module: str) -> Process:
    """Start a process. Its first task waits for imports, about half a second."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "query_api.compute.child", *filter(None, [models_module])),
        stdin=PIPE,
        stdout=PIPE,
        limit=READ_BUFFER_BYTES,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
        process_group=0,  # Ctrl-C is for the API, which finishes running requests
    )


async def run_if_large(compute: Compute, function: Callable[..., Result], /, *arguments: Any, is_large: bool) -> Result:
    """Return ``function(*arguments)``, called in this thread unless the work is large. Raises as ``Compute.run``."""
    if not is_large:
        return function(*arguments)
    result: Result = await compute.run(function, *arguments)
    return result
