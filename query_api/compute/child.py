"""``python -m query_api.compute.child <socket>``: run the tasks that come over the socket, one at a time; started by ``pool.py``.

The process holds nothing that could be lost. It ends when the API closes the socket or dies, however that dies, and leaves
signals of the terminal to the API.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from typing import BinaryIO, Final

from common.errors import ServiceError
from common.memory import tune_for_batches
from query_api.compute.ipc import Failure, Rejection, Response, Success, Task, receive, send

NICENESS: Final = 5
"""The event loop of the API goes first where there are fewer cores than processes."""


def main() -> None:
    """Run tasks until the other end has gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    import query_api.routes  # noqa: F401, PLC0415 - makes every model that a task may name

    tune_for_batches()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            serve(connection.makefile("rb"), connection.makefile("wb"))
        except (EOFError, OSError):
            os._exit(0)  # nobody waits for what is left


def serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Answer each task. Raises ``EOFError`` or ``OSError`` when the other end has gone."""
    while True:
        task: Task = receive(requests)
        send(responses, _run(task))
        del task


def _run(task: Task) -> Response:
    try:
        return Success(task.function(*task.arguments))
    except ServiceError as error:
        return Rejection.of(error)
    except Exception:  # noqa: BLE001 - whatever it is, the API reports it
        return Failure(traceback.format_exc())


if __name__ == "__main__":
    main()
