"""``python -m query_api.compute.child <socket>``: run the tasks that come over the socket, one at a time; started by ``pool.py``.

The process holds nothing that could be lost. It ends when the API closes the socket or dies, however that dies, and leaves
signals of the terminal to the API.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import traceback
from typing import Any, BinaryIO, Final

from common.errors import ServiceError
from common.memory import tune_for_batches
from query_api.compute.ipc import Failure, Rejection, Success, Task, encode, receive, send

NICENESS: Final = 5
"""The event loop of the API goes first where there are fewer cores than processes."""


def main() -> None:
    """Run tasks until the other end has gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    import query_api.http.routes  # noqa: F401, PLC0415 - makes every model that a task may name

    tune_for_batches()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
        try:
            serve(connection.makefile("rb"), connection.makefile("wb"))
        except (EOFError, OSError):
            os._exit(0)  # nobody waits for what is left


def _end_with(connection: int) -> None:
    """End this process, in the middle of a task too, when the other end of the socket is gone."""
    poll = select.poll()
    poll.register(connection, 0)  # what ends a connection is always reported
    poll.poll()
    os._exit(0)


def serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Response each task. Raises ``EOFError`` or ``OSError`` when the other end has gone."""
    while True:
        task: Task = receive(requests)
        send(responses, _run(task))
        del task


def _run(task: Task) -> list[Any]:
    """The frame of the response."""
    try:
        return encode(Success(task.function(*task.arguments)))
    except ServiceError as error:
        return encode(Rejection.of(error))
    except Exception:  # noqa: BLE001 - whatever it is, the API reports it
        return encode(Failure(traceback.format_exc()))


if __name__ == "__main__":
    main()
