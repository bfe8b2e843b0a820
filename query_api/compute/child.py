"""``python -m query_api.compute.child [<models_module>]``: run the tasks that arrive on standard input, one at a time.

Started by ``pool.py``, which reads the responses from standard output. The process holds no state. It ends when the API
closes the pipes or dies in any way, and ignores the terminal's signals, which the API handles.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO, Final

from common.errors import ServiceError
from common.memory import tune_for_batches
from query_api.compute.ipc import ComputeFailed, Rejection, Success, Task, encode, receive, send

NICENESS: Final = 5
"""Gives the event loop of the API priority if there are fewer cores than processes."""


def main() -> None:
    """Run tasks until the other end closes. The optional argument is the ``models_module`` of ``ipc.receive``."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    responses = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printed text must not end up between responses
    tune_for_batches()
    threading.Thread(target=_end_with, args=(sys.stdin.fileno(),), daemon=True).start()
    try:
        serve(sys.stdin.buffer, responses, *sys.argv[1:])
    except (EOFError, OSError):
        os._exit(0)  # the API does not read the rest


def _end_with(pipe: int) -> None:
    """End this process, even in the middle of a task, when the other end of the pipe closes."""
    poll = select.poll()
    poll.register(pipe, 0)  # a hang-up is always reported
    poll.poll()
    os._exit(0)


def serve(requests: BinaryIO, responses: BinaryIO, models_module: str = "") -> None:
    """Run each task and send its response. Raises ``EOFError`` or ``OSError`` when the other end has closed."""
    while True:
        task: Task = receive(requests, models_module=models_module)
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # not before: the first task imports modules
        send(responses, _run(task))
        del task


def _run(task: Task) -> list[Any]:
    """Run a task and return the frame of its response."""
    try:
        return encode(Success(task.function(*task.arguments)))
    except ServiceError as error:
        return encode(Rejection.of(error))
    except Exception:  # noqa: BLE001 - the API reports it
        return encode(Rejection.of(ComputeFailed(traceback.format_exc())))


if __name__ == "__main__":
    main()
