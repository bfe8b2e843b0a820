"""Parquet files, one for each batch, in a directory or an S3 bucket (contract §9).

A project names a folder below its own one, which has its id, in the directory or the bucket that the settings allow.

A file appears complete or not at all: a directory gets it by renaming, S3 by completing the upload. Its name is the id
of the batch, so a retry replaces it. The columns are those of exports (``query_api/export/columns.py``).
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

import pyarrow as pa
from pyarrow import fs, parquet

from common.errors import InvalidInput
from common.files import sync_directory
from query_api.delivery.targets.target import DeliveryBatch, TargetUnavailable
from query_api.export.columns import table_of_objects

PARTIAL: Final = ".partial"
"""The folder of files that are being written. Readers of data sets skip names that begin with a dot."""

LEFT_OVER_S: Final = 86_400
"""The age from which a file in that folder is left over from a process that was killed."""

_NOT_NAMES: Final = frozenset({"", ".", "..", PARTIAL})
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_CONNECT_S: Final = 5.0
_ALLOWED: Final = "allowed: file:///folder and s3://bucket/prefix"


@dataclass(frozen=True, slots=True)
class ParquetPlaces:
    """Where a project may write files (``DeliverySettings``): below the folder or the prefix that has its id."""

    project_id: UUID
    directory: Path | None
    """Holds the folders of all projects; ``None`` if ``file:`` addresses are not allowed."""

    s3_buckets: tuple[str, ...] = ()
    """``s3:`` addresses are in one of these buckets."""

    s3_endpoint: str | None = None
    s3_region: str | None = None
    timeout_s: float = 30.0


class Folder(Protocol):
    """Where files appear. Its methods block, and raise ``OSError``."""

    def put(self, name: str, content: pa.Buffer, /) -> None:
        """Write a file, or replace it; other processes see it when it is complete."""
        ...

    def check(self) -> str | None:
        """Return why nothing can be written now, or ``None``."""
        ...


def folder_of(url: str, places: ParquetPlaces, *, at: str = "target.url") -> Folder:
    """Return the folder with this address. Opens nothing. ``at`` is the path of the address in the request.

    Raises ``InvalidInput`` if this is no address of a folder, or if the settings do not allow it.
    """
    parts = urlsplit(url)
    if parts.query or parts.fragment or parts.username is not None:
        raise InvalidInput(f"{at}: only a host and a path are allowed in '{url[:200]}'; {_ALLOWED}.")
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return _directory(_names(parts.path, at), places, at)
    if parts.scheme == "s3":
        return _bucket(parts.netloc, _names(parts.path, at), places, at)
    raise InvalidInput(f"{at}: '{url[:200]}' is not the address of a folder; {_ALLOWED}.")


def _names(path: str, at: str) -> list[str]:
    """Return the names of a path, which leads down from the folder of the project whatever it begins with."""
    plain = unquote(path).strip("/")
    names = plain.split("/") if plain else []
    if "\0" in plain or not _NOT_NAMES.isdisjoint(names):
        raise InvalidInput(f"{at}: '{plain[:200]}' is not a path of names; it has an empty or dotted part.")
    return names


def _directory(names: Sequence[str], places: ParquetPlaces, at: str) -> Folder:
    if places.directory is None:
        raise InvalidInput(
            f"{at}: files are not allowed here. The setting CLEARSPAN_DELIVERY__PARQUET_DIRECTORY names the "
            "directory that has a folder for each project."
        )
    own = places.directory / str(places.project_id)
    return Directory(own.joinpath(*names), own)


def _bucket(bucket: str, names: Sequence[str], places: ParquetPlaces, at: str) -> Folder:
    if not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"{at}: '{bucket[:200]}' is not the name of an S3 bucket; {_ALLOWED}.")
    if bucket not in places.s3_buckets:
        raise InvalidInput(
            f"{at}: the bucket '{bucket}' is not one of those that the setting CLEARSPAN_DELIVERY__S3_BUCKETS allows."
        )
    return Bucket(bucket, "/".join([str(places.project_id), *names]), places)


class Directory:
    """A directory. It is created with the first file, at or below ``own``, whose parent exists."""

    def __init__(self, path: Path, own: Path) -> None:
        self._path = path
        self._own = own
        self._is_swept = False

    def put(self, name: str, content: pa.Buffer, /) -> None:
        """Write the file below ``PARTIAL`` and rename it. Raises ``OSError``."""
        self._check_is_below()
        partial = self._path / PARTIAL
        partial.mkdir(parents=True, exist_ok=True)
        if not self._is_swept:
            self._sweep(partial)
        unfinished = partial / f"{name}.{uuid4().hex}"
        try:
            with unfinished.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._path / name)
        finally:
            unfinished.unlink(missing_ok=True)
        sync_directory(self._path)

    def check(self) -> str | None:
        """Return why the directory, or the one that it is created in, is not writable."""
        self._check_is_below()
        nearest = next(path for path in (self._path, *self._path.parents) if path.exists() or path == self._own.parent)
        if not nearest.is_dir():
            return f"'{nearest}' is not a directory."
        return None if os.access(nearest, os.W_OK | os.X_OK) else f"The directory '{nearest}' is not writable."

    def _check_is_below(self) -> None:
        """Raise ``OSError`` if a symbolic link leads out of the folder of the project."""
        if not self._path.resolve().is_relative_to(self._own.parent.resolve() / self._own.name):
            raise PermissionError(f"'{self._path}' leads out of the folder of the project")

    def _sweep(self, partial: Path) -> None:
        before_s = time.time() - LEFT_OVER_S
        for file in partial.iterdir():
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < before_s:
                    file.unlink()
        self._is_swept = True


class Bucket:
    """A prefix of names in an S3 bucket. Credentials are those of the process."""

    def __init__(self, bucket: str, prefix: str, places: ParquetPlaces) -> None:
        self._bucket = bucket
        self._path = f"{bucket}/{prefix}"
        self._places = places
        self._opened: fs.S3FileSystem | None = None

    def put(self, name: str, content: pa.Buffer, /) -> None:
        """Upload the file: in one request, or in parts if it is large.

        Closing completes the upload, unless a part has failed in the background: without `background_writes`, Arrow
        would complete it with the parts that it has.
        """
        with self._s3().open_output_stream(f"{self._path}/{name}") as file:
            file.write(content)

    def check(self) -> str | None:
        """Return why the bucket cannot be found."""
        found = self._s3().get_file_info(self._bucket)
        return None if found.type == fs.FileType.Directory else f"There is no bucket '{self._bucket}'."

    def _s3(self) -> fs.S3FileSystem:
        if self._opened is None:
            self._opened = fs.S3FileSystem(
                endpoint_override=self._places.s3_endpoint,
                region=self._places.s3_region,
                connect_timeout=min(_CONNECT_S, self._places.timeout_s),
                request_timeout=self._places.timeout_s,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
                background_writes=True,
                allow_delayed_open=True,
            )
        return self._opened


class ParquetTarget:
    """Writes each batch to a file of its own. It has one thread, so that a slow folder delays no other target."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parquet")

    async def deliver(self, batch: DeliveryBatch, /) -> None:
        """Return when the file is there. Raises ``TargetUnavailable``."""
        if not batch.spans:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)
        except OSError as exc:
            raise TargetUnavailable(f"The file cannot be written: {_reason(exc)}") from exc

    async def check(self) -> str | None:
        """Return why the folder cannot be written to now, or ``None``."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._folder.check)
        except OSError as exc:
            return _reason(exc)

    async def close(self) -> None:
        """Start no further file; one that is being written is finished."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _write(self, batch: DeliveryBatch) -> None:
        sink = pa.BufferOutputStream()
        parquet.write_table(table_of_objects(batch.spans), sink, compression="zstd")
        self._folder.put(file_name(batch.id), sink.getvalue())


def file_name(batch_id: str) -> str:
    """Return the name of the file of a batch."""
    plain = _PLAIN_NAME.fullmatch(batch_id)
    return f"{batch_id if plain else sha256(batch_id.encode()).hexdigest()}.parquet"


def _reason(exc: OSError) -> str:
    return f"{exc.strerror or str(exc) or type(exc).__name__}."[:500]
