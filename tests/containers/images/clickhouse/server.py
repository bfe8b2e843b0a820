"""A stand-in for the image of ClickHouse's server: the same engine from the wheel of chDB, with its own HTTP and TCP ports.

As the official image it knows CLICKHOUSE_USER, CLICKHOUSE_PASSWORD, CLICKHOUSE_PASSWORD_FILE,
CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT and the files of config.d. ``server.py FIFO`` is the engine, without one its parent.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import FrameType
from xml.sax.saxutils import escape

HOME = "/opt/clickhouse/chdb"
DATA = Path("/var/lib/clickhouse")
CONFIGURATION = Path("/etc/clickhouse-server")
FIFO = Path("/tmp/stop")
LOG_TABLES = (
    *("query_log", "part_log", "error_log", "trace_log", "text_log", "metric_log", "asynchronous_metric_log"),
    *("processors_profile_log", "latency_log", "query_metric_log"),
)
RTLD_DEEPBIND = 0x8


def run_engine(fifo: str) -> None:
    """Serve until nobody holds the fifo open for writing: a statement reads from it.

    The extension is loaded without its package, whose import would start another engine.
    """
    os.chdir(HOME)
    library = f"{HOME}/_chdb.abi3.so"
    ctypes.CDLL(library, mode=sys.getdlopenflags() | RTLD_DEEPBIND)
    loader = importlib.machinery.ExtensionFileLoader("_chdb", library)
    spec = importlib.util.spec_from_loader("_chdb", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    os.chdir(CONFIGURATION)  # clickhouse-local reads config.xml there
    statements = (
        "SYSTEM START LISTEN TCP",
        "SYSTEM START LISTEN HTTP",
        f"SELECT count() FROM file('{fifo}', 'LineAsString', 'l String')",
    )
    result = module.query("; ".join(statements), "TSV", path=str(DATA / "data"))
    sys.exit(result.error_message() if result.has_error() else 0)


def write_configuration() -> None:
    """Write what the official image's entrypoint and packages bring."""
    user = os.environ.get("CLICKHOUSE_USER", "default")
    password = os.environ.get("CLICKHOUSE_PASSWORD", "")
    if path := os.environ.get("CLICKHOUSE_PASSWORD_FILE"):
        password = Path(path).read_text().strip()
    manages = os.environ.get("CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT", "0")
    account = "<profile>default</profile><quota>default</quota>"
    (CONFIGURATION / "users.xml").write_text(
        "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>"
        f"<default><password/><networks><ip>127.0.0.1</ip></networks>{account}</default>"
        f"<{user}><password>{escape(password)}</password><networks><ip>::/0</ip></networks>{account}"
        f"<access_management>{manages}</access_management></{user}></users></clickhouse>"
    )
    tables = "".join(
        f"<{name}><database>system</database><table>{name}</table>"
        f"<flush_interval_milliseconds>7500</flush_interval_milliseconds></{name}>"
        for name in LOG_TABLES
    )
    (CONFIGURATION / "config.xml").write_text(
        "<clickhouse><logger><level>information</level><log>/tmp/clickhouse.log</log></logger>"
        "<tcp_port>9000</tcp_port><http_port>8123</http_port><listen_host>0.0.0.0</listen_host>"
        f"<user_directories><users_xml><path>{CONFIGURATION}/users.xml</path></users_xml></user_directories>"
        f"{tables}</clickhouse>"
    )


def announce(engine: subprocess.Popen[bytes]) -> None:
    """Print what the server prints as soon as it responds."""
    while engine.poll() is None:
        try:
            urllib.request.urlopen("http://127.0.0.1:8123/ping", timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            os.write(1, b"Ready for connections.\n")
            return


def main() -> None:
    """Run the engine in a child, and let it end at SIGTERM."""
    write_configuration()
    if not FIFO.exists():
        os.mkfifo(FIFO)
    held = [os.open(FIFO, os.O_RDWR)]

    def end(_number: int, _frame: FrameType | None) -> None:
        while held:
            os.close(held.pop())

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    engine = subprocess.Popen([sys.executable, __file__, str(FIFO)])
    threading.Thread(target=announce, args=(engine,), daemon=True).start()
    sys.exit(engine.wait())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_engine(sys.argv[1])
    else:
        main()
