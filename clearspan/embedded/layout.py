"""The data directory of the embedded stack: its files, who holds it, and what the running stack writes about itself.

One stack per directory: the kernel holds the lock, so it is released however the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from clearspan.program import called
from common.kafka_settings import KafkaSettings
from common.prices.file import FILE_NAME

Value = TypeVar("Value")

_INVALID: Final = re.compile(r"""[,"$`?\\\x00-\x1f\x7f\ud800-\udfff]""")
"""What a path must not contain on its way to the engine and to Postgres. A question mark ends the path in the
connection string of chDB, which then keeps its tables elsewhere; a comma ends it in that of Postgres; ``pg_ctl``
writes it between double quotes into a shell command."""

STOP_S: Final = 95.0
"""How long a stack with default settings may report no progress while it stops."""


class StackError(Exception):
    """The embedded stack cannot start or stop; the message says why and what to do."""


class Layout:
    """The files in the data directory."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root
        self.clickhouse: Final = root / "clickhouse"
        """The engine's tables."""
        self.postgres: Final = root / "postgres"
        """Postgres's cluster."""
        self.log: Final = root / "clearspan.log"
        """The log of a stack that runs in the background."""
        self.broker: Final = root / "broker"
        """The records of the embedded broker."""
        self.broker_log: Final = root / "broker.log"
        """The output of the broker."""
        self.lock: Final = root / "lock"
        """The file that the running stack locks."""
        self.running: Final = root / "running.json"
        """The process id and the addresses of the running stack (``Running``)."""
        self.stopping: Final = root / "stopping.json"
        """The progress of the stack that stops now or stopped last (``Stopping``), written every second."""
        self.children: Final = root / "children.json"
        """The processes that the stack has started."""
        self.ports: Final = root / "ports.json"
        """The ports of the last start, for the next one (``ports.py``)."""
        self.prices: Final = root / FILE_NAME
        """The prices that replace the built-in ones (`clearspan prices update`)."""
        about = (self.lock, self.running, self.stopping, self.children, self.ports)
        files = (self.log, self.broker_log, self.prices, *about)
        fresh = (path.with_suffix(".new") for path in (self.postgres, *files))
        self.kept: Final = (self.clickhouse, self.postgres, self.broker, *files, *fresh)
        """Everything that the stack may leave there; the ``.new`` files are renamed once they are complete."""


@dataclass(frozen=True, slots=True)
class Running:
    """The running stack."""

    pid: int
    api: str
    worker: str
    kafka: str
    postgres: str
    auth: Literal["on", "off"] = "off"
    topics: Sequence[str] = ()
    """The topics that its worker reads."""
    otlp: str = ""
    """The address of the second OTLP port; empty if there is none."""
    otlp_left_out: str = ""
    """Why there is no second OTLP port, unless that was set by hand."""
    otlp_grpc: str = ""
    """The address of OTLP over gRPC; empty if it is off."""
    otlp_grpc_left_out: str = ""
    """Why it is off, unless that was set by hand."""
    stop_s: float = STOP_S
    """How long it may report no progress while it stops."""
    has_own_broker: bool = True
    """Whether its Kafka is the embedded broker."""

    def reached(self, kafka: KafkaSettings) -> KafkaSettings:
        """Return the settings of a client of its Kafka. Certificates and users are not for the embedded broker."""
        return (
            kafka.unsecured_at(self.kafka)
            if self.has_own_broker
            else kafka.model_copy(update={"bootstrap": self.kafka})
        )

    def write(self, layout: Layout) -> None:
        """Write it to the data directory."""
        write_json(layout.running, asdict(self))

    @staticmethod
    def read(layout: Layout) -> Running | None:
        """Return the stack that holds the directory now, or ``None``."""
        running = read_json(layout.running, lambda members: Running(**members))
        return running if is_held(layout) else None


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stack that stops, or has stopped."""

    is_done: bool = False

    def write(self, layout: Layout) -> None:
        """Write it to the data directory."""
        write_json(layout.stopping, asdict(self))

    @staticmethod
    def read(layout: Layout) -> Stopping | None:
        """Return what the stack wrote last, or ``None`` if it is not stopping."""
        return read_json(layout.stopping, lambda members: Stopping(**members))


def write_json(path: Path, value: object) -> None:
    """Replace a file atomically."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    fresh.replace(path)


def read_json(path: Path, make: Callable[[Any], Value]) -> Value | None:
    """Return what ``make`` makes of the content of a file; ``None`` if it is missing or not as ``make`` expects."""
    try:
        return make(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def make_root(layout: Layout) -> None:
    """Create the data directory if it is missing. Raises ``StackError`` if its path is invalid or not writable."""
    if invalid := sorted(set(_INVALID.findall(str(layout.root)))):
        raise StackError(
            f"CLEARSPAN_DATA_DIR is {str(layout.root)!a}, a path that contains {' '.join(map(ascii, invalid))}. "
            'It may contain any character except , " $ ` ? \\, control characters and bytes that are not UTF-8. '
            "Set it to another directory."
        )
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        layout.lock.touch()
    except OSError as exc:
        raise StackError(
            f"CLEARSPAN_DATA_DIR is {layout.root}, which cannot be written to: {exc.strerror}. "
            "Set it to another directory."
        ) from exc
    make_private(layout)


def make_private(layout: Layout) -> None:
    """Let only the owner read or list the data directory, including files that are created later.

    Postgres does not run as root: if the owner is root, the user of Postgres may pass through the directory. Its
    library opens the directory to everyone each time it starts, so call this again after that. Raises ``StackError``.
    """
    os.umask(0o077)
    try:
        layout.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for path in layout.kept:
            if path.exists() and not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as exc:
        raise StackError(
            f"{exc.filename} cannot be closed to other users: {exc.strerror}. "
            "Set CLEARSPAN_DATA_DIR to a directory that you own."
        ) from exc


@contextmanager
def hold(layout: Layout) -> Iterator[None]:
    """Hold the data directory. Raises ``StackError`` if another stack holds it, or if it is invalid."""
    make_root(layout)
    with layout.lock.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"A stack is already running on {layout.root}. `{called('down')}` stops it.") from None
        layout.running.unlink(missing_ok=True)  # of a stack that was killed: another process may have its id by now
        layout.stopping.unlink(missing_ok=True)
        try:
            yield
        finally:
            layout.running.unlink(missing_ok=True)


def is_held(layout: Layout) -> bool:
    """Return whether a stack holds the data directory; a starting one does before it writes ``Running``."""
    try:
        with layout.lock.open("a+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
