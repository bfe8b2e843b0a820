"""A process that decodes chunks, started by ``decoder.py``, and the protocol between the two.

Two pipes are its only connection: the rules come first, then chunks; it sends one response to each. It ends when the
worker closes the pipe, so it cannot outlive its worker. It ignores signals, because the worker drains with it.

A frame is two sizes, a header and a body. The header is pickled: both ends are the same program, and no other process
holds the pipes. The body is an Arrow IPC stream, read in place; it is empty unless the message has rows.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from importlib.abc import MetaPathFinder
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa

from common.clickhouse.span_columns import warm_up
from common.limits import MIB
from common.memory import return_free_memory, tune_for_batches
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk

LARGE_CHILD_BYTES: Final = 140 * MIB
"""A child that decodes usual spans stays below it."""

_SIZES: Final = Struct("<QQ")


class DecodingFailure(NamedTuple):
    """The response when decoding raised, which is a defect: the traceback as text."""

    trace: str


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message. Raises ``OSError`` if the other end is closed."""
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
    """Read one message. Raises ``EOFError`` if the other end is closed, even in the middle of a message."""
    head_size, body_size = _SIZES.unpack(_exactly(stream, _SIZES.size))
    message = pickle.loads(_exactly(stream, head_size))  # noqa: S301 - written by `send` in a process of ours
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
    if stream.readinto(content) != size:  # type: ignore[attr-defined] # missing in typeshed
        raise EOFError
    return content


class _NoPandas(MetaPathFinder):
    """Keeps Arrow from importing pandas, which takes a second and 40 MB. It would, to check whether lists are pandas
    objects.
    """

    def find_spec(self, fullname: str, _path: Any, _target: Any = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def main() -> None:
    """Respond to chunks until the worker closes the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.meta_path.insert(0, _NoPandas())
    warm_up()
    tune_for_batches()
    requests, responses = (int(number) for number in sys.argv[1:3])
    try:
        serve(os.fdopen(requests, "rb"), os.fdopen(responses, "wb"))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the worker has ended; nobody needs what was read ahead


def serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Answer each chunk with its rows or a ``DecodingFailure``. Raises ``EOFError`` at the end of ``requests``."""
    rules: Rules = receive(requests)
    while True:
        chunk: Chunk = receive(requests)
        send(responses, _decoded(chunk, rules))
        del chunk
        return_free_memory(above_bytes=LARGE_CHILD_BYTES)


def _decoded(chunk: Chunk, rules: Rules) -> Any:
    try:
        return decode_chunk(chunk, rules)
    except Exception:  # noqa: BLE001 - reported to the worker, which decides
        return DecodingFailure(traceback.format_exc())
