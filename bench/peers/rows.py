"""The rows of the performance table that put peers next to Clearspan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.harness import Row
from bench.peers.choice import PEERS
from bench.varied import SETS


class _Figure(NamedTuple):
    what: str
    name: str
    """Its name in the results of a peer."""

    unit: str
    own: Sequence[str] = ()
    """The stage that measures the same of Clearspan, if one does, without the set; then where the figure is."""


FIGURES: Final = (
    _Figure("OTLP/HTTP → accepted", "accepted_per_s", "spans/s"),
    _Figure("OTLP/HTTP → stored", "spans_per_s", "spans/s", ("stack", "otlp", "spans_per_s")),
    _Figure("processor time until idle", "merged_us", "µs", ("stack", "otlp", "merged_us")),
    _Figure("on disk", "bytes_per_span", "B/span", ("ingest", "worker", "settled", "bytes_per_span")),
    _Figure("memory before the first span", "idle_mib", "MiB", ("stack", "otlp", "idle_mib")),
    _Figure("memory, peak", "peak_mib", "MiB", ("stack", "otlp", "peak_mib")),
    _Figure("memory when idle again", "idle_after_mib", "MiB", ("stack", "otlp", "idle_after_mib")),
)


def stage_of(name: str) -> str:
    """Return the stage that measures the peers with a set."""
    return f"peers_{name}"


def rows(results: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a whole run. Clearspan is in those for which it was measured with as many spans."""
    return [row for name in SETS if stage_of(name) in results for row in _rows(results, name)]


def remarks(results: Mapping[str, Any]) -> list[str]:
    """Return lines that say what was measured of each peer, or why it was not."""
    lines = [f"{PEERS[name].title}: {remark}" for name, remark in results.get("peers", {}).items()]
    for name in SETS:
        failures = results.get(stage_of(name), {}).get("failures", {})
        lines += [f"{PEERS[peer].title}, {name}: failed: {reason}" for peer, reason in failures.items()]
    return lines


def _rows(results: Mapping[str, Any], name: str) -> list[Row]:
    stage = results[stage_of(name)]
    peers: Mapping[str, Any] = {PEERS[peer].title: result for peer, result in stage["peers"].items()}
    lines = []
    for figure in FIGURES:
        own = ""
        if figure.own:
            own_stage, *path = figure.own
            own = _own(results, f"{own_stage}_{name}", path, stage["spans"], figure.unit)
        cells = {title: f"{result[figure.name]:,} {figure.unit}" for title, result in peers.items()}
        lines.append(Row(f"side by side, {name}: {figure.what}", own, peers=cells))
    queries = dict.fromkeys(query for result in peers.values() for query in result.get("queries", ()))
    for query in queries:
        for percent in ("p50", "p95"):
            own = _own(results, "query", [query, f"http_{percent}_ms"], stage["spans"], "ms")
            cells = {title: f"{result['queries'][query][f'{percent}_ms']} ms" for title, result in peers.items()}
            lines.append(Row(f"side by side: {query}, {percent}", own, peers=cells))
    return lines


def _own(results: Mapping[str, Any], stage: str, path: Sequence[str], spans_count: int, unit: str) -> str:
    value = results.get(stage, {})
    if value.get("spans") != spans_count:
        return ""
    for member in path:
        value = value[member]
    return f"{value:,} {unit}"
