"""``clearspan export``: write all spans of a query to a file, part by part.

The same command resumes an export that was interrupted.
"""

from __future__ import annotations

import asyncio
import errno
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Protocol

import pyarrow.parquet as pq

from clearspan.client.connection import ApiClient, RequestFailed, WrongUsage, api_command
from clearspan.client.output import ProgressLine, note, print_objects, show_progress
from clearspan.client.partial import (
    ExportState,
    GrowingFile,
    PartialPaths,
    PartialRefused,
    join_parts,
    locked,
    read_state,
    write_state,
)
from clearspan.client.requests import filtering_of, windowing_of
from clearspan.command import Json, Operand, Option
from clearspan.console import fail
from clearspan.options import SpanOptions, WindowOptions
from common.files import sync_directory

DESCRIPTION: Final = """\
Write all spans of a query to a file, newest first, each once. An export that was interrupted, whatever by, goes on when
it is run again with the same options; the file is then the same as without the interruption. FILE appears when it is
complete, with its SHA-256 in FILE.sha256. Until then there are FILE.partial and FILE.partial.json.
"""
EXAMPLES: Final = """\
examples
  clearspan export spans.jsonl
  clearspan export spans.parquet --oldest 2026-01-01 --newest 2026-02-01
  clearspan export failed.csv --errors --last 7d
  clearspan export dear.jsonl span_type is chat and cost gt 0.01
  clearspan export costs.csv --columns trace_id,start_time,model,cost,session
  clearspan export saved.jsonl --query failed-answers

check a file
  sha256sum --check spans.parquet.sha256

Conditions are those of `clearspan query`. The format follows from the ending of FILE, or from --format. docs/export.md
lists the columns.
"""
PART_SPANS: Final = 100_000
RETRY_S: Final = 300.0
"""How long an API may be away before the export gives up; what it has written stays."""

RETRY_DELAY_MIN_S: Final = 0.5
RETRY_DELAY_MAX_S: Final = 15.0
RECEIVE_BYTES: Final = 256 * 1024
SPANS: Final = "/spans/export"
FORMATS: Final = ("jsonl", "csv", "parquet")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class ExportOptions(NamedTuple):
    """The file, and how to write it."""

    file: Annotated[Path, Operand("FILE", "the file to write", type=Path)]
    export_format: Annotated[
        str | None, Option(None, "default: the ending of FILE", flag="--format", choices=("jsonl", "csv", "parquet"))
    ] = None
    order: Annotated[
        str | None, Option(None, "order of start_time; default descending", choices=("ascending", "descending"))
    ] = None
    columns: Annotated[str | None, Option("A,B", "the columns of csv or parquet, such as span_id,cost")] = None
    restart: Annotated[bool, Option(None, "discard what an interrupted export has left")] = False
    overwrite: Annotated[bool, Option(None, "replace FILE if it exists")] = False


@api_command(description=DESCRIPTION, epilog=EXAMPLES)
async def export(
    api: ApiClient, *, chosen: ExportOptions, spans: SpanOptions, window: WindowOptions, as_json: Json = False
) -> int:
    """Write the spans to the file; return 0 once it is complete."""
    request = _request_of(chosen, await filtering_of(api, spans), window)
    paths = PartialPaths(chosen.file)
    try:
        paths.prepare(is_restart=chosen.restart, is_overwrite=chosen.overwrite)
        with locked(paths), _kept(paths):
            return await _run(api, paths, request, as_json=as_json)
    except PartialRefused as exc:
        return fail(str(exc))
    except OSError as exc:
        return fail(_of_disk(exc, paths))


def _request_of(chosen: ExportOptions, of_spans: Mapping[str, Any], window: WindowOptions) -> dict[str, str]:
    """Return the parameters of the route; ``of_spans`` are the members of a request. Raises ``WrongUsage``."""
    filtering = of_spans.get("filtering")
    options = {
        "format": chosen.export_format or _format_of(chosen.file),
        "filter": None if filtering is None else json.dumps(filtering),
        "query": of_spans.get("query_ref", {}).get("slug"),
        **windowing_of(window),
        "order": chosen.order,
        "columns": chosen.columns,
    }
    return {name: value for name, value in options.items() if value is not None}


def _format_of(file: Path) -> str:
    ending = file.suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise WrongUsage(f"the ending of {file.name!r} is no format; name one with --format: {', '.join(FORMATS)}.")
    return ending


def _of_disk(error: OSError, paths: PartialPaths) -> str:
    name = error.filename or paths.data
    if error.errno in _FULL:
        return f"{name}: the disk is full. Make space and run the same command again: it goes on where it stopped."
    return f"{name}: {error.strerror}."


async def _run(api: ApiClient, paths: PartialPaths, request: Mapping[str, str], *, as_json: bool) -> int:
    state = read_state(paths, request)
    if state.rows:
        note(f"Going on after {state.rows:,} spans.")
    began_s, rows_before = time.monotonic(), state.rows
    receiver = PartFiles(paths) if request["format"] == "parquet" else Lines(paths, state)
    with closing(receiver), show_progress("exporting") as progress:
        progress.advance(state.rows)
        download = Download(api, receiver, progress)
        while not state.is_complete:
            following = await download.next_part(state)
            progress.advance(following.rows - state.rows)
            state = following
            write_state(paths, state)
        digest = await asyncio.to_thread(receiver.finish, state)
    bytes_count = _finish(paths, digest)
    if as_json:
        print_objects([{"file": str(paths.target), "count": state.rows, "bytes": bytes_count, "sha256": digest}])
        return 0
    seconds = time.monotonic() - began_s
    rate = (state.rows - rows_before) / max(seconds, 0.001)
    spans = "1 span" if state.rows == 1 else f"{state.rows:,} spans"
    note(f"{paths.target}: {spans}, {bytes_count:,} bytes, in {seconds:.1f} s ({rate:,.0f} spans/s)")
    return 0


@contextmanager
def _kept(paths: PartialPaths) -> Iterator[None]:
    """Keep what was written if a part is finished, and say so on Ctrl-C; otherwise delete it."""
    try:
        yield
    except asyncio.CancelledError:
        if paths.state.exists():
            note(f"Interrupted. {paths.data} stays; the same command goes on.")
        raise
    finally:
        if not paths.state.exists():
            paths.discard()


def _finish(paths: PartialPaths, digest: str) -> int:
    """Give the file its name and its checksum; return its size."""
    new = paths.checksum.with_name(f"{paths.checksum.name}.new")
    new.write_text(f"{digest}  {paths.target.name}\n")
    bytes_count = paths.data.stat().st_size
    paths.data.replace(paths.target)
    new.replace(paths.checksum)
    paths.discard()
    sync_directory(paths.target.parent)
    return bytes_count


class Receiver(Protocol):
    """Where the parts of an export go."""

    def begin(self, state: ExportState) -> None:
        """Begin the part after ``state``, also if one was begun before."""

    def receive(self, piece: bytes) -> None:
        """Write a piece of the part."""

    def end(self, state: ExportState) -> Any:
        """Return the summary of the part, whose bytes are on the disk then; ``None`` if it is not complete."""

    def bytes_count(self) -> int:
        """Return the bytes of the finished parts in ``FILE.partial``."""

    def finish(self, state: ExportState) -> str:
        """Make ``FILE.partial`` the whole file; return its SHA-256."""

    def close(self) -> None:
        """Close the files."""


class Lines:
    """Parts of JSON Lines or CSV, one after the other in ``FILE.partial``."""

    def __init__(self, paths: PartialPaths, state: ExportState) -> None:
        self._file = GrowingFile(paths.data, state.bytes)
        self._is_header_left_out = state.request["format"] == "csv"
        self._skips = False

    def begin(self, state: ExportState) -> None:
        """Cut off what is not of a finished part."""
        self._file.begin_part()
        self._skips = self._is_header_left_out and state.parts > 0

    def receive(self, piece: bytes) -> None:
        """Write a piece; the header line of a later part is left out."""
        if self._skips:
            _, newline, piece = piece.partition(b"\n")
            self._skips = not newline
        self._file.receive(piece)

    def end(self, _state: ExportState) -> Any:
        """Return the summary, which is the last line that was received and not part of the file."""
        last = self._file.end_part()
        return last.get("export") if isinstance(last, dict) else None

    def bytes_count(self) -> int:
        """Return the size of the finished parts."""
        return self._file.bytes_count

    def finish(self, _state: ExportState) -> str:
        """Return the checksum, which was computed on the way."""
        self._file.begin_part()
        return self._file.hexdigest()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class PartFiles:
    """Parts of Parquet, each a file."""

    def __init__(self, paths: PartialPaths) -> None:
        self._paths = paths
        self._part: GrowingFile | None = None

    def begin(self, state: ExportState) -> None:
        """Begin the file of a part anew."""
        self.close()
        path = self._paths.part(state.parts + 1)
        path.write_bytes(b"")
        self._part = GrowingFile(path, 0)

    def receive(self, piece: bytes) -> None:
        """Write a piece."""
        assert self._part is not None  # noqa: S101 - a part was begun
        self._part.receive(piece)

    def end(self, state: ExportState) -> Any:
        """Return the summary in the metadata of the file."""
        assert self._part is not None  # noqa: S101 - a part was begun
        self._part.end_file()
        self.close()
        metadata = pq.read_metadata(self._paths.part(state.parts + 1)).metadata or {}
        return json.loads(metadata[b"export"])

    def bytes_count(self) -> int:
        """Return 0: ``FILE.partial`` is made at the end."""
        return 0

    def finish(self, state: ExportState) -> str:
        """Join the parts."""
        return join_parts([self._paths.part(number + 1) for number in range(state.parts)], self._paths.data)

    def close(self) -> None:
        """Close the file of the part."""
        if self._part is not None:
            self._part.close()
            self._part = None


class Download:
    """Receives the parts of an export, one after the other."""

    def __init__(self, api: ApiClient, receiver: Receiver, progress: ProgressLine) -> None:
        self._api = api
        self._receiver = receiver
        self._progress = progress
        self._has_begun = False
        """Whether the API has answered: one that never did is not waited for."""

    async def next_part(self, state: ExportState) -> ExportState:
        """Return the state after the part that follows ``state``.

        Tries again while the API is away or the part breaks off. Raises ``RequestFailed``.
        """
        failed_since_s: float | None = None
        delay_s = RETRY_DELAY_MIN_S
        while True:
            try:
                return await self._receive(state)
            except RequestFailed as exc:
                now_s = time.monotonic()
                failed_since_s = now_s if failed_since_s is None else failed_since_s
                never_answered = exc.status is None and not self._has_begun
                if never_answered or not exc.is_transient or now_s - failed_since_s > RETRY_S:
                    raise
                pause_s = max(delay_s, exc.retry_after_s or 0.0)
                note(f"{exc} Trying again in {pause_s:g} s.")
                await asyncio.sleep(pause_s)
                delay_s = min(2 * delay_s, RETRY_DELAY_MAX_S)

    async def _receive(self, state: ExportState) -> ExportState:
        query = {**state.request, "limit": str(PART_SPANS), "summary": "true"}
        if state.cursor is not None:
            query["next"] = state.cursor
        self._receiver.begin(state)
        async with self._api.stream("GET", SPANS, query=query) as response:
            self._has_begun = True
            async for piece in response.content.iter_chunked(RECEIVE_BYTES):
                self._receiver.receive(piece)
                self._progress.receive(len(piece))
        ended = self._receiver.end(state)
        if ended is None:
            raise RequestFailed(f"GET {self._api.url}{SPANS}: the response ended without its summary.")
        cursor = ended.get("next")
        return replace(
            state,
            rows=state.rows + ended["count"],
            bytes=self._receiver.bytes_count(),
            parts=state.parts + 1,
            cursor=cursor,
            is_complete=cursor is None,
        )
