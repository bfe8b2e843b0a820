"""``clearspan audit``: send marked spans and read them back, once or again and again; or compare Kafka with the store.

Exit codes: 0 all is there, 1 something is not, ``NOT_MADE`` if the audit could not be made.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from clearspan.client.audit_spans import RUN_ATTRIBUTE, MarkedRun, is_as_sent, send_through_http, send_through_kafka
from clearspan.client.connection import ApiClient, RequestFailed, WrongUsage, open_connection
from clearspan.client.output import TableColumn, note, print_table
from clearspan.command import Json, Option, Titled, command
from clearspan.console import NOT_MADE, at_running_stack, fail, print_json
from clearspan.embedded.layout import Layout, Running
from clearspan.options import AdminKey, Server, ServerOptions, limit, positive_number, time_span
from common.errors import ServiceError
from common.settings import Settings

DESCRIPTION: Final = """\
Check a running installation. Without --verify it sends marked spans through Kafka or HTTP, and reads them back page by
page. It says how long that took, and which spans are missing, came twice or differ. With --verify it compares every
record that Kafka still holds, up to the stored position of its partition, with what is stored.
"""

EXAMPLES: Final = """\
examples
  clearspan audit
  clearspan audit --through http --spans 100
  clearspan audit --metrics audit.prom --json
  clearspan audit --verify
  clearspan audit --verify --topic otlp_spans --json

in production
  CLEARSPAN_KEY=… clearspan audit --project audit --interval 1m --metrics /var/lib/node_exporter/clearspan.prom

--through kafka and --verify read the address of Kafka from CLEARSPAN_KAFKA__BOOTSTRAP, unless an embedded stack runs;
--verify also needs the key of the administrator. The marked spans stay: their service is `clearspan-audit`. Give them a
project of their own, whose retention deletes them. docs/self-audit.md explains the results.

Exit codes: 0 all is there, 1 something is missing, came twice or differs, 4 the audit could not be made.
"""
Result = TypeVar("Result")

SPANS_MAX: Final = 10_000
WRONG_USAGE: Final = 2
POLL_S: Final = 0.1
"""The pause between two walks."""

PAGES_MIN: Final = 4
"""Pages over which a walk spreads the spans."""

PAGE_MAX: Final = 500
NAMED_MAX: Final = 20
"""Spans of a kind that a result names."""

_COLUMNS: Final = tuple(
    TableColumn(name, "right", is_whole=True) for name in ("sent", "found", "missing", "twice", "differing", "seconds")
)
_METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "sent_spans": ("sent", "Spans that the last audit sent."),
    "send_seconds": ("send_seconds", "How long it took until all spans were acknowledged."),
    "found_seconds": ("seconds", "How long it took from then until all spans were found; absent if they were not."),
    "missing_spans": ("missing", "Spans that were not found."),
    "duplicate_spans": ("twice", "Spans that were found more than once."),
    "differing_spans": ("differing", "Spans that were found otherwise than they were sent."),
}
"""The member of the result and the meaning of each metric."""


@dataclass(slots=True)
class ReadBack:
    """The spans of a run that pages of a filter have returned."""

    run: MarkedRun
    seconds: float | None = None
    """From the acknowledgement of the last span to the page with the last one; ``None`` if some are missing."""

    counts: Counter[str] = field(default_factory=Counter)
    """How often each span was returned."""

    differing: set[str] = field(default_factory=set)
    """Spans that are not as they were sent."""

    @property
    def missing(self) -> list[str]:
        """The spans that were not returned."""
        return [span_id for span_id in self.run.spans if not self.counts[span_id]]

    @property
    def twice(self) -> list[str]:
        """The spans that were returned more than once, and those that were never sent."""
        return [span_id for span_id, count in self.counts.items() if count > 1 or span_id not in self.run.spans]

    @property
    def wrong(self) -> dict[str, list[str]]:
        """The spans that are missing, came twice or differ, by these words; without empty lists."""
        kinds = {"missing": self.missing, "twice": self.twice, "differing": sorted(self.differing)}
        return {kind: spans for kind, spans in kinds.items() if spans}

    async def walk(self, api: ApiClient) -> None:
        """Read all pages. Raises ``RequestFailed``."""
        condition = {"field": "attributes", "key": RUN_ATTRIBUTE, "operator": "is", "value": self.run.run_id}
        limit = min(PAGE_MAX, max(1, len(self.run.spans) // PAGES_MIN))
        windowing: dict[str, Any] = {"limit": limit, "order": "ascending"}
        while True:
            body = {"filtering": {"conditions": [condition]}, "windowing": windowing}
            answer = await api.post("/spans/query", body)
            for span in answer.get("spans", []):
                self._count(span)
            if "windowing" not in answer:
                return
            windowing["next"] = answer["windowing"]["next"]

    def _count(self, span: Mapping[str, Any]) -> None:
        span_id = str(span.get("span_id"))
        self.counts[span_id] += 1
        marked = self.run.spans.get(span_id)
        if marked is not None and not is_as_sent(span, marked, self.run):
            self.differing.add(span_id)

    def members(self) -> dict[str, Any]:
        """Return the result for programs."""
        wrong = self.wrong
        return {
            "seconds": None if self.seconds is None else round(self.seconds, 4),
            "found": len(self.run.spans) - len(wrong.get("missing", ())),
            **{kind: len(wrong.get(kind, ())) for kind in ("missing", "twice", "differing")},
            **{f"{kind}_spans": spans[:NAMED_MAX] for kind, spans in wrong.items()},
        }


def _spans_count(text: str) -> int:
    """Read a number of spans. Raises ``ArgumentTypeError``."""
    count = limit(text)
    if count > SPANS_MAX:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {SPANS_MAX:,}")
    return count


class SendOptions(NamedTuple):
    """What is sent, how long it may take to be found, and what is done with the result."""

    through: Annotated[
        Literal["kafka", "http"] | None,
        Option(
            None,
            "how the spans are sent (default: kafka if its address is known, else http)",
            choices=("kafka", "http"),
        ),
    ] = None
    spans_count: Annotated[int, Option("N", "spans to send (default: 20)", flag="--spans", type=_spans_count)] = 20
    timeout_s: Annotated[
        float,
        Option(
            "SECONDS",
            "after this a span that was not found is missing (default: 30)",
            flag="--timeout",
            type=positive_number,
        ),
    ] = 30.0
    metrics: Annotated[
        str | None, Option("FILE", "write the result as metrics of Prometheus, for its textfile collector")
    ] = None
    interval: Annotated[
        timedelta | None,
        Option("DURATION", "audit again and again, such as every 1m, until stopped", type=time_span),
    ] = None


class VerifyOptions(NamedTuple):
    """Whether Kafka is compared with what is stored, and which topic of it."""

    verify: Annotated[bool, Option(None, "compare what Kafka still holds with what is stored")] = False
    topic: Annotated[str | None, Option("NAME", "only this topic (default: all that the worker reads)")] = None
    admin_key: AdminKey = None


@command(description=DESCRIPTION, epilog=EXAMPLES)
def audit(
    settings: Settings,
    *,
    sending: SendOptions,
    verifying: Annotated[VerifyOptions, Titled("verify")],
    as_json: Json = False,
    server: Server,
) -> int:
    """Run the audit; return the exit code."""
    topic, admin_key = verifying.topic, verifying.admin_key
    if verifying.verify:
        from clearspan.client.verify import verify  # noqa: PLC0415 - it imports the decoder

        if sending != SendOptions() or server.project:
            return fail(
                "--verify does not go with --through, --spans, --timeout, --metrics, --interval and --project.", code=2
            )
        return verify(settings, server=server, admin_key=admin_key, topic=topic, as_json=as_json)
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
    members: dict[str, Any] | None = None
    code = NOT_MADE
    try:
        async with open_connection(settings, server) as api:
            members, read = await _run(settings, api, options)
        code = 1 if read.wrong else 0
        _show(members, read, as_json=as_json)
    except WrongUsage as exc:
        return fail(str(exc), code=WRONG_USAGE)
    except (RequestFailed, ServiceError) as exc:
        fail(f"the audit could not be made: {exc}")
    if options.metrics is not None:
        try:
            _write_metrics(Path(options.metrics), members)
        except OSError as exc:
            return fail(f"--metrics: {options.metrics}: {exc.strerror}.", code=NOT_MADE)
    return code


async def _run(settings: Settings, api: ApiClient, options: SendOptions) -> tuple[dict[str, Any], ReadBack]:
    """Send and read back; return the result for programs and for people."""
    run = MarkedRun.of(options.spans_count)
    started, started_s = datetime.now(UTC), time.monotonic()
    if options.through == "kafka":
        project_id = (await api.get("/projects/current")).get("project_id")
        await send_through_kafka(at_running_stack(settings).kafka, run, project_id=project_id)
    else:
        await send_through_http(api, run)
    send_s = time.monotonic() - started_s
    read = await _read_back(api, run, timeout_s=options.timeout_s)
    members = {
        "at": started.isoformat(),
        "run": run.run_id,
        "through": options.through,
        "sent": len(run.spans),
        "send_seconds": round(send_s, 4),
        "is_good": not read.wrong,
        **read.members(),
    }
    return members, read


async def _read_back(api: ApiClient, run: MarkedRun, *, timeout_s: float) -> ReadBack:
    """Walk the pages until all spans are there or the time has passed."""
    sent_s = time.monotonic()
    while True:
        read = ReadBack(run)
        await read.walk(api)
        now_s = time.monotonic()
        if not read.missing:
            read.seconds = now_s - sent_s
        if not read.missing or now_s - sent_s > timeout_s:
            return read
        await asyncio.sleep(POLL_S)


def _show(members: Mapping[str, Any], read: ReadBack, *, as_json: bool) -> None:
    if as_json:
        print_json(members)
    else:
        seconds = "–" if read.seconds is None else f"{read.seconds:.3f}"
        counts = [f"{members[column.title]:,}" for column in _COLUMNS[:-1]]
        print_table(_COLUMNS, [(*counts, seconds)])
        through = "Kafka" if members["through"] == "kafka" else "HTTP"
        sent = f"Sent {members['sent']:,} spans through {through} in {members['send_seconds']:.3f} s"
        print(f"\n{sent}, run {members['run']}.")
        for kind, spans in read.wrong.items():
            more = f" and {len(spans) - NAMED_MAX:,} more" if len(spans) > NAMED_MAX else ""
            note(f"{kind}: {', '.join(spans[:NAMED_MAX])}{more}")
    sys.stdout.flush()


def _write_metrics(file: Path, members: Mapping[str, Any] | None) -> None:
    """Replace a file by the metrics of one audit, at once; ``None``: it could not be made. Raises ``OSError``."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    unfinished.write_text("".join(f"{line}\n" for line in _metric_lines(members)))
    unfinished.chmod(0o644)
    unfinished.replace(file)


def _metric_lines(members: Mapping[str, Any] | None) -> Iterator[str]:
    made = members or {}
    metrics: list[tuple[str, Any, str]] = [
        ("success", int(made.get("is_good", False)), "1 if every span was found once and as it was sent; else 0."),
        ("made", int(members is not None), "1 if the last audit could be made; else 0."),
        ("last_run_timestamp_seconds", round(time.time(), 3), "When the last audit ended, in seconds since 1970."),
        *((name, made.get(member), meaning) for name, (member, meaning) in _METRICS.items()),
    ]
    for name, value, meaning in metrics:
        if value is not None:
            yield f"# HELP clearspan_self_audit_{name} {meaning}"
            yield f"# TYPE clearspan_self_audit_{name} gauge"
            yield f"clearspan_self_audit_{name} {value}"
