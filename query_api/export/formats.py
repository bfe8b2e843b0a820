"""The formats of an export: JSON Lines, CSV and Parquet (contract §9).

An ``Encoder`` is made for one export. It says which columns of ``spans`` to read, and turns chunks of a walk into the
bytes of a file, piece by piece. Its methods that take spans block: they run in a thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from common.errors import InvalidInput
from common.json_values import NUMBER_GRAMMAR
from query_api.export.columns import COLUMNS, SUMMARY_COLUMNS, Column, columns_of, schema_of
from query_api.export.parquet import ParquetStream
from query_api.export.span_tables import row_columns_of, table_of_rows
from query_api.pages.walk import WalkedSpans
from query_api.spans.rows import Layout, row_columns

SUMMARY_NAME: Final = "export"
"""The member of the last line that holds the summary, and in Parquet the key of the metadata."""


class ExportFormat(StrEnum):
    """The format of a file of spans."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Encoder(ABC):
    """One file. ``begin``, then ``add`` for each chunk, then ``end``: each returns the bytes that follow."""

    content_type: ClassVar[str]

    @abstractmethod
    def columns(self, members: int) -> tuple[str, ...]:
        """Return what to read of ``spans``, as ``walk.ColumnsOf``."""

    def begin(self) -> bytes:
        """Return the beginning of the file."""
        return b""

    @abstractmethod
    def add(self, chunk: WalkedSpans) -> bytes:
        """Return the bytes of these spans, as far as they are complete."""

    def end(self, summary: bytes, *, is_asked_for: bool) -> bytes:
        """Return the end of the file. ``summary`` is a JSON object; it is written if ``is_asked_for``."""
        return b'{"%b":%b}\n' % (SUMMARY_NAME.encode(), summary) if is_asked_for else b""


def encoder_of(export_format: ExportFormat, names: Sequence[str]) -> Encoder:
    """Return the encoder of a format, with the columns of these names, or without names those of the format.

    Raises ``InvalidInput`` for an unknown column, and for columns of JSON Lines.
    """
    match export_format:
        case ExportFormat.JSONL:
            if names:
                raise InvalidInput("columns: a line of format jsonl is a whole span; allowed for csv and parquet.")
            return JsonLines()
        case ExportFormat.CSV:
            return Csv(columns_of(names or SUMMARY_COLUMNS))
        case ExportFormat.PARQUET:
            return ParquetFile(columns_of(names or list(COLUMNS)))


class JsonLines(Encoder):
    """A span object on each line, as ``/spans/query`` returns it."""

    content_type = "application/x-ndjson"

    def columns(self, members: int) -> tuple[str, ...]:
        """Return the columns of the members."""
        return row_columns(members)

    def add(self, chunk: WalkedSpans) -> bytes:
        """Return one line for each span. The JSON of a span has no line break."""
        lines = [span.json for span in Layout.of(chunk.rows).spans(chunk.sums)]
        lines.append(b"")
        return b"\n".join(lines)


class _Columnar(Encoder):
    """A format with chosen columns."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._read = row_columns_of(columns)

    def columns(self, members: int) -> tuple[str, ...]:  # noqa: ARG002 - the columns are the same for all spans
        """Return what the chosen columns need."""
        return self._read


FORMULA: Final = "^[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""How a cell begins that spreadsheets may take for a formula; the last four are full-width `=`, `+`, `-` and `@`."""


class Csv(_Columnar):
    """A line of names, then a line for each span (RFC 4180, with LF). Null is empty, an empty text is ``""``.

    A text that a spreadsheet could run as a formula gets an apostrophe in front of it, unless it is a number.
    """

    content_type = "text/csv; charset=utf-8; header=present"

    def begin(self) -> bytes:
        """Return the line of names."""
        return _csv(schema_of(self._columns).empty_table(), has_header=True)

    def add(self, chunk: WalkedSpans) -> bytes:
        """Return one line for each span."""
        table = table_of_rows(chunk.rows, chunk.sums, self._columns)
        return _csv(pa.table([_cells(column) for column in table.columns], table.column_names), has_header=False)


class ParquetFile(_Columnar):
    """A Parquet file; the summary is always in its metadata."""

    content_type = "application/vnd.apache.parquet"

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__(columns)
        self._stream = ParquetStream(schema_of(columns))

    def add(self, chunk: WalkedSpans) -> bytes:
        """Return the row groups that are complete."""
        return self._stream.add(table_of_rows(chunk.rows, chunk.sums, self._columns))

    def end(self, summary: bytes, *, is_asked_for: bool) -> bytes:  # noqa: ARG002 - it does no harm there
        """Return the last row group and the footer."""
        return self._stream.end({SUMMARY_NAME: summary.decode()})


def _csv(table: pa.Table, *, has_header: bool) -> bytes:
    sink = pa.BufferOutputStream()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=has_header))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as RFC 3339, and texts so that none is a formula."""
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
    if not pa.types.is_string(column.type):
        return column
    is_formula = pc.match_substring_regex(column, FORMULA)
    if not pc.any(is_formula).as_py():
        return column
    is_number = pc.match_substring_regex(column, f"^(?:{NUMBER_GRAMMAR})$")
    quoted = pc.binary_join_element_wise("'", column, "")
    return pc.if_else(pc.and_(is_formula, pc.invert(is_number)), quoted, column)
