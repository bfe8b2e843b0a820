"""Child processes that run CPU-bound tasks outside of the event loop and of its interpreter lock (ADR 0006, ADR 0014).

A process that ends unexpectedly or takes too long for a task is replaced, and the next one gets the tasks again that
have no response. A process responds to its tasks in order, so the first of these is the one that ended it: it fails
after some tries, and the tasks after it are never blamed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from common.children.child import Failure, Response, encode, receive, send
from common.limits import MIB
from common.telemetry import get_logger

PIPE_BYTES: Final = MIB
"""The largest size that Linux allows any user: fewer switches between the two ends, each of which costs the event loop
time.
"""

ROOT: Final = Path(__file__).parents[2]

_PROGRAM: Final = "from common.children.child import main; main()"

_log = get_logger(__name__)


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the processes of a pool run. The functions are pickled.

    ``run`` is called with the arguments of each task, ``prepare`` once before the first. ``name`` is shown
    in logs and by ``ps``; ``count_restart`` is called for each process that is replaced.
    """

    name: str
    run: Callable[..., Any]
    count_restart: Callable[[], None]
    prepare: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How many processes a pool has, and when it gives up a task.

    With ``keeps_first`` the first process starts at once and stays. The others start when a task needs them, and end
    when they have had none for ``idle_s`` (``None``: never). A task fails after ``ends_max`` processes have ended over
    it, or as many as ``hangs_max`` have taken longer than its time.
    """

    processes: int
    ends_max: int
    hangs_max: int
    keeps_first: bool = False
    idle_s: float | None = None


class Lost(NamedTuple):
    """No process has given a response: the last of ``tries_count`` ended, or took too long if ``is_hung``."""

    tries_count: int
    is_hung: bool


class _Task(NamedTuple):
    """``frame`` is kept until the response, for another try. ``timeout_s`` begins when the task is the first."""

    frame: Sequence[Any]
    timeout_s: float
    response: asyncio.Future[Response | Lost]


class ChildPool:
    """Runs tasks in child processes; a task goes to the process that has the fewest."""

    def __init__(self, program: Program, limits: PoolLimits) -> None:
        self._lanes = [
            _Lane(program, limits, is_kept=limits.keeps_first and not number) for number in range(limits.processes)
        ]

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes that run now."""
        return [lane.child.process_id for lane in self._lanes if lane.child is not None]

    def submit(self, *arguments: Any, timeout_s: float) -> asyncio.Future[Response | Lost]:
        """Run a task; return its future response. Raises what pickling the arguments raises.

        ``timeout_s`` excludes the tasks before it in its process, and includes the start of the process. A response is
        waited for even if nobody awaits it. It is cancelled when the pool closes.
        """
        task = _Task(encode(arguments), timeout_s, asyncio.get_running_loop().create_future())
        min(self._lanes, key=lambda lane: lane.tasks_count).add(task)
        return task.response

    async def close(self) -> None:
        """End the processes and cancel all tasks. Safe to call twice."""
        for lane in self._lanes:
            await lane.close()


class _Lane:
    """Runs tasks in order in one process at a time."""

    def __init__(self, program: Program, limits: PoolLimits, *, is_kept: bool) -> None:
        self._program = program
        self._limits = limits
        self._idle_s = None if is_kept else limits.idle_s
        self._tasks: deque[_Task] = deque()
        self._answering: asyncio.Task[None] | None = None
        """Runs while there are tasks."""
        self._ending: asyncio.Task[None] | None = None
        self.child = _Child(program) if is_kept else None

    @property
    def tasks_count(self) -> int:
        """How many tasks have no response."""
        return len(self._tasks)

    def add(self, task: _Task) -> None:
        """Run a task after those that were added before."""
        if self._ending is not None:
            self._ending.cancel()
        self._tasks.append(task)
        if self.child is not None:
            self.child.send(task.frame)
        if len(self._tasks) == 1:
            self._answering = asyncio.create_task(self._answer_all(), name=f"answer tasks: {self._program.name}")

    async def close(self) -> None:
        """End the process and cancel the tasks. Safe to call twice."""
        if self._ending is not None:
            self._ending.cancel()
        if self._answering is not None and not self._answering.done():
            self._answering.cancel()
            await asyncio.wait({self._answering})
        await self._end_child()

    async def _answer_all(self) -> None:
        try:
            while self._tasks:
                response = await self._response_to_first()
                answered = self._tasks.popleft().response
                if not answered.done():
                    answered.set_result(response)
        finally:
            while self._tasks:  # the pool closes
                self._tasks.popleft().response.cancel()
        if self._idle_s is not None:
            self._ending = asyncio.create_task(
                self._end_idle(self._idle_s), name=f"end idle child: {self._program.name}"
            )

    async def _response_to_first(self) -> Response | Lost:
        """Return the response to the first task. Never raises: the traceback of an exception would keep a large task
        alive in a cycle.
        """
        try:
            return await self._try_first()
        except Exception:  # noqa: BLE001 - a process cannot start: the caller of ``submit`` reports it
            await self._end_child()
            return Failure(traceback.format_exc())

    async def _try_first(self) -> Response | Lost:
        tries_count = hangs_count = 0
        while True:
            child = self._started()
            try:
                async with asyncio.timeout(self._tasks[0].timeout_s):
                    return await child.receive()
            except TimeoutError:
                hangs_count += 1
                is_hung = True
            except (EOFError, OSError):
                is_hung = False
            tries_count += 1
            self._program.count_restart()
            code = await self._end_child()
            _log.warning(
                "A child process ended or hung. Another one gets its tasks.", name=self._program.name, exit_code=code
            )
            if hangs_count == self._limits.hangs_max or tries_count == self._limits.ends_max:
                return Lost(tries_count, is_hung)

    def _started(self) -> _Child:
        if self.child is None:
            self.child = _Child(self._program)
            for task in self._tasks:
                self.child.send(task.frame)
        return self.child

    async def _end_child(self) -> int | None:
        """End the process; return its exit code."""
        child, self.child = self.child, None
        return None if child is None else await child.close()

    async def _end_idle(self, idle_s: float) -> None:
        await asyncio.sleep(idle_s)
        self._ending = None  # no longer cancelled: the process must be waited for
        await self._end_child()


class _Child:
    """One process and the two pipes to it. Each pipe has a thread that may block on it."""

    def __init__(self, program: Program) -> None:
        request_end, to_child = os.pipe()
        from_child, response_end = os.pipe()
        for pipe in (to_child, from_child):
            _widen(pipe)
        arguments = (str(request_end), str(response_end), program.name)
        self._process = subprocess.Popen(  # noqa: S603 - this program itself, no input of a user
            [sys.executable, "-c", _PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            pass_fds=(request_end, response_end),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
            process_group=0,  # Ctrl-C is for the parent, which needs its children while it drains
        )
        os.close(request_end)
        os.close(response_end)
        self._requests = os.fdopen(to_child, "wb")
        self._responses = os.fdopen(from_child, "rb")
        self._sending = ThreadPoolExecutor(1, thread_name_prefix=f"to {program.name}")
        self._receiving = ThreadPoolExecutor(1, thread_name_prefix=f"from {program.name}")
        self.send(encode((program.prepare, program.run)))

    @property
    def process_id(self) -> int:
        return self._process.pid

    def send(self, frame: Sequence[Any]) -> None:
        """Write a frame behind those before. That it fails is seen where the response is received."""
        self._sending.submit(send, self._requests, frame)

    async def receive(self) -> Response:
        """Return the next response. Raises ``EOFError`` if the process has ended."""
        response: Response = await asyncio.get_running_loop().run_in_executor(self._receiving, receive, self._responses)
        return response

    async def close(self) -> int:
        """Kill the process, which has nothing to lose; return its exit code."""
        self._process.kill()
        code = await asyncio.to_thread(self._process.wait)
        # The other end of the pipes is closed now, so the threads return.
        await asyncio.to_thread(self._sending.shutdown)
        await asyncio.to_thread(self._receiving.shutdown)
        with suppress(OSError):
            self._requests.close()
        self._responses.close()
        return code


def _widen(pipe: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user's pipe pages may be used up; the default size works too
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
