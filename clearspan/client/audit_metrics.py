"""The result of ``clearspan audit`` as metrics, for the textfile collector of Prometheus's node exporter."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_HELP: Final[Mapping[str, str]] = {
    "success": "1 if the last audit found every span once and as it was sent, in every way; else 0.",
    "made": "1 if the last audit could be made; else 0.",
    "last_run_timestamp_seconds": "When the last audit ended, in seconds since 1970.",
    "sent_spans": "Spans that the last audit sent.",
    "send_seconds": "How long it took until all spans were acknowledged.",
    "found_seconds": "How long it took from then until a way had found all spans; absent if it did not.",
    "missing_spans": "Spans that a way did not find.",
    "duplicate_spans": "Spans that a way found more than once.",
    "differing_spans": "Spans that a way found otherwise than they were sent.",
}


def write_metrics(file: Path, members: Mapping[str, Any] | None) -> None:
    """Replace a file by the metrics of one audit, at once; ``None``: it could not be made. Raises ``OSError``."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    unfinished.write_text("".join(f"{line}\n" for line in _lines(members)))
    unfinished.chmod(0o644)
    unfinished.replace(file)


def _lines(members: Mapping[str, Any] | None) -> Iterator[str]:
    values: dict[str, Any] = {"success": 0, "made": 0, "last_run_timestamp_seconds": round(time.time(), 3)}
    if members is not None:
        values |= {"success": int(members["is_good"]), "made": 1}
        values |= {"sent_spans": members["sent"], "send_seconds": members["send_seconds"]}
    for name, value in values.items():
        yield from _head(name)
        yield f"clearspan_self_audit_{name} {value}"
    for name, member in (
        ("found_seconds", "seconds"),
        ("missing_spans", "missing"),
        ("duplicate_spans", "twice"),
        ("differing_spans", "differing"),
    ):
        ways = [] if members is None else [way for way in members["ways"] if way[member] is not None]
        if ways:
            yield from _head(name)
        for way in ways:
            yield f'clearspan_self_audit_{name}{{way="{way["way"]}"}} {way[member]}'


def _head(name: str) -> Iterator[str]:
    yield f"# HELP clearspan_self_audit_{name} {_HELP[name]}"
    yield f"# TYPE clearspan_self_audit_{name} gauge"
