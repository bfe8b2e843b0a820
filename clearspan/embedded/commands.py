"""The commands of the embedded stack: up, down, status, env, logs, reset. Each returns its exit code."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from clearspan.console import confirm, fail, no_stack
from clearspan.embedded.children import end_left_over
from clearspan.embedded.guard import is_alive
from clearspan.embedded.layout import Layout, Running, StackError, Stopping, is_held, make_root
from clearspan.program import called
from common.migrations import InvalidMigration
from common.prices.file import prices_of
from common.settings import InvalidSettings, Settings

READY_TIMEOUT_S = 60.0
PROGRESS_INTERVAL_S = 5.0
FOREIGN_NAMES_MAX = 5
FIRST_TRACE_ID = "3e62f5b20306a7b90576815eceddda07"
"""The trace that ``first_span.py`` publishes."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Ignores the HTTP proxy of the environment: the stack listens on loopback."""


def up(settings: Settings, *, detach: bool) -> int:
    """Run the stack until it is stopped, in this terminal or in the background. Raises ``InvalidSettings``."""
    return _start(settings) if detach else _run(settings)


def _run(settings: Settings) -> int:
    from clearspan.embedded.stack import run_stack  # noqa: PLC0415 - loads the engine, which only this command needs

    try:
        asyncio.run(run_stack(settings))
    except (StackError, InvalidMigration) as exc:
        return fail(str(exc))
    except ExceptionGroup as failed:  # the worker's port is taken, while other tasks run already
        invalid = failed.subgroup(InvalidSettings)
        if invalid is None:
            raise
        raise invalid.exceptions[0] from None
    return 0


def _start(settings: Settings) -> int:
    """Start the stack in the background, wait until it is ready, and show a first span.

    A running stack is left as it is.
    """
    layout = Layout(settings.data_dir.resolve())
    if is_held(layout):
        return _leave_as_it_is(layout)
    try:
        make_root(layout)
    except StackError as exc:
        return fail(str(exc))
    broker = "" if settings.embedded_broker == "off" else "broker, "
    print(f"Starting Clearspan: {broker}Postgres, engine, worker and API in one process …", flush=True)
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
    if running is None and process.poll() is not None and is_held(layout):  # another start was faster
        return _leave_as_it_is(layout)
    if running is None:
        return fail(
            f"the stack did not start. The end of {_relative(layout.log)}:\n\n{_tail(layout.log, start=log_before)}"
        )
    print(f"Ready after {time.monotonic() - started_s:.1f} s.\n", flush=True)
    return _show_first_span(settings, running)


def _leave_as_it_is(layout: Layout) -> int:
    """Print the addresses of the stack that already runs or starts, once it is ready."""
    running = Running.read(layout)
    if running is None or _waiting_for(running):
        print("Clearspan is already starting; waiting for it …", flush=True)
        running = _wait_until_ready(layout)
    if running is None:
        return fail(f"the stack that is running is not ready; `{called('logs')}` may say why.")
    print("Clearspan is already running; nothing was changed.\n")
    print(_addresses(running))
    return 0


def _show_first_span(settings: Settings, running: Running) -> int:
    from clearspan.embedded.first_span import show_first_span  # noqa: PLC0415 - loads the Kafka client

    if running.auth == "on":
        print(
            f"Authentication is on: `{called('keys create NAME')}` creates a key."
            " Send it as `Authorization: ApiKey …`.\n"
        )
    else:
        kafka = running.reached(settings.kafka)
        try:
            print(asyncio.run(show_first_span(kafka, running.api)), end="\n\n")
        except TimeoutError:
            return fail(f"POST /spans/query did not return the first span in time; `{called('logs')}` may say why.")
    print(_addresses(running))
    return 0


def _addresses(running: Running) -> str:
    key = "" if running.auth == "off" else " -H 'authorization: ApiKey KEY'"
    needs_key = "" if running.auth == "off" else " (after `export CLEARSPAN_KEY=KEY`)"
    condition = '{"field": "attributes", "key": "gen_ai.operation.name", "value": "execute_tool"}'
    return f"""\
  page    {running.api}/   (the explorer: open it in a browser)
  API     {running.api}
  OTLP    {_otlp(running)}
          {_otlp_grpc(running)}
  docs    {running.api}/docs
  Kafka   {running.kafka}   (topics {", ".join(running.topics)})
  worker  {running.worker}/metrics

Three commands worth trying next{needs_key}:
  {called(f"trace {FIRST_TRACE_ID} --messages")}
  {called("query span_type is tool")}
  curl -s {running.api}/spans/query{key} -H 'content-type: application/json' \\
    -d '{{"filtering": {{"conditions": [{condition}]}}}}'

`{called("logs")}` follows the log, `{called("down")}` stops."""


def _otlp(running: Running) -> str:
    if running.otlp:
        return f"{running.otlp}   (over HTTP: OTEL_EXPORTER_OTLP_ENDPOINT={running.otlp})"
    why = f"; {running.otlp_left_out}: set CLEARSPAN_OTLP_HTTP_PORT to another port" if running.otlp_left_out else ""
    return f"{running.api}/otlp   (over HTTP: OTEL_EXPORTER_OTLP_ENDPOINT={running.api}/otlp{why})"


def _otlp_grpc(running: Running) -> str:
    if running.otlp_grpc:
        return f"{running.otlp_grpc}   (over gRPC: OTEL_EXPORTER_OTLP_ENDPOINT={running.otlp_grpc})"
    why = running.otlp_grpc_left_out
    return f"gRPC is off{f': {why}; set CLEARSPAN_OTLP_GRPC_PORT to another port' if why else ''}"


def down(settings: Settings) -> int:
    """Stop the running stack after what has begun."""
    layout = Layout(settings.data_dir.resolve())
    running = _read_started(layout)
    if running is None and is_held(layout):
        return fail("a stack is starting and cannot be stopped yet; try again.")
    if running is None:
        ended = end_left_over(layout) if layout.children.exists() else []
        print(f"Clearspan is not running.{' Ended the processes that it had left behind.' if ended else ''}")
        return 0
    print("Stopping Clearspan after the requests and batches that have begun …", flush=True)
    if Stopping.read(layout) is None:  # else it is stopping already, and a second signal would end it at once
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGTERM)
    if not _wait_until_ended(layout, running):
        return fail(
            f"process {running.pid} is stopping, but has made no progress for {running.stop_s:.0f} s; "
            f"`{called('logs')}` may say why."
        )
    stopping = Stopping.read(layout)
    if stopping is None or not stopping.is_done:
        return fail(f"the stack ended before it was done; `{called('logs')}` says why.")
    print("Stopped.")
    return 0


def _wait_until_ended(layout: Layout, running: Running) -> bool:
    """Wait for a stack that is stopping; return false if it reports no progress for ``running.stop_s``."""
    reported, reported_s = "", time.monotonic()
    while is_alive(running.pid):
        now_s = time.monotonic()
        with suppress(OSError):
            modified = str(layout.stopping.stat().st_mtime_ns)
            if modified != reported:
                reported, reported_s = modified, now_s
        if now_s - reported_s > running.stop_s:
            return False
        time.sleep(0.05)
    return True


def status(settings: Settings) -> int:
    """Print what runs, and where; return 0 if it is ready."""
    layout = Layout(settings.data_dir.resolve())
    running = Running.read(layout)
    if running is None:
        not_running = f"Clearspan is not running. `{called('up --detach')}` starts it."
        print("Clearspan is starting." if is_held(layout) else not_running)
        return 1
    if waiting := _waiting_for(running):
        print(f"Clearspan is running as process {running.pid}, but is not ready yet. {waiting}")
        return 1
    print(f"Clearspan is running as process {running.pid}.\n")
    print(_addresses(running))
    if warning := prices_of(settings).age_warning(datetime.now(UTC).date()):
        print(f"\nWarning: {warning}")
    return 0


def env(settings: Settings) -> int:
    """Print the address of the running stack as a setting that a shell evaluates."""
    running = Running.read(Layout(settings.data_dir.resolve()))
    if running is None:
        return fail(f"{no_stack(settings)}.")
    print(f"export CLEARSPAN_URL={shlex.quote(running.api)}")
    return 0


def logs(settings: Settings) -> int:
    """Follow the log until interrupted."""
    log = Layout(settings.data_dir.resolve()).log
    if not log.exists():
        print(f"There is no log yet. `{called('up --detach')}` starts the stack.")
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


def reset(settings: Settings, *, yes: bool) -> int:
    """Ask unless the answer is yes already, then stop the stack and delete its data."""
    root = settings.data_dir.resolve()
    if not root.exists():
        print("There is no data to delete.")
        return 0
    if not yes and not confirm(f"Delete every span and everything else in {_relative(root)}? [y/N] "):
        print("Nothing was deleted.")
        return 1
    code = down(settings)
    return code if code != 0 else _delete(Layout(root))


def _delete(layout: Layout) -> int:
    """Delete the files of the stack, and the directory unless it contains other files."""
    try:
        foreign = sorted({path.name for path in layout.root.iterdir()} - {path.name for path in layout.kept})
        for path in layout.kept:
            _remove(path)
        if not foreign:
            layout.root.rmdir()
    except OSError as exc:
        return fail(f"{exc.filename} cannot be deleted: {exc.strerror}.")
    if foreign:
        names = ", ".join([*foreign[:FOREIGN_NAMES_MAX], *(["…"] if len(foreign) > FOREIGN_NAMES_MAX else [])])
        print(
            f"Deleted the files of the stack in {_relative(layout.root)}. "
            f"These are not the stack's and were left: {names}."
        )
    else:
        print(f"Deleted {_relative(layout.root)}.")
    return 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _wait_until_ready(layout: Layout, process: subprocess.Popen[bytes] | None = None) -> Running | None:
    """Return the stack of the process, or else the one that holds the directory, once it is ready.

    Says what it waits for. Returns ``None`` if it ends or takes too long.
    """
    started_s, printed = time.monotonic(), ""
    while time.monotonic() < started_s + READY_TIMEOUT_S and (
        is_held(layout) if process is None else process.poll() is None
    ):
        running = Running.read(layout)
        if running is not None and (process is None or running.pid == process.pid):
            waiting = _waiting_for(running)
            if not waiting:
                return running
            if waiting != printed and time.monotonic() > started_s + PROGRESS_INTERVAL_S:
                print(f"  {waiting}", flush=True)
                printed = waiting
        time.sleep(0.1)
    return None


def _read_started(layout: Layout) -> Running | None:
    """Return the running stack. A starting one can be stopped only after it has written ``Running``: wait for that."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while (running := Running.read(layout)) is None and is_held(layout) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return running


def _waiting_for(running: Running) -> str:
    """Say what the stack waits for; empty if it is ready."""
    for name, address in (("API", running.api), ("worker", running.worker)):
        try:
            _DIRECT.open(f"{address}/readyz", timeout=2.0).close()
        except urllib.error.HTTPError as response:
            with response:
                return f"The {name} waits: {' '.join(json.load(response)['waiting_for'].values())}"
        except OSError:
            reason = f"The {name} does not answer yet."
            if running.has_own_broker:
                return reason
            return f"{reason} Is Kafka at {running.kafka} (CLEARSPAN_KAFKA__BOOTSTRAP)?"
    return ""


def _tail(path: Path, *, start: int = 0, lines_max: int = 20) -> str:
    """Return the last lines of a file after its first ``start`` bytes."""
    with path.open("rb") as file:
        file.seek(start)
        return b"".join(file.readlines()[-lines_max:]).decode(errors="replace")


def _relative(path: Path) -> str:
    """Return the path relative to the working directory if it is in it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
