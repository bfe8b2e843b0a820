"""Print the performance table (``make bench``, ``make bench-full``), and write it as JSON.

Each stage is a command of its own (``python -m bench.STAGE``), which measures 100,000 spans or less in about a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.harness import run_child, say
from bench.peers.build import programs_of
from bench.peers.choice import peers_of
from bench.peers.rows import stage_of
from bench.processes import guarded
from bench.report import report

SPANS: Final = 300_000
STAGE_S_MAX: Final = 4 * 3_600.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured. LLM spans are four times as large as plain ones and cost four times as much."""

    spans: int
    rounds: int
    peers: Mapping[str, Path]
    """The programs of the peers that are measured."""

    @property
    def llm_spans(self) -> int:
        """The number of spans of the set ``llm``."""
        return self.spans // 5

    @property
    def stack_spans(self) -> int:
        """The number of plain spans of the runs that repeat what another stage measures at full size."""
        return min(self.spans, 300_000)

    @property
    def stack_llm_spans(self) -> int:
        """The number of LLM spans of such runs."""
        return min(self.llm_spans, 60_000)


def _child(module: str, *arguments: object) -> dict[str, Any]:
    return run_child(f"bench.{module}", *arguments, timeout_s=STAGE_S_MAX)


def _peers(size: Size, name: str, spans_count: int) -> dict[str, Any] | None:
    if not size.peers:
        say("  left out: --peers names no peer that can run.")
        return None
    programs = ",".join(f"{peer}={program}" for peer, program in size.peers.items())
    return _child("peers", name, spans_count, "--peers", programs)


STAGES: Final[dict[str, Callable[[Size], dict[str, Any] | None]]] = {
    "decode": lambda size: _child("decode", 4_000, 3 * size.rounds),
    "indexes_plain": lambda size: _child("indexes", "plain", 10_000, 3 + 4 * size.rounds),
    "indexes_llm": lambda size: _child("indexes", "llm", 4_000, 3 + 4 * size.rounds),
    "ingest_plain": lambda size: _child("ingest", "plain", size.spans, size.rounds),
    "ingest_llm": lambda size: _child("ingest", "llm", size.llm_spans, size.rounds),
    "stack_plain": lambda size: _child("stack", "plain", size.stack_spans, size.rounds),
    stage_of("plain"): lambda size: _peers(size, "plain", size.spans),
    "stack_llm": lambda size: _child("stack", "llm", size.stack_llm_spans, size.rounds),
    stage_of("llm"): lambda size: _peers(size, "llm", size.stack_llm_spans),
    "query": lambda size: _child("query", size.spans, 20 * size.rounds),
    "rankings": lambda size: _child("rankings", min(size.spans, 1_000_000), 10 * size.rounds),
    "load": lambda size: _child("load", size.stack_spans, 10 * size.rounds),
    "semconv": lambda size: _child("semconv", 3 * size.rounds),
    "lineage": lambda _: _child("lineage"),
    "freshness": lambda size: _child("freshness", 7 * size.rounds),
}


def main() -> None:
    """Run the stages one after the other, on a machine that does nothing else."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spans", type=int, default=SPANS, help=f"plain spans (default: {SPANS})")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of which the median counts (default: 1)")
    parser.add_argument(
        "--peers", type=peers_of, default=(), help="peers to measure in the same run; see python -m bench.peers --help"
    )
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), metavar="STAGE", help="only these")
    parser.add_argument("--json", type=Path, help="the file for the JSON (default: .cache/bench-SPANS.json)")
    arguments = parser.parse_args()
    programs = programs_of(arguments.peers)
    size = Size(arguments.spans, arguments.rounds, programs.paths)
    path = arguments.json or Path(f".cache/bench-{size.spans}.json")
    results: dict[str, Any] = {"spans": size.spans, "rounds": size.rounds, "when": time.strftime("%Y-%m-%d")}
    results |= {"peers": programs.remarks, "load_average": {}}
    failed = []
    for number, name in enumerate(arguments.stages, start=1):
        say(f"{number} of {len(arguments.stages)}: {name} …")
        try:
            with guarded():
                result = STAGES[name](size)
        except subprocess.SubprocessError as exc:
            say(f"  failed: {exc}")
            failed.append(name)
            continue
        if result is not None:
            results[name] = result
            results["load_average"][name] = round(os.getloadavg()[0], 1)
            _write(path, results)
    if results["load_average"]:
        print(report(results))
        say(f"Written as JSON: {path}")
    sys.exit(f"Failed: {', '.join(failed)}" if failed else 0)


def _write(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
