"""The broker of a measurement ends with the measurement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

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


def test_killed_measurement_leaves_no_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEASUREMENT, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as measurement:
        assert measurement.stdout is not None
        broker = psutil.Process(int(measurement.stdout.readline()))

        measurement.kill()

        broker.wait(15)
