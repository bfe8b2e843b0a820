"""What a measurement has started ends with the measurement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

ROOT: Final = Path(__file__).parents[2]
MEASUREMENT: Final = """
import asyncio, sys
from pathlib import Path
from bench.harness import broker

async def measure():
    async with broker(Path(sys.argv[1])) as running:
        print(running.children()[0].pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(measure())
"""

MEASUREMENT_OF_A_PROCESS: Final = """
import subprocess, sys, time
from bench.processes import guarded

with guarded():
    print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("measurement", [MEASUREMENT, MEASUREMENT_OF_A_PROCESS], ids=["broker", "process"])
def test_killed_measurement_leaves_nothing_running(measurement: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", measurement, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        started = psutil.Process(int(running.stdout.readline()))

        running.kill()

        started.wait(15)
