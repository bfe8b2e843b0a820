"""``clearspan audit``: send marked spans and read them back, once or again and again; or compare Kafka with the store.

Exit codes: 0 all is there, 1 something is not, ``NOT_MADE`` if the audit could not be made.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from clearspan.client.audit_metrics import write_metrics
from clearspan.client.audit_spans import MarkedRun, new_run, send_through_http, send_through_kafka
from clearspan.client.audit_ways import NAMED_MAX, ReadBack, WayResult, is_good
from clearspan.client.connection import ApiClient, RequestFailed, WrongUsage, open_connection
from clearspan.client.output import TableColumn, note, print_table
from clearspan.commands.audit import NOT_MADE, SendOptions
from clearspan.commands.options import ServerOptions
from clearspan.console import at_running_stack, fail, print_json
from clearspan.embedded.layout import Layout, Running
from common.errors import ServiceError
from common.settings import Settings

Result = TypeVar("Result")

WRONG_USAGE: Final = 2
_COLUMNS: Final = (
    TableColumn("way", is_whole=True),
    TableColumn("found", "right", is_whole=True),
    TableColumn("missing", "right", is_whole=True),
    TableColumn("twice", "right", is_whole=True),
    TableColumn("differing", "right", is_whole=True),
    TableColumn("seconds", "right", is_whole=True),
)


class AuditRun(NamedTuple):
    """One run: when it began, what was sent, and what each way found."""

    started: datetime
    run: MarkedRun
    send_s: float
    ways: Sequence[WayResult]

    def members(self, through: str | None) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "at": self.started.isoformat(),
            "run": self.run.run_id,
            "through": through,
            "sent": len(self.run.spans),
            "send_seconds": round(self.send_s, 4),
            "is_good": is_good(self.ways),
            "ways": [way.members() for way in self.ways],
        }


def audit(
    settings: Settings,
    *,
    verify: bool,
    topic: str | None,
    admin_key: str | None,
    server: ServerOptions,
    sending: SendOptions,
    as_json: bool,
) -> int:
    """Run the audit; return the exit code."""
    if verify:
        from clearspan.client.verify import verify as run_verify  # noqa: PLC0415 - it imports the decoder

        if sending != SendOptions() or server.project:
            return fail(
                "--verify does not go with --through, --spans, --timeout, --metrics, --interval and --project.", code=2
            )
        return run_verify(settings, server=server, admin_key=admin_key, topic=topic, as_json=as_json)
    if topic is not None or admin_key is not None:
        return fail("--topic and --admin-key are options of --verify.", code=2)
    options = sending._replace(through=sending.through or _known_way(settings))
    file = None if options.metrics is None else Path(options.metrics)
    if file is not None and not file.parent.is_dir():
        return fail(f"--metrics: {file.parent} is not a directory.", code=2)
    return asyncio.run(_audit_until_stopped(settings, server, options, as_json=as_json))


def _known_way(settings: Settings) -> Literal["kafka", "http"]:
    is_known = "kafka" in settings.model_fields_set or Running.read(Layout(settings.data_dir.resolve())) is not None
    return "kafka" if is_known else "http"


async def _audit_until_stopped(
    settings: Settings, server: ServerOptions, options: SendOptions, *, as_json: bool
) -> int:
    """Audit once, or at each interval until SIGINT. Raises ``KeyboardInterrupt`` then.

    The signal is noted here and not left to the runner of the loop: it only cancels this task, and a library that
    swallows the cancellation would swallow Ctrl-C.
    """
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    while True:
        code = await _unless(interrupted, _audit_once(settings, server, options, as_json=as_json))
        if options.interval is None or code == WRONG_USAGE:
            return code
        await _unless(interrupted, asyncio.sleep(options.interval.total_seconds()))


async def _unless(interrupted: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of the work; cancel it and raise ``KeyboardInterrupt`` if the event is set before its end."""
    running, waiting = asyncio.create_task(work), asyncio.create_task(interrupted.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not interrupted.is_set():
        return running.result()
    running.cancel()
    await asyncio.wait({running})
    raise KeyboardInterrupt


async def _audit_once(settings: Settings, server: ServerOptions, options: SendOptions, *, as_json: bool) -> int:
    result: AuditRun | None = None
    code = NOT_MADE
    try:
        async with open_connection(settings, server) as api:
            result = await _run(settings, api, options)
    except WrongUsage as exc:
        return fail(str(exc), code=WRONG_USAGE)
    except (RequestFailed, ServiceError) as exc:
        fail(f"the audit could not be made: {exc}")
    members = None
    if result is not None:
        members = result.members(options.through)
        code = 0 if is_good(result.ways) else 1
        _show(members, result.ways, as_json=as_json)
    if options.metrics is not None:
        try:
            write_metrics(Path(options.metrics), members)
        except OSError as exc:
            return fail(f"--metrics: {options.metrics}: {exc.strerror}.", code=NOT_MADE)
    return code


async def _run(settings: Settings, api: ApiClient, options: SendOptions) -> AuditRun:
    run = new_run(options.spans_count)
    reading = ReadBack(api, run, timeout_s=options.timeout_s)
    await reading.begin()
    started, started_s = datetime.now(UTC), time.monotonic()
    if options.through == "kafka":
        project_id = (await api.get("/projects/current")).get("project_id")
        await send_through_kafka(at_running_stack(settings).kafka, run, project_id=project_id)
    else:
        await send_through_http(api, run)
    send_s = time.monotonic() - started_s
    return AuditRun(started, run, send_s, await reading.read())


def _show(members: Mapping[str, Any], ways: Sequence[WayResult], *, as_json: bool) -> None:
    if as_json:
        print_json(members)
    else:
        _print(members, ways)
    sys.stdout.flush()


def _print(members: Mapping[str, Any], ways: Sequence[WayResult]) -> None:
    print_table(_COLUMNS, map(_row, ways))
    through = "Kafka" if members["through"] == "kafka" else "HTTP"
    print(
        f"\nSent {members['sent']:,} spans through {through} in {members['send_seconds']:.3f} s, run {members['run']}."
    )
    for way in ways:
        for name, spans in (("missing", way.missing), ("twice", way.twice), ("differing", sorted(way.differing))):
            if spans:
                more = f" and {len(spans) - NAMED_MAX:,} more" if len(spans) > NAMED_MAX else ""
                note(f"{way.way}: {name}: {', '.join(spans[:NAMED_MAX])}{more}")


def _row(way: WayResult) -> Sequence[object]:
    seconds = "–" if way.seconds is None else f"{way.seconds:.3f}"
    found = len(way.sent.spans) - len(way.missing)
    return way.way, f"{found:,}", len(way.missing), len(way.twice), len(way.differing), seconds
