"""``clearspan export``: a file that equals the export of the API, whatever interrupts the command."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow.parquet as pq
import pytest
import pytest_asyncio

from clearspan.client import export as command
from clearspan.client.partial import PartialPaths
from clearspan.options import ServerOptions, SpanOptions, WindowOptions
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.errors import Unavailable
from common.settings import ClickHouseSettings, Settings
from common.times import SystemClock
from query_api.request.context import export_places
from tests.fakes.intervening_store import InterveningStore
from tests.support.api import context_of, serving
from tests.support.scale import rest_is_long, scaled
from tests.support.span_corpus import random_span, store_record

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPANS_COUNT = 300
ALL_SPANS = SpanOptions()
PART_SPANS = 23
FORMATS = ("jsonl", "csv", "parquet")
SLOW_EXPORT = f"""
import sys
from clearspan.cli import main
from clearspan.client import export
from tests.support.scale import rest_is_long
export.PART_SPANS = {PART_SPANS}
main(sys.argv[1:])
"""


@dataclass
class Api:
    client: aiohttp.ClientSession
    store: InterveningStore

    @property
    def url(self) -> str:
        return str(self.client._base_url).rstrip("/")

    async def exported(self, export_format: str) -> bytes:
        async with self.client.get("/spans/export", params={"format": export_format}) as response:
            return await response.read()

    async def run(self, file: Path, spans: SpanOptions = ALL_SPANS, **chosen: Any) -> int:
        """Run the command in this process."""
        server, options = ServerOptions(url=self.url), command.ExportOptions(file, **chosen)
        arguments: dict[str, Any] = {
            "server": server,
            "chosen": options,
            "spans": spans,
            "window": WindowOptions(),
            "as_json": True,
        }
        return await asyncio.to_thread(lambda: command.export.run(Settings(), **arguments))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[Api]:
    patch = pytest.MonkeyPatch()
    patch.setattr(command, "PART_SPANS", PART_SPANS)
    patch.setattr(command, "RETRY_DELAY_MIN_S", 0.01)
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = InterveningStore(open_store(configured, data_dir=chdb_dir))
    context = replace(context_of(store=store, clock=SystemClock()), exports=export_places(2))
    async with serving(context) as client:
        source = random.Random(9)
        await store_record(store, [random_span(source, number) for number in range(SPANS_COUNT)])
        yield Api(client, store)
    await store.close()
    patch.undo()


@pytest.mark.parametrize("export_format", FORMATS)
async def test_file_is_what_the_api_exports(api: Api, tmp_path: Path, export_format: str) -> None:
    file = tmp_path / f"spans.{export_format}"
    assert await api.run(file) == 0
    expected = await api.exported(export_format)
    if export_format == "parquet":
        assert pq.read_table(file).equals(pq.read_table(io.BytesIO(expected)).replace_schema_metadata())
    else:
        assert file.read_bytes() == expected
    assert _checksum_is_right(file)
    assert sorted(await asyncio.to_thread(os.listdir, tmp_path)) == [file.name, f"{file.name}.sha256"]


async def test_conditions_choose_the_spans(api: Api, tmp_path: Path) -> None:
    whole, file = tmp_path / "whole.jsonl", tmp_path / "failed.jsonl"
    assert await api.run(whole) == 0

    words = SpanOptions(["span_kind", "is", "SPAN_KIND_CLIENT"], errors=True)
    assert await api.run(file, words) == 0

    spans = [json.loads(line) for line in whole.read_text().splitlines()]
    chosen = [
        span for span in spans if (span["span_kind"], span["status_code"]) == ("SPAN_KIND_CLIENT", "STATUS_CODE_ERROR")
    ]
    assert 0 < len(chosen) < len(spans)
    assert [json.loads(line) for line in file.read_text().splitlines()] == chosen


@pytest.mark.parametrize("export_format", rest_is_long(["csv", "parquet"]))
async def test_api_that_fails_meanwhile_changes_nothing(api: Api, tmp_path: Path, export_format: str) -> None:
    whole, file = tmp_path / f"whole.{export_format}", tmp_path / f"spans.{export_format}"
    assert await api.run(whole) == 0

    async def fail(number: int) -> None:
        if number in (0, 8, 30):
            raise Unavailable("ClickHouse is away.", retry_after_s=0.01)

    api.store.begin(fail)
    code = await api.run(file)
    api.store.begin(None)
    assert code == 0
    assert file.read_bytes() == whole.read_bytes()


async def test_export_gives_up_when_the_api_stays_away_and_goes_on_later(
    api: Api, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    whole, file = tmp_path / "whole.jsonl", tmp_path / "spans.jsonl"
    assert await api.run(whole) == 0

    async def fail(number: int) -> None:
        if number >= 12:
            raise Unavailable("ClickHouse is away.", retry_after_s=0.01)

    monkeypatch.setattr(command, "RETRY_S", 0.0)
    api.store.begin(fail)
    code = await api.run(file)
    api.store.begin(None)
    assert code == 1
    assert any("503 ClickHouse is away." in line for line in capsys.readouterr().err.splitlines())
    assert PartialPaths(file).state.exists()
    assert not file.exists()
    assert await api.run(file) == 0
    assert file.read_bytes() == whole.read_bytes()


@pytest.mark.scaled
@pytest.mark.parametrize("export_format", rest_is_long(["parquet", "jsonl"]))
async def test_killed_export_goes_on_to_the_same_bytes(api: Api, tmp_path: Path, export_format: str) -> None:
    whole, file = tmp_path / f"whole.{export_format}", tmp_path / f"spans.{export_format}"
    assert await api.run(whole) == 0
    kills = 0
    for number in range(scaled(1, 10)):
        kills += await _run_and_kill(api, file, after_parts=3 + number)
    assert kills
    assert PartialPaths(file).state.exists()
    assert await api.run(file) == 0
    assert file.read_bytes() == whole.read_bytes()
    assert _checksum_is_right(file)


async def test_killed_before_the_rename_ends_the_export(api: Api, tmp_path: Path, monkeypatch: Any) -> None:
    whole, file = tmp_path / "whole.parquet", tmp_path / "spans.parquet"
    assert await api.run(whole) == 0

    def die(*_: object) -> int:
        raise OSError(errno.EIO, "killed")

    monkeypatch.setattr(command, "_finish", die)
    assert await api.run(file) == 1
    monkeypatch.undo()
    assert not file.exists()
    PartialPaths(file).data.write_bytes(b"half of a join")
    monkeypatch.setattr(command, "PART_SPANS", PART_SPANS)
    assert await api.run(file) == 0
    assert file.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("export_format", rest_is_long(FORMATS))
async def test_full_disk_is_said_and_leaves_no_file(
    api: Api, tmp_path: Path, export_format: str, monkeypatch: Any, capsys: Any
) -> None:
    file = tmp_path / f"spans.{export_format}"
    written, write = 0, os.write

    def fill(descriptor: int, data: memoryview) -> int:
        nonlocal written
        written += len(data)
        if written > 20_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:1_000])

    monkeypatch.setattr(os, "write", fill)
    assert await api.run(file) == 1
    monkeypatch.undo()
    assert "the disk is full. Make space and run the same command again" in capsys.readouterr().err
    assert not file.exists()
    monkeypatch.setattr(command, "PART_SPANS", PART_SPANS)
    assert await api.run(file) == 0
    assert _checksum_is_right(file)


async def test_what_is_refused_leaves_nothing(api: Api, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "spans.csv"
    assert await api.run(file, columns="nope") == 1
    assert "columns: 'nope' is not a column; allowed: created_at" in capsys.readouterr().err
    assert not await asyncio.to_thread(os.listdir, tmp_path)
    assert await api.run(tmp_path / "spans.xml") == 2
    file.write_text("precious")
    assert await api.run(file) == 1
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert file.read_text() == "precious"
    assert await api.run(file, overwrite=True) == 0


async def test_partial_files_of_another_export_are_refused(api: Api, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "spans.jsonl"
    await _run_and_kill(api, file, after_parts=2)
    assert await api.run(file, order="ascending") == 1
    assert "belongs to an export with other options" in capsys.readouterr().err
    state = PartialPaths(file).state
    state.write_text(state.read_text()[:20])
    assert await api.run(file) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert await api.run(file, restart=True) == 0


async def _run_and_kill(api: Api, file: Path, *, after_parts: int) -> bool:
    """Run the command as a process, and kill it when it has written that many parts. Return whether it was killed."""
    arguments = [sys.executable, "-c", SLOW_EXPORT, "export", str(file), "--url", api.url]
    process = await asyncio.to_thread(subprocess.Popen, arguments, stderr=subprocess.DEVNULL)
    state = PartialPaths(file).state
    while process.poll() is None:
        if state.exists() and json.loads(state.read_text())["parts"] >= after_parts:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        await asyncio.sleep(0.005)
    return False


def _checksum_is_right(file: Path) -> bool:
    expected = f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
    return file.with_name(f"{file.name}.sha256").read_text() == expected
