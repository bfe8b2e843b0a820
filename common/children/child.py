"""A child process that runs tasks, and the frames between it and ``pool.py``, which starts it.

Two pipes are its only connection. The first frame prepares the process; each further frame is a task, and gets one
response, in order. The process holds no state that could be lost. It ends when its parent closes the pipes or dies in
any way, even in the middle of a task. It ignores the signals of a terminal, because its parent drains with it.

A frame is a pickled message, followed by its large byte strings, which are not pickled. Both ends are the same program,
and no other process has the pipes.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from common.errors import ServiceError
from common.left_out import FOR_DATA_FRAMES, FOR_TERMINALS, leave_out
from common.limits import MIB
from common.memory import return_free_memory, tune_for_batches

BUFFER_BYTES_MIN: Final = 4 * 1024
"""Byte strings of at least this size are sent next to the pickle, which saves a copy at each end."""

LARGE_CHILD_BYTES: Final = 140 * MIB
"""A child that runs usual tasks stays below it."""

_COUNT: Final = struct.Struct("<Q")


class Success(NamedTuple):
    """The task returned ``value``."""

    value: Any


class ServiceFailure(NamedTuple):
    """The task raised a ``ServiceError``, sent in parts because pickle cannot call its constructor."""

    kind: type[ServiceError]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @staticmethod
    def of(error: ServiceError) -> ServiceFailure:
        """Convert from an error."""
        return ServiceFailure(type(error), error.args, vars(error))

    def error(self) -> ServiceError:
        """Convert back to the error."""
        error = self.kind.__new__(self.kind, *self.arguments)
        vars(error).update(self.attributes)
        return error


class Failure(NamedTuple):
    """The task raised any other exception, which is a defect: its traceback as text."""

    trace: str


Response: TypeAlias = Success | ServiceFailure | Failure


def packed(value: Any) -> Any:
    """Return ``value``, marked to be sent next to the pickle if it is a large byte string."""
    return pickle.PickleBuffer(value) if isinstance(value, bytes) and len(value) >= BUFFER_BYTES_MIN else value


def encode(message: Any) -> list[Any]:
    """Return the parts of a frame in the order of writing: their count and sizes, the pickle, the byte strings."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    parts = [body, *(buffer.raw() for buffer in buffers)]
    return [struct.pack(f"<{1 + len(parts)}Q", len(parts), *map(len, parts)), *parts]


def send(stream: BinaryIO, parts: Sequence[Any]) -> None:
    """Write one frame. Raises ``OSError`` if the other end has closed."""
    for part in parts:
        stream.write(part)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message. Raises ``EOFError`` if the other end has closed, even in the middle of a message."""
    (count,) = _COUNT.unpack(_exactly(stream, _COUNT.size))
    sizes = _exactly(stream, count * _COUNT.size)
    body, *buffers = [_exactly(stream, size) for (size,) in _COUNT.iter_unpack(sizes)]
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - see the module


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise EOFError
    return content


def main() -> None:
    """Run tasks until the parent closes the pipes. Arguments: two numbers of pipes, and a name for ``ps``."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    leave_out(FOR_DATA_FRAMES | FOR_TERMINALS)
    request_end, response_end, _ = sys.argv[1:]
    threading.Thread(target=_end_with, args=(int(request_end),), daemon=True).start()
    try:
        _serve(os.fdopen(int(request_end), "rb"), os.fdopen(int(response_end), "wb"))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent has ended, and does not read the rest


def _end_with(pipe: int) -> None:
    """End this process, even in the middle of a task, when the other end of the pipe closes."""
    poll = select.poll()
    poll.register(pipe, 0)  # a hang-up is always reported
    poll.poll()
    os._exit(0)


def _serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Run each task and send its response. Raises ``EOFError`` or ``OSError`` when the other end has closed."""
    prepare, run = receive(requests)
    prepare()
    tune_for_batches()
    while True:
        send(responses, _response(run, receive(requests)))
        return_free_memory(above_bytes=LARGE_CHILD_BYTES)


def _response(run: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    """Run a task and return the frame of its response."""
    try:
        return encode(Success(run(*arguments)))
    except ServiceError as error:
        return encode(ServiceFailure.of(error))
    except Exception:  # noqa: BLE001 - the parent reports it
        return encode(Failure(traceback.format_exc()))
