"""Every module can be imported alone, without a warning: no hidden order, no circle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("clearspan", "common", "ingest", "query_api")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if path.stem != "__main__"
)

# The large ones: shared by all forks.
OUTSIDE = (
    "aiohttp.web",
    "aiokafka.admin",
    "asyncpg",
    "clickhouse_connect",
    "jsonschema_rs",
    "numpy",
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    "orjson",
    "pandas",  # chDB brings it along, and then the driver of ClickHouse imports it
    "prometheus_client",
    "pyarrow",
    "pydantic_settings",
    "re2",
    "structlog",
)
IMPORT_EACH_ALONE = f"""
import importlib, os, sys, warnings
for outside in {OUTSIDE!r}:
    importlib.import_module(outside)
warnings.simplefilter("error")
failed = 0
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except BaseException as exc:
            print(f"{{name}}: {{exc!r}}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    failed += status != 0
sys.exit(bool(failed))
"""


@pytest.mark.timeout(120)
def test_every_module_can_be_imported_alone():
    # A fork each: packages from outside are loaded once, ours anew every time.
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH_ALONE, *MODULES], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
