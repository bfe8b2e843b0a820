"""Files that an interrupted export leaves, and what it needs to go on (contract §9).

``FILE.partial`` holds the spans of all finished parts, ``FILE.partial.json`` says how many bytes and spans these are
and where the next part begins. A part is kept as a whole or not at all: the state is replaced after its bytes are on
the disk, so bytes beyond the state are those of a part that was not finished, and are cut off.

Parts of Parquet are files of their own, ``FILE.partial.00001`` and so on, which ``join_parts`` joins.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from common.files import sync_directory
from query_api.export.parquet import ParquetStream

VERSION: Final = 1
READ_BYTES: Final = 1024 * 1024
TAIL_BYTES: Final = 256 * 1024
"""More than the size of the last line of a part, which is the summary and not part of the file."""


class PartialRefused(Exception):
    """The files of an interrupted export cannot be used; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class ExportState:
    """What is finished. ``request`` are the parameters of the export, ``cursor`` is where the next part begins."""

    request: Mapping[str, str]
    rows: int = 0
    bytes: int = 0
    parts: int = 0
    cursor: str | None = None
    is_complete: bool = False
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class PartialPaths:
    """The names of the files that belong to the file of an export."""

    target: Path

    @property
    def data(self) -> Path:
        """What is finished of the export, or the beginning of the names of its parts."""
        return self.target.with_name(f"{self.target.name}.partial")

    @property
    def state(self) -> Path:
        """The file of the ``ExportState``."""
        return self.target.with_name(f"{self.target.name}.partial.json")

    @property
    def checksum(self) -> Path:
        """The file of the SHA-256 of the finished export."""
        return self.target.with_name(f"{self.target.name}.sha256")

    def part(self, number: int) -> Path:
        """Return the file of a part of Parquet; the first is 1."""
        return self.data.with_name(f"{self.data.name}.{number:05}")

    def parts(self) -> list[Path]:
        """Return the files of all parts of Parquet, those that are not finished included."""
        return sorted(
            path for path in self.data.parent.glob(f"{_escaped(self.data.name)}.*") if path.suffix[1:].isdigit()
        )

    def prepare(self, *, is_restart: bool, is_overwrite: bool) -> None:
        """Check that the file may be written; discard what an interrupted export left if ``is_restart``.

        Raises ``PartialRefused``.
        """
        if self.target.exists() and not is_overwrite:
            raise PartialRefused(f"{self.target} exists; --overwrite replaces it.")
        if is_restart:
            self.discard()

    def discard(self) -> None:
        """Delete everything that an interrupted export left."""
        for path in (self.state, self.data, *self.parts()):
            path.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


@contextmanager
def locked(paths: PartialPaths) -> Iterator[None]:
    """Keep other exports from writing the same file. Raises ``PartialRefused`` if one does."""
    with paths.data.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PartialRefused(f"another export is writing {paths.data}.") from None
        yield


def read_state(paths: PartialPaths, request: Mapping[str, str]) -> ExportState:
    """Return the state of an interrupted export, or a new one. Raises ``PartialRefused``."""
    if not paths.state.exists():
        return ExportState(request)
    again = "run it again with --restart to begin anew."
    try:
        state = ExportState(**json.loads(paths.state.read_text()))
    except (ValueError, TypeError) as exc:
        raise PartialRefused(f"{paths.state} cannot be read ({exc}); {again}") from exc
    if state.version != VERSION or dict(state.request) != dict(request):
        raise PartialRefused(f"{paths.state} belongs to an export with other options; {again}")
    if paths.data.stat().st_size < state.bytes:
        raise PartialRefused(f"{paths.data} is shorter than {paths.state} says; {again}")
    return state


def write_state(paths: PartialPaths, state: ExportState) -> None:
    """Replace the state; return when it is on the disk."""
    replacement = paths.state.with_name(f"{paths.state.name}.new")
    with replacement.open("w") as file:
        file.write(json.dumps(asdict(state)))
        file.flush()
        os.fsync(file.fileno())
    replacement.replace(paths.state)
    sync_directory(paths.state.parent)


class GrowingFile:
    """``FILE.partial`` of an export of lines: finished parts, and the part that is received now."""

    def __init__(self, path: Path, bytes_count: int) -> None:
        self._descriptor = os.open(path, os.O_RDWR)
        self._digest = hashlib.sha256()
        self.bytes_count = 0
        while self.bytes_count < bytes_count:
            read = os.read(self._descriptor, min(READ_BYTES, bytes_count - self.bytes_count))
            self._digest.update(read)
            self.bytes_count += len(read)
        self.begin_part()

    def begin_part(self) -> None:
        """Cut off what is not of a finished part."""
        os.ftruncate(self._descriptor, self.bytes_count)
        os.lseek(self._descriptor, self.bytes_count, os.SEEK_SET)
        self._tail = b""
        self._part_bytes = 0
        self._part_digest = self._digest.copy()

    def receive(self, piece: bytes) -> None:
        """Write a piece of the part; its end is kept back, because the last line is not of the file."""
        self._tail += piece
        if len(self._tail) > 2 * TAIL_BYTES:
            self._write(self._tail[:-TAIL_BYTES])
            self._tail = self._tail[-TAIL_BYTES:]

    def end_part(self) -> Any:
        """Write the rest of the part; return its last line as JSON, ``None`` if it is not JSON."""
        lines, _, last = self._tail.removesuffix(b"\n").rpartition(b"\n")
        summary = _json(last) if self._tail.endswith(b"\n") else None
        if summary is not None:
            self._write(lines + b"\n" if lines or self._part_bytes else b"")
            os.fsync(self._descriptor)
            self.bytes_count += self._part_bytes
            self._digest = self._part_digest
        return summary

    def end_file(self) -> None:
        """Write the rest of a part that is a file of its own."""
        self._write(self._tail)
        os.fsync(self._descriptor)

    def hexdigest(self) -> str:
        """Return the SHA-256 of all finished parts."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._part_digest.update(data)
        self._part_bytes += len(data)


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


STEP_ROWS: Final = 1_000
"""Rows that are written at once, whatever the row groups of the parts are: so the same rows always become the same
bytes, however often the export was interrupted."""


def join_parts(parts: Sequence[Path], target: Path) -> str:
    """Write the rows of all parts of a Parquet export to ``target``, which is on the disk then; return its SHA-256.

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
