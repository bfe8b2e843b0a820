"""The API is killed while ``clearspan export`` reads from it: the file is the same, byte by byte, as without it."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from clearspan.client.partial import PartialPaths
from common.clickhouse.connect import open_store
from common.settings import ClickHouseSettings
from tests.support.dying_export_api import NEVER, dying_export_api
from tests.support.ports import free_port
from tests.support.scale import scaled
from tests.support.span_corpus import random_span, store_record

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SPANS_COUNT: Final = 700
"""More than ten APIs export before they are killed."""

DIES_AT: Final = (40, 41, 42)
"""In the second or third part, and at different statements of a round."""

ENDS_S: Final = 100
FOREVER_S: Final = 1e6
COMMAND: Final = """
import sys
from clearspan.cli import main
from clearspan.client import export, partial
export.PART_SPANS, export.RETRY_DELAY_MIN_S, export.RETRY_DELAY_MAX_S = 23, 0.1, 0.1
partial.TAIL_BYTES = 1_000
export.RETRY_S = float(sys.argv[1])
main(sys.argv[2:])
"""
"""The command with small parts, whose bytes it writes early. Its first argument is ``RETRY_S``."""


class Command(NamedTuple):
    """``clearspan export`` as a process."""

    process: subprocess.Popen[bytes]
    log: Path

    def ended(self) -> int:
        """Return the exit code when the command ends."""
        return self.process.wait(ENDS_S)


@dataclass(frozen=True, slots=True)
class Exporting:
    """An engine with spans, and the port of the API that is killed."""

    engine: ClickHouseSettings
    port: int

    def api(self, *, dies_at: int = NEVER) -> AbstractContextManager[subprocess.Popen[str]]:
        return dying_export_api(self.engine, self.port, dies_at=dies_at)

    @contextmanager
    def command(self, file: Path, *, retry_s: float = FOREVER_S) -> Iterator[Command]:
        """Run the command, which gives up when the API was away for ``retry_s``; killed at the end."""
        url, log = f"http://127.0.0.1:{self.port}", file.with_suffix(".log")
        command = [sys.executable, "-c", COMMAND, str(retry_s), "export", str(file), "--url", url]
        with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as process:
            try:
                yield Command(process, log)
            finally:
                process.kill()

    def exported(self, file: Path) -> bytes:
        """Return the bytes of ``file`` after the command has ended, while an API runs."""
        with self.command(file) as command:
            assert command.ended() == 0
        return file.read_bytes()


@pytest.fixture(scope="module")
def exporting(http_settings: Callable[[], ClickHouseSettings], tmp_path_factory: pytest.TempPathFactory) -> Exporting:
    engine = http_settings()

    async def fill() -> None:
        store = open_store(engine, data_dir=tmp_path_factory.mktemp("unused"))
        source = random.Random(9)
        await store_record(store, [random_span(source, number) for number in range(SPANS_COUNT)])
        await store.close()

    asyncio.run(fill())
    return Exporting(engine, free_port())


@pytest.mark.scaled
def test_export_goes_on_when_the_killed_api_is_back(exporting: Exporting, tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    with ExitStack() as running:
        with exporting.api(dies_at=DIES_AT[0]) as api:
            command = running.enter_context(exporting.command(file))
            assert api.wait(ENDS_S) == -signal.SIGKILL
        for number in range(1, scaled(1, 10)):
            with exporting.api(dies_at=DIES_AT[number % 3]) as api:
                assert api.wait(ENDS_S) == -signal.SIGKILL
            assert not file.exists()
        with exporting.api():
            assert command.ended() == 0
            whole = exporting.exported(tmp_path / "whole.jsonl")
    assert "Trying again in 0.1 s." in command.log.read_text()
    assert file.read_bytes() == whole


@pytest.mark.long
def test_export_that_gave_up_goes_on_when_it_runs_again(exporting: Exporting, tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    for number in range(10):
        with exporting.api(dies_at=DIES_AT[number % 3]) as api, exporting.command(file, retry_s=0) as command:
            assert api.wait(ENDS_S) == -signal.SIGKILL
            assert command.ended() == 1
        last = command.log.read_text().splitlines()[-1]
        assert last.startswith(f"clearspan: http://127.0.0.1:{exporting.port} does not answer: ")
        assert PartialPaths(file).state.exists()
        assert not file.exists()
    with exporting.api():
        assert exporting.exported(file) == exporting.exported(tmp_path / "whole.jsonl")
