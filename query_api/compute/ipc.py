"""Frames between the API and its child processes: tasks one way, results the other, over one socket.

A frame is a pickled message, followed by its large byte strings, which are not pickled. Both ends are the same program,
and no other process has the socket.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from common.errors import ServiceError

_HEAD: Final = Struct("<QI")
_SIZE: Final = Struct("<Q")

BUFFER_BYTES_MIN: Final = 4 * 1024
"""Byte strings of at least this size are sent next to the pickle, which saves a copy at each end."""


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


class Failure(NamedTuple):
    """The function raised anything else, a bug of ours. ``trace`` is the traceback as text."""

    trace: str


Response: TypeAlias = Success | Rejection | Failure


def packed(value: Any) -> Any:
    """Return ``value``, marked to be sent next to the pickle if it is a large byte string."""
    return pickle.PickleBuffer(value) if isinstance(value, bytes) and len(value) >= BUFFER_BYTES_MIN else value


def encode(message: Any) -> list[Any]:
    """Return the parts of a frame in the order of writing."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = b"".join(_SIZE.pack(view.nbytes) for view in views)
    return [_HEAD.pack(len(body), len(views)) + sizes + body, *views]


def decode(parts: Sequence[bytes]) -> Any:
    """Return the message of a complete frame."""
    return receive(BytesIO(b"".join(parts)))


def send(stream: BinaryIO, parts: Sequence[Any]) -> None:
    """Write one frame. Raises ``OSError`` if the other end has closed."""
    for part in parts:
        stream.write(part)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message. Raises ``EOFError`` if the other end has closed."""
    body_size, count = _HEAD.unpack(_exactly(stream, _HEAD.size))
    sizes = _exactly(stream, count * _SIZE.size)
    body = _exactly(stream, body_size)
    buffers = [_exactly(stream, size) for (size,) in _SIZE.iter_unpack(sizes)]
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - see above


async def receive_async(stream: asyncio.StreamReader) -> Any:
    """Read one message. Raises ``EOFError`` if the other end has closed."""
    body_size, count = _HEAD.unpack(await stream.readexactly(_HEAD.size))
    sizes = await stream.readexactly(count * _SIZE.size)
    body = await stream.readexactly(body_size)
    buffers = [await stream.readexactly(size) for (size,) in _SIZE.iter_unpack(sizes)]
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - see above


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise EOFError
    return content
