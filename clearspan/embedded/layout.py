"""What the embedded stack keeps in its data directory, and who holds it.

One stack per directory: the lock is the kernel's, so it goes with the process however that ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

_REFUSED: Final = re.compile(r"""[,"$`?\\\x00-\x1f\x7f\ud800-\udfff]""")
"""What a path cannot have on its way to the engine and to Postgres: a question mark ends it in the connection string of chDB, which then
keeps its tables elsewhere; a comma ends it in that of Postgres; ``pg_ctl`` writes it between double quotes into a command of the shell."""


STOP_S: Final = 95.0
"""How long a stack with default settings may say nothing while it stops."""


class StackError(Exception):
    """The embedded stack cannot start or stop; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie below the data directory."""

    root: Path

    @property
    def clickhouse(self) -> Path:
        """The engine's tables."""
        return self.root / "clickhouse"

    @property
    def postgres(self) -> Path:
        """Postgres's cluster."""
        return self.root / "postgres"

    @property
    def log(self) -> Path:
        """What a stack in the background says."""
        return self.root / "clearspan.log"

    @property
    def broker_log(self) -> Path:
        """What the broker says."""
        return self.root / "broker.log"

    @property
    def dead_letters(self) -> Path:
        """The letters, for the next broker."""
        return self.root / "dead-letters.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the running stack."""
        return self.root / "lock"

    @property
    def running(self) -> Path:
        """Who runs, and where it listens."""
        return self.root / "running.json"

    @property
    def stopping(self) -> Path:
        """How far the stack that stops, or has stopped last, has got; written again every second while it stops."""
        return self.root / "stopping.json"

    @property
    def children(self) -> Path:
        """The processes the stack has started, so that the next start finds what was left over."""
        return self.root / "children.json"

    @property
    def kept(self) -> tuple[Path, ...]:
        """Everything that may lie there; a file that is replaced is written beside itself first."""
        files = (self.log, self.broker_log, self.dead_letters, self.lock, self.running, self.stopping, self.children)
        return (self.clickhouse, self.postgres, *files, *(path.with_suffix(".new") for path in (self.postgres, *files)))


@dataclass(frozen=True, slots=True)
class Running:
    """The running stack, as it wrote itself down."""

    pid: int
    api: str
    worker: str
    kafka: str
    postgres: str
    auth: Literal["on", "off"] = "off"
    topics: Sequence[str] = ()
    """Those that its worker reads."""

    otlp: str = ""
    """Where OTLP is taken besides the API; empty: nowhere."""

    otlp_left_out: str = ""
    """Why it is not taken at its usual port, if that was not wished."""

    stop_s: float = STOP_S
    """How long it may say nothing while it drains and stops."""

    def write(self, layout: Layout) -> None:
        """Write it down."""
        layout.running.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(layout: Layout) -> Running | None:
        """The stack that holds the directory now, or ``None``."""
        try:
            running = Running(**json.loads(layout.running.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return running if is_held(layout) else None


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stack that stops. ``left_count`` records are not stored yet; ``dropped`` says in words what was given up."""

    is_done: bool = False
    left_count: int | None = None
    dropped: str = ""

    def write(self, layout: Layout) -> None:
        """Write it down, in one step."""
        fresh = layout.stopping.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(layout.stopping)

    @staticmethod
    def read(layout: Layout) -> Stopping | None:
        """What the stack said last, or ``None`` where it does not stop."""
        try:
            return Stopping(**json.loads(layout.stopping.read_text()))
        except (OSError, ValueError, TypeError):
            return None


def make_root(layout: Layout) -> None:
    """Make the data directory where it is missing. Raises ``StackError`` where it cannot be one, or cannot be written to."""
    if refused := sorted(set(_REFUSED.findall(str(layout.root)))):
        raise StackError(
            f"CLEARSPAN_DATA_DIR is {str(layout.root)!a}, whose path has {' '.join(map(ascii, refused))} in it. All characters are legal "
            'but , " $ ` ? \\, control characters and what is not UTF-8. Set it to another directory.'
        )
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        layout.lock.touch()
    except OSError as exc:
        raise StackError(
            f"CLEARSPAN_DATA_DIR is {layout.root}, where nothing can be kept: {exc.strerror}. Set it to another directory."
        ) from exc
    make_private(layout)


def make_private(layout: Layout) -> None:
    """Let nobody but the owner read what lies in the data directory, or list it; what is written from now on included.

    Postgres does not run as root: for root, its user may pass through the directory, and no more. Its library opens the
    directory to all each time it starts, so this has to be done again after that. Raises ``StackError``.
    """
    os.umask(0o077)
    try:
        layout.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for path in layout.kept:
            if path.exists() and not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as exc:
        raise StackError(
            f"{exc.filename} cannot be closed to other users: {exc.strerror}. Set CLEARSPAN_DATA_DIR to a directory of your own."
        ) from exc


@contextmanager
def hold(layout: Layout) -> Iterator[None]:
    """Hold the data directory. Raises ``StackError`` when another stack does, or when it is none."""
    make_root(layout)
    with layout.lock.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"A stack is already running on {layout.root}. `make down` stops it.") from None
        layout.running.unlink(missing_ok=True)  # of one that was killed: its process id may be another's by now
        layout.stopping.unlink(missing_ok=True)
        try:
            yield
        finally:
            layout.running.unlink(missing_ok=True)


def is_held(layout: Layout) -> bool:
    """Whether a stack holds the data directory; one that starts does before it says where it runs."""
    try:
        with layout.lock.open("a+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
