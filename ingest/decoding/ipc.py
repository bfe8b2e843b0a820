"""How a chunk goes to a process and comes back: frames over a pair of pipes.

A frame is two sizes, a head and a body. The head is pickled: both ends are the same program, and nobody else holds the
pipes. The body is an Arrow IPC stream, read where it lies; it is empty but for rows.
"""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa

from ingest.decoding.chunk import DecodedChunk

_SIZES: Final = Struct("<QQ")


class Failure(NamedTuple):
    """The answer when the process met a bug of ours: the trace, as text."""

    trace: str


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message. Raises ``OSError`` when nobody reads any more."""
    body: Any = b""
    if isinstance(message, DecodedChunk):
        body = _as_ipc(message.rows)
        message = message._replace(rows=None)
    head = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(_SIZES.pack(len(head), len(body)))
    stream.write(head)
    stream.write(body)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message. Raises ``EOFError`` when the other end has gone, be it in the middle."""
    head_size, body_size = _SIZES.unpack(_exactly(stream, _SIZES.size))
    message = pickle.loads(_exactly(stream, head_size))  # noqa: S301 - written by the function above, in a process of ours
    if isinstance(message, DecodedChunk):
        rows = pa.ipc.open_stream(pa.py_buffer(_exactly(stream, body_size))).read_all()
        message = message._replace(rows=rows)
    return message


def _as_ipc(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _exactly(stream: BinaryIO, size: int) -> bytearray:
    content = bytearray(size)
    if stream.readinto(content) != size:  # type: ignore[attr-defined] # typeshed's BinaryIO lacks what every buffered reader has
        raise EOFError
    return content
