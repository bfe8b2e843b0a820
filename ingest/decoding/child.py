"""What a decoder process runs. It imports only what decoding needs: settings, metrics and logs take 20 MiB."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pyarrow as pa

from common.clickhouse.span_columns import warm_up
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from ingest.joining.chunk import JoiningChunk, joined_rows


def prepare(niceness: int) -> None:
    """Prepare the process: ``niceness`` is what it has beyond that of its parent."""
    os.nice(niceness)
    warm_up()


def run(chunk: Chunk | JoiningChunk, *, rules: Rules) -> Any:
    """Return the parts of a decoded chunk, or the rows of joined spans as ``streamed`` does."""
    if isinstance(chunk, JoiningChunk):
        return streamed(joined_rows(chunk, rules.prices))
    return to_parts(decode_chunk(chunk, rules))


def to_parts(decoded: DecodedChunk) -> tuple[DecodedChunk, Any, Any]:
    """Return the chunk without its rows and events, and these as ``streamed`` does."""
    return decoded._replace(rows=None, events=None), streamed(decoded.rows), streamed(decoded.events)


def streamed(rows: pa.Table) -> Any:
    """Return rows as an Arrow IPC stream, which is not pickled."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return pickle.PickleBuffer(sink.getvalue())
