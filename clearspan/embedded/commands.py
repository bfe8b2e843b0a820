"""The commands of the embedded stack, as a person types them: up, down, status, logs, reset."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from clearspan.embedded.layout import Layout, Running, StackError, Stopping, is_held, make_root
from clearspan.embedded.processes import end_left_over, is_alive
from common.environment import read_settings
from common.migrations import IllegalMigration
from common.settings import IllegalSettings, Settings

Failure = TypeVar("Failure", bound=Exception)

READY_TIMEOUT_S = 60.0
PROGRESS_INTERVAL_S = 5.0
OTHERS_SHOWN = 5
FIRST_TRACE_ID = "3e62f5b20306a7b90576815eceddda07"
"""The trace of the sample that ``first_span.py`` publishes."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The stack is on this machine: a proxy of the environment would look for it on its own."""


def up() -> int:
    """Run the stack in this terminal until it is told to stop. Raises ``IllegalSettings``."""
    from clearspan.embedded.stack import run_stack  # noqa: PLC0415 - loads the engine, which only this command needs

    try:
        asyncio.run(run_stack(read_settings()))
    except StackError as exc:
        print(f"clearspan: {exc}", file=sys.stderr)
        return 1
    except IllegalMigration as exc:
        print(f"clearspan: {exc}", file=sys.stderr)
        return 1
    except ExceptionGroup as failed:
        if (illegal := failed.subgroup(IllegalSettings)) is not None:
            raise _first_of(illegal) from None  # the worker's address, or its prices, told while others work already
        if (ahead := failed.subgroup(IllegalMigration)) is None:
            raise
        print(f"clearspan: {_first_of(ahead)}", file=sys.stderr)
        return 1
    return 0


def _first_of(failed: ExceptionGroup[Failure]) -> Failure:
    first = failed.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first


def up_detached() -> int:
    """Start the stack in the background, wait until it is ready, show a first span. One that runs or starts is left as it is."""
    settings = read_settings()
    layout = Layout(settings.data_dir.resolve())
    if is_held(layout):
        return _leave_as_it_is(layout)
    try:
        make_root(layout)
    except StackError as exc:
        print(f"clearspan: {exc}", file=sys.stderr)
        return 1
    print("Starting Clearspan: broker, Postgres, engine, worker and API in one process …", flush=True)
    started_s = time.monotonic()
    with layout.log.open("ab") as log:
        log_before = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "clearspan", "up"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    running = _wait_until_ready(layout, process)
    if running is None and process.poll() is not None and is_held(layout):  # by one that was quicker
        return _leave_as_it_is(layout)
    if running is None:
        print(f"clearspan: it did not start. The end of {_shown(layout.log)} says:\n", file=sys.stderr)
        print(_tail(layout.log, behind=log_before), file=sys.stderr)
        return 1
    print(f"Ready after {time.monotonic() - started_s:.1f} s.\n", flush=True)
    return _show_first_span(settings, running)


def _leave_as_it_is(layout: Layout) -> int:
    """Say where the stack of somebody else runs, when it is ready."""
    running = Running.read(layout)
    if running is None or not _is_ready(running):
        print("Clearspan is already starting; waiting for it …", flush=True)
        running = _wait_until_ready(layout)
    if running is None:
        print("clearspan: the stack that runs there is not ready; `make logs` may say why.", file=sys.stderr)
        return 1
    print("Clearspan is already running; nothing was changed.\n")
    print(_addresses(running))
    return 0


def _show_first_span(settings: Settings, running: Running) -> int:
    from clearspan.embedded.first_span import show_first_span  # noqa: PLC0415 - loads the Kafka client

    if settings.auth == "on" and "auth" in settings.model_fields_set:
        print("Authentication is on: `clearspan keys create NAME` makes a key; send it as `Authorization: ApiKey …`.\n")
        print(_addresses(running))
        return 0
    kafka = settings.kafka.model_copy(update={"bootstrap": running.kafka})
    try:
        print(asyncio.run(show_first_span(kafka, running.api)))
    except TimeoutError:
        print(
            "clearspan: the first span did not come out of /spans/query in time; `make logs` may say why.",
            file=sys.stderr,
        )
        return 1
    print()
    print(_addresses(running))
    return 0


def _addresses(running: Running) -> str:
    key = "" if running.auth == "off" else " -H 'authorization: ApiKey KEY'"
    return f"""\
  API     {running.api}
  OTLP    {_otlp(running)}
  docs    {running.api}/docs
  Kafka   {running.kafka}   (topics {", ".join(running.topics)})
  worker  {running.worker}/metrics

Two commands worth trying next:
  curl -s {running.api}/spans/query{key} -H 'content-type: application/json' \\
    -d '{{"filtering": {{"conditions": [{{"field": "attributes", "key": "gen_ai.operation.name", "value": "execute_tool"}}]}}}}'
  curl -s {running.api}/traces/{FIRST_TRACE_ID}{key} | python3 -m json.tool

`make logs` follows the log, `make down` drains and stops."""


def _otlp(running: Running) -> str:
    if running.otlp:
        return f"{running.otlp}   (over HTTP: OTEL_EXPORTER_OTLP_ENDPOINT={running.otlp})"
    why = f"; {running.otlp_left_out}: CLEARSPAN_OTLP_HTTP_PORT moves it" if running.otlp_left_out else ""
    return f"{running.api}/otlp   (over HTTP: OTEL_EXPORTER_OTLP_ENDPOINT={running.api}/otlp{why})"


def down() -> int:
    """Drain and stop the running stack."""
    layout = Layout(read_settings().data_dir.resolve())
    running = _read_started(layout)
    if running is None and is_held(layout):
        print("clearspan: a stack starts there and does not say where it runs; try again.", file=sys.stderr)
        return 1
    if running is None:
        ended = end_left_over(layout) if layout.children.exists() else []
        print(f"Clearspan is not running.{' Ended what was left over.' if ended else ''}")
        return 0
    print("Stopping Clearspan: what was acknowledged is stored and committed first …", flush=True)
    if Stopping.read(layout) is None:  # else somebody has asked it already, and asked twice it would end at once
        with suppress(ProcessLookupError):  # it ends just now
            os.kill(running.pid, signal.SIGTERM)
    if not _wait_until_ended(layout, running):
        print(
            f"clearspan: process {running.pid} stops, and has said nothing for {running.stop_s:.0f} s; `make logs` may say why.",
            file=sys.stderr,
        )
        return 1
    stopping = Stopping.read(layout)
    if stopping is None or not stopping.is_done:
        print("clearspan: it ended before everything was stored; `make logs` says why.", file=sys.stderr)
        return 1
    if stopping.dropped:
        print(f"clearspan: stopped. {stopping.dropped}", file=sys.stderr)
        return 1
    print("Stopped.")
    return 0


def _wait_until_ended(layout: Layout, running: Running) -> bool:
    """Wait for a stack that stops, for as long as it says that it does; false when it is silent for longer than it named."""
    said, said_s, shown_s = "", time.monotonic(), time.monotonic()
    while is_alive(running.pid):
        now_s = time.monotonic()
        with suppress(OSError):
            modified = str(layout.stopping.stat().st_mtime_ns)
            if modified != said:
                said, said_s = modified, now_s
        if now_s - said_s > running.stop_s:
            return False
        stopping = Stopping.read(layout)
        if stopping is not None and stopping.left_count and now_s - shown_s > PROGRESS_INTERVAL_S:
            print(f"  {stopping.left_count} records are not stored yet …", flush=True)
            shown_s = now_s
        time.sleep(0.05)
    return True


def status() -> int:
    """Say what runs and where; 0 when it is ready, 1 otherwise."""
    layout = Layout(read_settings().data_dir.resolve())
    running = Running.read(layout)
    if running is None:
        print("Clearspan is starting." if is_held(layout) else "Clearspan is not running. `make up` starts it.")
        return 1
    print(f"Clearspan runs as process {running.pid}{'' if _is_ready(running) else ' and is not ready yet'}.\n")
    print(_addresses(running))
    return 0 if _is_ready(running) else 1


def logs() -> int:
    """Follow the log until interrupted."""
    log = Layout(read_settings().data_dir.resolve()).log
    if not log.exists():
        print("There is no log yet. `make up` starts the stack.")
        return 1
    with log.open(errors="replace") as lines:
        print(_tail(log), end="")
        lines.seek(0, os.SEEK_END)
        while True:
            line = lines.readline()
            if line:
                print(line, end="", flush=True)
            else:
                time.sleep(0.2)


def reset(*, ask: bool) -> int:
    """Stop the stack and delete its data, after asking."""
    root = read_settings().data_dir.resolve()
    if not root.exists():
        print("There is no data to delete.")
        return 0
    if ask and not _confirmed(f"Delete every span and everything else in {_shown(root)}? [y/N] "):
        print("Nothing was deleted.")
        return 1
    code = down()
    return code if code != 0 else _delete(Layout(root))


def _delete(layout: Layout) -> int:
    """Delete what a stack keeps, and the directory unless somebody else keeps something there."""
    try:
        others = sorted({path.name for path in layout.root.iterdir()} - {path.name for path in layout.kept})
        for path in layout.kept:
            _remove(path)
        if not others:
            layout.root.rmdir()
    except OSError as exc:
        print(f"clearspan: {exc.filename} cannot be deleted: {exc.strerror}.", file=sys.stderr)
        return 1
    if others:
        named = ", ".join([*others[:OTHERS_SHOWN], *(["…"] if len(others) > OTHERS_SHOWN else [])])
        print(
            f"Deleted what the stack kept in {_shown(layout.root)}. Left there, for they are not the stack's: {named}."
        )
    else:
        print(f"Deleted {_shown(layout.root)}.")
    return 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _confirmed(question: str) -> bool:
    try:
        return input(question).strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _wait_until_ready(layout: Layout, process: subprocess.Popen[bytes] | None = None) -> Running | None:
    """The stack of the process, or of whoever holds the directory, when it is ready; ``None`` when it has ended or takes too long."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline_s and (is_held(layout) if process is None else process.poll() is None):
        running = Running.read(layout)
        if running is not None and (process is None or running.pid == process.pid) and _is_ready(running):
            return running
        time.sleep(0.1)
    return None


def _read_started(layout: Layout) -> Running | None:
    """The running stack; one that starts has children already, but can be told to stop only when it has written itself down."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while (running := Running.read(layout)) is None and is_held(layout) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return running


def _is_ready(running: Running) -> bool:
    return all(_answers_200(f"{address}/readyz") for address in (running.api, running.worker))


def _answers_200(url: str) -> bool:
    try:
        with _DIRECT.open(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _tail(path: Path, *, behind: int = 0, lines_max: int = 20) -> str:
    """The last lines of what stands behind so many bytes."""
    with path.open("rb") as file:
        file.seek(behind)
        return b"".join(file.readlines()[-lines_max:]).decode(errors="replace")


def _shown(path: Path) -> str:
    """The path as a person in this directory would name it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
