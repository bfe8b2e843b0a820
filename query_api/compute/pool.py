"""Child processes that run CPU-bound tasks, shared fairly among projects (contract §2).

Processes start with the first task, because most installations never need them. One that dies is replaced, and its task
is run once more. Tasks wait in a queue of bounded length; projects take turns, and none has more than its share of
the processes and of the waiting places.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

from common.errors import Overloaded, ServiceError, Unavailable
from common.limits import MIB
from common.settings import ComputeSettings
from common.telemetry import COMPUTE_RESTARTS, get_logger
from common.tenant import current_tenant
from common.threads import in_thread
from query_api.compute.ipc import Failure, Rejection, Response, Success, Task, encode, packed, receive_async

TRIES_MAX: Final = 2
READ_BUFFER_BYTES: Final = MIB
ROOT: Final = Path(__file__).parents[2]

_log: Final = get_logger("clearspan.compute")


class Compute(Protocol):
    """Runs functions that take long outside of the event loop."""

    async def run(self, project_id: UUID, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return ``function(*arguments)``. Function, arguments and result can be pickled.

        Raises the ``ServiceError`` that the function raises, ``Overloaded`` when the project's share is used up.
        """
        ...

    async def close(self) -> None:
        """End threads and processes. Safe to call twice."""
        ...


class ThreadCompute:
    """Runs tasks in threads of this process: they share its interpreter lock."""

    async def run(self, project_id: UUID, function: Callable[..., Any], /, *arguments: Any) -> Any:  # noqa: ARG002 - see Compute
        """Return ``function(*arguments)``."""
        return await in_thread(function, *arguments)

    async def close(self) -> None:
        """Nothing is held."""


class ComputeFailed(ServiceError):
    """A task raised something other than a ``ServiceError``, or ended its process each time: a bug of ours."""


def result_of(response: Response) -> Any:
    """The value of a response. Raises the error that it stands for."""
    match response:
        case Success(value):
            return value
        case Rejection():
            raise response.error()
        case Failure(trace):
            raise ComputeFailed(trace)


class ProcessCompute:
    """Runs tasks in child processes. A project that has neighbours gets at most half of them and of the waiting places, rounded up."""

    def __init__(self, settings: ComputeSettings) -> None:
        self._settings = settings
        self._idle = [_Lane(run_s_max=settings.run_s) for _ in range(settings.processes)]
        self._lanes = tuple(self._idle)
        self._waiting: dict[UUID, deque[_Job]] = {}
        self._running: Counter[UUID] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def process_ids(self) -> list[int]:
        """The processes that are alive."""
        return [lane.process_id for lane in self._lanes if lane.process_id is not None]

    async def run(self, project_id: UUID, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return ``function(*arguments)``; see ``Compute``. Cancelling the call drops the task if it is still waiting."""
        if self._closed:
            raise Unavailable("The API is stopping.")
        job = _Job(
            Task(function, [packed(argument) for argument in arguments]),
            has_neighbours=current_tenant().has_neighbours,
        )
        self._enqueue(project_id, job)
        self._start_waiting()
        try:
            async with asyncio.timeout(self._settings.wait_s):
                await job.started.wait()
        except TimeoutError:
            job.result.cancel()
            raise Overloaded(f"No process came free for this request within {self._settings.wait_s:g} s.") from None
        finally:
            if not job.started.is_set():
                self._drop(project_id, job)
        return result_of(await job.result)

    async def close(self) -> None:
        """End the processes; tasks that run or wait are dropped."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for lane in self._lanes:
            await lane.close()

    def _enqueue(self, project_id: UUID, job: _Job) -> None:
        places_max = self._settings.waiting_max
        own = self._waiting.get(project_id, ())
        if len(own) >= _share(places_max, job) or sum(map(len, self._waiting.values())) >= places_max:
            raise Overloaded("Too many large requests wait already.")
        self._waiting.setdefault(project_id, deque()).append(job)

    def _drop(self, project_id: UUID, job: _Job) -> None:
        jobs = self._waiting[project_id]
        jobs.remove(job)
        if not jobs:
            del self._waiting[project_id]

    def _start_waiting(self) -> None:
        """Start as many waiting jobs as there are idle processes. The project that was served goes to the end of the line."""
        for project_id, waiting in list(self._waiting.items()):
            if not self._idle:
                return
            if self._running[project_id] >= _share(len(self._lanes), waiting[0]):
                continue
            jobs = self._waiting.pop(project_id)
            job = jobs.popleft()
            if jobs:
                self._waiting[project_id] = jobs
            self._running[project_id] += 1
            job.started.set()
            task = asyncio.create_task(self._work(self._idle.pop(), project_id, job), name="compute")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, lane: _Lane, project_id: UUID, job: _Job) -> None:
        """Run one job on one process. Cancelling the request does not reach this: the response has to be read off the socket."""
        try:
            response = await _response_of(lane, job.task)
            if not job.result.done():
                job.result.set_result(response)
        finally:
            job.result.cancel()  # of no effect unless this task was cancelled
            self._idle.append(lane)
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]
            if not self._closed:
                self._start_waiting()


async def _response_of(lane: _Lane, task: Task) -> Response:
    try:
        return await lane.run(task)
    except Exception:  # noqa: BLE001 - no process can be started, or something cannot be pickled: the request reports it
        return Failure(traceback.format_exc())


class _Job:
    """A task, and where its response is awaited: never an exception, whose traceback would keep a large task alive in a cycle."""

    def __init__(self, task: Task, *, has_neighbours: bool) -> None:
        self.task = task
        self.has_neighbours = has_neighbours
        self.started = asyncio.Event()
        self.result: asyncio.Future[Response] = asyncio.get_running_loop().create_future()


def _share(count: int, job: _Job) -> int:
    """How many of ``count`` places the project of a job may hold."""
    return (count + 1) // 2 if job.has_neighbours else count


class _Ended(Exception):
    """The process ended before it answered."""


class _Lane:
    """One process after another: when one dies or hangs, the next task starts a new one."""

    def __init__(self, *, run_s_max: float) -> None:
        self._run_s_max = run_s_max
        self._process: _Process | None = None

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.id

    async def run(self, task: Task) -> Response:
        """Return the response of the process, or what stands for it where there is none."""
        for _ in range(TRIES_MAX):
            try:
                return await self._try(task)
            except TimeoutError:
                return Rejection.of(Unavailable(f"This request took longer than {self._run_s_max:g} s to read."))
            except _Ended:
                COMPUTE_RESTARTS.inc()
                _log.warning("A compute process ended unasked; another takes its place.")
        return Failure(f"It ended its process {TRIES_MAX} times.")

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end()

    async def _try(self, task: Task) -> Response:
        if self._process is None:
            self._process = await _Process.start()
        try:
            async with asyncio.timeout(self._run_s_max):
                return await self._process.run(task)
        except (TimeoutError, _Ended, asyncio.CancelledError):
            await self.close()
            raise


class _Process:
    """A child process and the socket to it."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.id = process.pid

    @staticmethod
    async def start() -> _Process:
        """Start the process. It needs about a second until it answers; what is sent meanwhile waits in the socket."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - this program itself, no input of a user; returns at once
                [sys.executable, "-m", "query_api.compute.child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
                process_group=0,  # Ctrl-C is for the API, which answers the requests under way
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=READ_BUFFER_BYTES)
        return _Process(process, reader, writer)

    async def run(self, task: Task) -> Response:
        try:
            for part in encode(task):
                self._writer.write(part)
            await self._writer.drain()
            response: Response = await receive_async(self._reader)
        except (EOFError, OSError) as exc:
            raise _Ended from exc
        return response

    async def end(self) -> None:
        """Kill it, it has nothing to lose, and wait until it is gone."""
        self._process.kill()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.to_thread(self._process.wait)


def open_compute(settings: ComputeSettings) -> Compute:
    """Return a pool of ``settings.processes`` child processes, or threads of this process if that is 0."""
    return ProcessCompute(settings) if settings.processes else ThreadCompute()
