"""Frames between the API and its child processes: tasks one way, results the other, over two pipes.

A frame is a pickled message, followed by its large byte strings, which are not pickled. Both ends are the same program,
and no other process has the pipes.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from common.errors import ServiceError

_COUNT: Final = struct.Struct("<Q")

BUFFER_BYTES_MIN: Final = 4 * 1024
"""Byte strings of at least this size are sent next to the pickle, which saves a copy at each end."""


class ComputeFailed(ServiceError):
    """A task raised an unexpected exception, or killed its process every time: a bug of ours."""


@dataclass(frozen=True, slots=True)
class Task:
    """A module-level function of this program, and its arguments."""

    function: Callable[..., Any]
    arguments: Sequence[Any]


class Success(NamedTuple):
    """The function returned ``value``."""

    value: Any


class Rejection(NamedTuple):
    """The function raised a ``ServiceError``, sent in parts because pickle cannot call its constructor."""

    kind: type[ServiceError]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @staticmethod
    def of(error: ServiceError) -> Rejection:
        """Convert from an error."""
        return Rejection(type(error), error.args, vars(error))

    def error(self) -> ServiceError:
        """Convert back to the error."""
        error = self.kind.__new__(self.kind, *self.arguments)
        vars(error).update(self.attributes)
        return error


Response: TypeAlias = Success | Rejection


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


def receive(stream: BinaryIO, *, models_module: str = "") -> Any:
    """Read one message. Raises ``EOFError`` if the other end has closed.

    ``models_module`` creates models when it is imported. It is imported when a message first names one of them: most
    messages do not, and importing all routes takes half a second and 50 MB.
    """
    (count,) = _COUNT.unpack(_exactly(stream, _COUNT.size))
    sizes = _exactly(stream, count * _COUNT.size)
    body, *buffers = [_exactly(stream, size) for (size,) in _COUNT.iter_unpack(sizes)]
    try:
        return pickle.loads(body, buffers=buffers)  # noqa: S301 - see above
    except AttributeError:
        if not models_module:
            raise
    __import__(models_module)
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - see above


async def receive_async(stream: asyncio.StreamReader) -> Any:
    """Read one message. Raises ``EOFError`` if the other end has closed."""
    (count,) = _COUNT.unpack(await stream.readexactly(_COUNT.size))
    sizes = await stream.readexactly(count * _COUNT.size)
    body, *buffers = [await stream.readexactly(size) for (size,) in _COUNT.iter_unpack(sizes)]
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - see above


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise EOFError
    return content
