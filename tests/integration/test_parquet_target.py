"""Batches as Parquet files: complete or absent in a directory and in a bucket, whatever happens to the writer."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar
from uuid import UUID

import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import dataset, fs

from common.errors import InvalidInput
from query_api.delivery.targets.parquet import Directory, ParquetPlaces, ParquetTarget, file_name, folder_of
from query_api.delivery.targets.target import TargetUnavailable
from query_api.export.columns import COLUMNS
from tests.support.delivered import START_NS, batch_of, span_object
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
PROJECT = UUID("00000000-0000-7000-8000-00000000000a")
OTHER = UUID("00000000-0000-7000-8000-00000000000b")


@pytest.fixture
def places(tmp_path: Path) -> ParquetPlaces:
    root = tmp_path / "exports"
    root.mkdir()
    return ParquetPlaces(PROJECT, root)


def _target(places: ParquetPlaces, name: str = "spans") -> ParquetTarget:
    return ParquetTarget(folder_of(f"file:///{name}", places))


def _own(places: ParquetPlaces, name: str = "spans") -> Path:
    """Return where the files of ``PROJECT`` are."""
    assert places.directory is not None
    return places.directory / str(PROJECT) / name


def _names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def _rows(path: Path | str, filesystem: fs.FileSystem | None = None) -> pa.Table:
    return dataset.dataset(str(path), format="parquet", filesystem=filesystem).to_table().sort_by("span_id")


async def test_batch_is_a_file_with_the_columns_of_exports(places: ParquetPlaces) -> None:
    target = _target(places)

    await target.deliver(batch_of(3, "msg_1"))
    await target.deliver(batch_of([span_object(7, status_message="x")], "msg_2"))
    await target.close()

    rows = _rows(_own(places))
    assert _names(_own(places)) == [".partial", "msg_1.parquet", "msg_2.parquet"]
    assert rows.column_names == list(COLUMNS)
    assert rows["start_time_unix_nano"].to_pylist() == [START_NS, START_NS + 1, START_NS + 2, START_NS + 7]
    assert rows["duration"].to_pylist() == [1.0] * 4
    assert rows["service"].to_pylist() == ["shop"] * 4
    assert rows["status_message"].to_pylist() == [None, None, None, "x"]


async def test_retry_replaces_the_file(places: ParquetPlaces) -> None:
    target = _target(places)

    await target.deliver(batch_of(3))
    await target.deliver(batch_of([span_object(1)]))

    assert _rows(_own(places)).num_rows == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///../other", "empty or dotted part"),
        ("file:///%2e%2e/other", "empty or dotted part"),
        ("file:///a/%2E%2E%2F..", "empty or dotted part"),
        ("file:///a//b", "empty or dotted part"),
        ("file:///a/.partial", "empty or dotted part"),
        ("file:///a%00b", "empty or dotted part"),
        ("file://example.com/x", "is not the address of a folder; allowed: file:///folder and s3://bucket/prefix"),
        ("s3://other/x", "the bucket 'other' is not one of those that the setting CLEARSPAN_DELIVERY__S3_BUCKETS"),
        ("s3://spans/../other", "empty or dotted part"),
        ("s3://spans/a/%2e%2e/%2E%2e/other", "empty or dotted part"),
        ("s3://spans/x?endpoint_override=http://169.254.169.254", "only a host and a path"),
        ("s3://key:secret@spans/x", "only a host and a path"),
        ("s3://Spans", "is not the name of an S3 bucket"),
        ("/plain", "is not the address of a folder"),
    ],
)
def test_only_what_the_settings_name_is_allowed(places: ParquetPlaces, url: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        folder_of(url, replace(places, s3_buckets=("spans",)))

    assert words in str(refused.value)


def test_without_a_directory_the_setting_is_named() -> None:
    with pytest.raises(InvalidInput, match="CLEARSPAN_DELIVERY__PARQUET_DIRECTORY"):
        folder_of("file:///tmp/x", ParquetPlaces(PROJECT, None))


OUTWARDS = (
    *("", "/", "/x", f"/{OTHER}", f"/{OTHER}/x", f"//{OTHER}", f"/../{OTHER}", f"/%2e%2e/{OTHER}", f"/..%2f{OTHER}"),
    *(f"/%252e%252e/{OTHER}", f"/x/../../{OTHER}", f"/./../{OTHER}", f"/..\\{OTHER}", "/etc", "/{root}/x"),
    *(f"/{{root}}/{OTHER}", f"/{{root}}/../{OTHER}", f"/\uff0e\uff0e/{OTHER}", f"/%c0%ae%c0%ae/{OTHER}"),
)


def test_project_cannot_name_the_folder_of_another(tmp_path: Path, places: ParquetPlaces) -> None:
    assert places.directory is not None
    written = 0
    for number, path in enumerate(OUTWARDS):
        url = "file://" + path.replace("{root}", str(places.directory)[1:])
        with suppress(InvalidInput):
            folder_of(url, places).put(f"{number}.parquet", pa.py_buffer(b"x"))
            written += 1

    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) == written > 5
    assert all(file.is_relative_to(places.directory / str(PROJECT)) for file in files)


@pytest.mark.parametrize("link", [str(PROJECT), f"{PROJECT}/spans"])
async def test_link_that_leads_out_is_not_followed(places: ParquetPlaces, link: str) -> None:
    assert places.directory is not None
    other = places.directory / str(OTHER)
    other.mkdir()
    (places.directory / link).parent.mkdir(exist_ok=True)
    (places.directory / link).symlink_to(other)
    target = _target(places)

    assert "leads out" in str(await target.check())
    with pytest.raises(TargetUnavailable, match="leads out"):
        await target.deliver(batch_of(1))
    await target.close()

    assert _names(other) == []


async def test_root_may_be_a_link(tmp_path: Path, places: ParquetPlaces) -> None:
    assert places.directory is not None
    link = tmp_path / "link"
    link.symlink_to(places.directory)

    await _target(replace(places, directory=link)).deliver(batch_of(1, "msg_1"))

    assert "msg_1.parquet" in _names(_own(places))


async def test_full_disk_leaves_no_file(places: ParquetPlaces) -> None:
    target = _target(places)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        with pytest.raises(TargetUnavailable, match=r"^The file cannot be written: File too large\.$"):
            await target.deliver(batch_of(50))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert [path for path in _own(places).parent.rglob("*") if path.is_file()] == []
    await target.deliver(batch_of(50))
    assert _rows(_own(places)).num_rows == 50


_WRITER = """
import sys
from pathlib import Path
import pyarrow as pa
from query_api.delivery.targets.parquet import Directory
folder = Directory(Path(sys.argv[1]), Path(sys.argv[1]))
content = pa.py_buffer(b"x" * 8_000_000)
print("ready", flush=True)
for number in range(1_000_000):
    folder.put(f"{number % 5}.parquet", content)
"""


def test_killed_writer_leaves_whole_files(tmp_path: Path) -> None:
    for number in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.03 * number)
        writer.send_signal(signal.SIGKILL)
        writer.wait(10)
        writer.stdout.close()

    assert {path.stat().st_size for path in tmp_path.glob("*.parquet")} == {8_000_000}


def test_two_writers_of_one_batch_leave_a_whole_file(tmp_path: Path) -> None:
    """A process that has lost its lease, and the one that took it over."""
    contents = [pa.py_buffer(letter * 3_000_000) for letter in (b"a", b"b")]
    folders = [Directory(tmp_path, tmp_path), Directory(tmp_path, tmp_path)]

    with ThreadPoolExecutor(2) as threads:
        for _ in range(5):
            list(threads.map(lambda pair: pair[0].put("x", pair[1]), zip(folders, contents, strict=True)))
            assert len(set((tmp_path / "x").read_bytes())) == 1

    assert _names(tmp_path / ".partial") == []


def test_files_of_killed_writers_are_removed_after_a_day(tmp_path: Path) -> None:
    partial = tmp_path / ".partial"
    partial.mkdir()
    (partial / "new").write_bytes(b"x")
    (partial / "old").write_bytes(b"x")
    two_days_ago_s = time.time() - 2 * 86_400
    os.utime(partial / "old", (two_days_ago_s, two_days_ago_s))

    Directory(tmp_path, tmp_path).put("x", pa.py_buffer(b"x"))

    assert _names(partial) == ["new"]


async def test_unwritable_directory_is_reported(tmp_path: Path, places: ParquetPlaces) -> None:
    assert await _target(places).check() is None
    _own(places).parent.mkdir()
    _own(places, "file").write_bytes(b"")

    assert await _target(places, "file").check() == f"'{_own(places, 'file')}' is not a directory."
    with pytest.raises(TargetUnavailable):
        await _target(places, "file").deliver(batch_of(1))


def test_name_of_a_file_is_plain() -> None:
    assert file_name("msg_1-2") == "msg_1-2.parquet"
    assert file_name("../x") == file_name("../x")
    assert "/" not in file_name("../x")
    assert not file_name(".hidden").startswith(".")


@pytest.fixture(scope="module")
def s3() -> Iterator[ParquetPlaces]:
    """A server that speaks S3, with the bucket ``spans``."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "x")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "y")
        host, port = server.get_host_and_port()
        places = ParquetPlaces(PROJECT, None, ("spans", "absent"), f"http://{host}:{port}", "us-east-1", timeout_s=5)
        _s3(places, allow_bucket_creation=True).create_dir("spans")
        yield places
    server.stop()


def _s3(places: ParquetPlaces, *, allow_bucket_creation: bool = False) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        endpoint_override=places.s3_endpoint, region=places.s3_region, allow_bucket_creation=allow_bucket_creation
    )


async def test_bucket_gets_the_same_files(s3: ParquetPlaces) -> None:
    target = ParquetTarget(folder_of("s3://spans/a/b/", s3))

    assert await target.check() is None
    await target.deliver(batch_of(3, "msg_1"))
    await target.deliver(batch_of([span_object(1)], "msg_1"))
    await target.deliver(batch_of(2, "msg_2"))

    assert _rows(f"spans/{PROJECT}/a/b", _s3(s3)).num_rows == 3
    assert [info.path for info in _s3(s3).get_file_info(fs.FileSelector(f"spans/{PROJECT}/a/b"))] == [
        f"spans/{PROJECT}/a/b/msg_1.parquet",
        f"spans/{PROJECT}/a/b/msg_2.parquet",
    ]


async def test_project_cannot_name_the_prefix_of_another(s3: ParquetPlaces) -> None:
    places = replace(s3, project_id=OTHER)
    for number, path in enumerate(OUTWARDS):
        with suppress(InvalidInput):
            folder_of(f"s3://spans{path}", places).put(f"{number}.parquet", pa.py_buffer(b"x"))

    keys = [info.path for info in _s3(s3).get_file_info(fs.FileSelector("spans", recursive=True)) if info.is_file]
    own = [key for key in keys if key.startswith(f"spans/{OTHER}/")]
    assert len(own) > 5
    assert all(key.startswith(f"spans/{PROJECT}/a/b/msg_") for key in set(keys).difference(own))


async def test_bucket_that_is_absent_or_away_is_unavailable(s3: ParquetPlaces) -> None:
    absent = ParquetTarget(folder_of("s3://absent", s3))
    nowhere = ParquetPlaces(PROJECT, None, ("spans",), f"http://127.0.0.1:{free_port()}", "us-east-1", timeout_s=1)
    away = ParquetTarget(folder_of("s3://spans/x", nowhere))

    assert await absent.check() == "There is no bucket 'absent'."
    for target in (absent, away):
        with pytest.raises(TargetUnavailable, match=r"^The file cannot be written: "):
            await target.deliver(batch_of(1))
    assert await away.check() is not None


class _FailingParts(BaseHTTPRequestHandler):
    """S3 that begins an upload and takes its first part, but no further one."""

    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self._read()
        self.seen.append(f"POST {self.path.partition('?')[2]}")
        self._answer(200, b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")

    def do_PUT(self) -> None:
        self._read()
        self.seen.append(f"PUT {self.path.partition('?')[2]}")
        self._answer(200 if "partNumber=1&" in self.path else 403, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _read(self) -> None:
        if length := self.headers.get("Content-Length"):
            self.rfile.read(int(length))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            self.rfile.read(size + 2)
        while self.rfile.readline().strip():
            pass

    def log_request(self, *_: object) -> None:
        """Print nothing."""


def test_upload_of_which_a_part_fails_is_not_completed(s3: ParquetPlaces) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _FailingParts)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    folder = folder_of("s3://spans", ParquetPlaces(PROJECT, None, ("spans",), address, "us-east-1", timeout_s=5))

    for size, operation in ((2_000_000, "PutObject"), (25_000_000, "UploadPart")):
        with pytest.raises(OSError, match=operation):
            folder.put("x.parquet", pa.py_buffer(os.urandom(size)))

    server.shutdown()
    server.server_close()
    assert sorted(_FailingParts.seen)[:2] == ["POST uploads", "PUT "]
    assert [line for line in _FailingParts.seen if line.startswith("POST uploadId")] == []
