"""Peers are measured as programs: with a stand-in for both, as building the real ones takes minutes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.peers.choice import PEERS
from bench.peers.measure import measure
from bench.queries import ATTRIBUTE_TRACES, OPERATION, TRACE

ROOT = Path(__file__).parents[2]
SPANS = 20_000


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in as one file that can be run."""
    for peer in PEERS.values():
        monkeypatch.setattr(peer, "quiet_s", 0.6)
    return script(tmp_path / "jaeger", f'PYTHONPATH={ROOT} exec {sys.executable} -m tests.support.peer_stand_in "$@"')


@pytest.fixture
def broken_program(tmp_path: Path) -> Path:
    return script(tmp_path / "broken", "echo 'unknown flag'; exit 2")


def script(path: Path, command: str) -> Path:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return path


async def test_each_peer_gets_the_spans_and_answers_the_queries(program: Path) -> None:
    result = await measure("plain", spans_count=SPANS, programs=dict.fromkeys(PEERS, program))

    assert result["failures"] == {}
    assert set(result["peers"]) == set(PEERS)
    for figures in result["peers"].values():
        assert figures["merged_us"] > 0
        assert figures["peak_mib"] >= figures["idle_mib"] > 0
        counts = {name: query["spans_p50"] for name, query in figures["queries"].items()}
        assert counts[TRACE] == 10
        assert 100 < counts[ATTRIBUTE_TRACES] <= 200
        assert counts[OPERATION] == 50


async def test_a_peer_that_drops_spans_has_no_figures_but_a_reason(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOST_SERVICE", "service-0")
    result = await measure("llm", spans_count=1_000, programs={"jaeger": program, "victoriatraces": Path("/nowhere")})

    assert result["peers"] == {}
    assert result["failures"]["jaeger"] == "PeerError: it dropped 500 of 1,000 spans"
    assert "/nowhere" in result["failures"]["victoriatraces"]


async def test_a_program_that_ends_says_why(broken_program: Path) -> None:
    result = await measure("llm", spans_count=1_000, programs={"victoriatraces": broken_program})

    assert result["failures"]["victoriatraces"] == "PeerError: it did not start:\nunknown flag\n"
