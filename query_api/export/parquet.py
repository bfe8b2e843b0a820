"""Write Parquet files of spans piece by piece: row groups of bounded size, compressed with zstd.

Source: the Parquet format, https://parquet.apache.org/docs/file-format/ (the footer is written last, so that a file
can be streamed and a file that was broken off is not one).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from common.limits import MIB
from common.span import PROMOTED_TEXTS

ROW_GROUP_ROWS: Final = 100_000
ROW_GROUP_BYTES: Final = 16 * MIB
"""A row group ends at either, before compression."""

_FEW_VALUES: Final = frozenset({
    "trace_id", "trace_type", "span_type", "span_kind", "span_name", "status_code", "service", "model",
    "resource", "scope", *PROMOTED_TEXTS,
})  # fmt: skip
"""Columns that are written as dictionaries. That of long texts would hold each of them."""


class _Sink:
    """A file for Arrow: keeps what is written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._position = 0

    def write(self, data: Any) -> int:
        """Keep the bytes."""
        piece = bytes(data)
        self._pieces.append(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        """Return how much was written in all."""
        return self._position

    def flush(self) -> None:
        """Do nothing: the bytes are taken, not flushed."""

    def close(self) -> None:
        """Do nothing: the bytes stay until they are taken."""

    def take(self) -> bytes:
        """Return what was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class ParquetStream:
    """One file: each call returns the bytes that follow those before."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = _Sink()
        dictionaries = [name for name in schema.names if name in _FEW_VALUES]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"), schema, compression="zstd", use_dictionary=dictionaries or False
        )
        self._waiting: list[pa.Table] = []
        self._rows_count = 0
        self._bytes_count = 0

    def add(self, rows: pa.Table) -> bytes:
        """Append rows with the schema; return the bytes of the row groups that are complete."""
        self._waiting.append(rows)
        self._rows_count += rows.num_rows
        self._bytes_count += rows.nbytes
        if self._rows_count >= ROW_GROUP_ROWS or self._bytes_count >= ROW_GROUP_BYTES:
            self._write_row_group()
        return self._sink.take()

    def end(self, metadata: Mapping[str, str]) -> bytes:
        """Return the rest of the file: the last row group, and the footer with ``metadata``."""
        if self._rows_count:
            self._write_row_group()
        self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()
        return self._sink.take()

    def _write_row_group(self) -> None:
        table = pa.concat_tables(self._waiting)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._waiting, self._rows_count, self._bytes_count = [], 0, 0
