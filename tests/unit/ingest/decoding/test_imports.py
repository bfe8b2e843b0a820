"""Each decoder is a process of its own, so what it loads is paid for as many times."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

FORBIDDEN: Final = ("pandas", "aiohttp", "aiokafka", "asyncpg", "chdb", "clickhouse_connect", "pyarrow.parquet")
"""What a decoder has no use for, and what takes megabytes."""

SCRIPT: Final = """
import sys
import ingest.decoding.child
print(*(name for name in {names!r} if name in sys.modules))
"""


def test_decoder_loads_only_what_it_needs() -> None:
    script = SCRIPT.format(names=FORBIDDEN)

    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

    assert loaded.split() == []
