"""Join the parts of a Parquet export to one file, in constant memory.

The rows are written in steps of ``STEP_ROWS``, whatever the row groups of the parts are: so the same rows always become
the same bytes, however often the export was interrupted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from query_api.export.parquet import ParquetStream

STEP_ROWS: Final = 1_000


def join_parts(parts: Sequence[Path], target: Path) -> str:
    """Write the rows of all parts to ``target``, which is on the disk then; return its SHA-256.

    The metadata of the parts, which says where they begin and end, is left out.
    """
    digest = hashlib.sha256()
    stream = ParquetStream(pq.read_schema(parts[0]).remove_metadata())
    with target.open("wb") as file:
        for piece in _pieces(stream, parts):
            file.write(piece)
            digest.update(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _pieces(stream: ParquetStream, parts: Iterable[Path]) -> Iterator[bytes]:
    for rows in _in_steps(batch for part in parts for batch in _batches(part)):
        yield stream.add(rows)
    yield stream.end({})


def _batches(part: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(part, pre_buffer=False) as file:
        yield from file.iter_batches(batch_size=STEP_ROWS)


def _in_steps(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Divide rows anew, into tables of ``STEP_ROWS``; only the last is shorter."""
    waiting: list[pa.RecordBatch] = []
    rows_count = 0
    for batch in batches:
        waiting.append(batch)
        rows_count += batch.num_rows
        while rows_count >= STEP_ROWS:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, STEP_ROWS).combine_chunks()
            waiting, rows_count = table.slice(STEP_ROWS).to_batches(), rows_count - STEP_ROWS
    if rows_count:
        yield pa.Table.from_batches(waiting).combine_chunks()
