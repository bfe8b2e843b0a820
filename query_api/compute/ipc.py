"""How a task goes to a child process and its result comes back: frames over one socket.

A frame is a pickled message and the large byte strings of it, which are not pickled but follow it as they are. Both ends
are the same program, and nobody else holds the socket.
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
"""Byte strings from this size on are sent beside the pickle: it costs one copy less at each end."""


@dataclass(frozen=True, slots=True)
class Task:
    """A function of a module of this program, and what it is called with."""

    function: Callable[..., Any]
    arguments: Sequence[Any]


class Success(NamedTuple):
    """What the function returned."""

    value: Any


class Rejection(NamedTuple):
    """The ``ServiceError`` that the function raised, in parts: errors have constructors that pickle does not know."""

    kind: type[ServiceError]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @staticmethod
    def of(error: ServiceError) -> Rejection:
        """Take an error apart."""
        return Rejection(type(error), error.args, vars(error))

    def error(self) -> ServiceError:
        """Put the error together again."""
        error = self.kind.__new__(self.kind, *self.arguments)
        vars(error).update(self.attributes)
        return error


class Failure(NamedTuple):
    """Anything else that the function raised: a bug of ours. ``trace`` is the traceback as text."""

    trace: str


Response: TypeAlias = Success | Rejection | Failure


def packed(value: Any) -> Any:
    """``value``, marked to be sent beside the pickle if it is a large byte string."""
    return pickle.PickleBuffer(value) if isinstance(value, bytes) and len(value) >= BUFFER_BYTES_MIN else value


def encode(message: Any) -> list[Any]:
    """Return the parts of a frame, in the order in which they are written."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = b"".join(_SIZE.pack(view.nbytes) for view in views)
    return [_HEAD.pack(len(body), len(views)) + sizes + body, *views]


def decode(parts: Sequence[bytes]) -> Any:
    """Return the message of a frame that is there as a whole."""
    return receive(BytesIO(b"".join(parts)))


def send(stream: BinaryIO, parts: Sequence[Any]) -> None:
    """Write one frame. Raises ``OSError`` when the other end has gone."""
    for part in parts:
        stream.write(part)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message. Raises ``EOFError`` when the other end has gone."""
    body_size, count = _HEAD.unpack(_exactly(stream, _HEAD.size))
    sizes = _exactly(stream, count * _SIZE.size)
    body = _exactly(stream, body_size)
    return pickle.loads(body, buffers=[_exactly(stream, size) for (size,) in _SIZE.iter_unpack(sizes)])  # noqa: S301 - see above


async def receive_async(stream: asyncio.StreamReader) -> Any:
    """Read one message. Raises ``EOFError`` when the other end has gone."""
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
