"""What a decoder process runs. It imports only what decoding needs: settings, metrics and logs take 20 MiB."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pyarrow as pa

from common.clickhouse.span_columns import warm_up
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk


def prepare(niceness: int) -> None:
    """Prepare the process: ``niceness`` is what it has beyond that of its parent."""
    os.nice(niceness)
    warm_up()


def run(chunk: Chunk, *, rules: Rules) -> tuple[DecodedChunk, Any]:
    """Decode a chunk."""
    return to_parts(decode_chunk(chunk, rules))


def to_parts(decoded: DecodedChunk) -> tuple[DecodedChunk, Any]:
    """Return the chunk without its rows, and these as an Arrow IPC stream, which is not pickled."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, decoded.rows.schema) as writer:
        writer.write_table(decoded.rows)
    return decoded._replace(rows=None), pickle.PickleBuffer(sink.getvalue())
