"""``PEERS`` says what it accepts, a peer that cannot be built is left out with a reason, and each has a column."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from bench.harness import table
from bench.peers.build import PROGRAMS, programs_of
from bench.peers.choice import PEERS, PeerChoice, peers_of
from bench.peers.rows import remarks, rows
from bench.queries import TRACE


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for Go, which is the only program on the path; the scratch modules are below ``tmp_path``."""
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.chdir(tmp_path)
    return program


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_peers_are_names_and_programs(tmp_path: Path) -> None:
    program = tmp_path / "victoria-traces"
    program.touch()

    assert peers_of(f"jaeger, victoriatraces={program}") == [
        PeerChoice("jaeger", None),
        PeerChoice("victoriatraces", program),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tempo", "'tempo' is not a peer; allowed are jaeger and victoriatraces, with commas between them"),
        ("jaeger,", "'' is not a peer; allowed are jaeger and victoriatraces, with commas between them"),
        ("jaeger=", "jaeger=: '' is not a file; after = comes the path of a program of jaeger"),
        ("jaeger=/", "jaeger=/: '/' is not a file; after = comes the path of a program of jaeger"),
        ("jaeger,jaeger", "names jaeger more than once"),
    ],
)
def test_what_is_not_a_peer_is_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentTypeError) as error:
        peers_of(text)
    assert str(error.value) == message


def test_a_peer_is_built_once_at_its_version(go: Path) -> None:
    write_program(go, 'echo "$@" >> log\n[ "$1" != build ] || echo > "$3"')
    expected = (PROGRAMS / f"jaeger-{PEERS['jaeger'].source.version}" / "jaeger").absolute()

    for _ in range(2):
        programs = programs_of(peers_of("jaeger"))
        assert programs.paths == {"jaeger": expected}
        assert programs.remarks == {"jaeger": "v1.76.0"}
    package = PEERS["jaeger"].source.package
    assert (expected.parent / "log").read_text() == f"get {package}@v1.76.0\nbuild -o jaeger {package}\n"
    assert (expected.parent / "go.mod").read_text() == "module scratch\n"


def test_a_peer_that_cannot_be_built_leaves_the_others(go: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_program(go, "echo 'go: downloading x' >&2; echo 'go: x@v1: 403 Forbidden' >&2; exit 1")
    programs = programs_of([PeerChoice("victoriatraces", None), PeerChoice("jaeger", go)])

    source = PEERS["victoriatraces"].source
    reason = f"left out: `go get {source.package}@{source.version}` failed: go: x@v1: 403 Forbidden"
    assert programs.paths == {"jaeger": go}
    assert programs.remarks["victoriatraces"] == reason
    messages = capsys.readouterr().err
    assert f"victoriatraces: {reason}" in messages
    assert "Name a program that you have: victoriatraces=/path/to/program" in messages


@pytest.mark.usefixtures("go")
def test_without_go_a_peer_is_left_out() -> None:
    assert programs_of(peers_of("jaeger")).remarks == {"jaeger": "left out: Go is not installed, which builds it"}


def peer_figures(merged_us: float, **queries: dict[str, float]) -> dict[str, object]:
    names = ("accepted_per_s", "spans_per_s", "idle_mib", "peak_mib", "idle_after_mib", "bytes_per_span")
    return {**dict.fromkeys(names, 1_500), "merged_us": merged_us, "queries": queries}


def test_each_peer_has_a_column_beside_clearspan() -> None:
    times_ms = {"p50_ms": 1.5, "p95_ms": 2.5}
    peers = {"jaeger": peer_figures(100.0, **{TRACE: times_ms}), "victoriatraces": peer_figures(33.0)}
    peers["victoriatraces"]["queries"] = {TRACE: {"p50_ms": 8.5, "p95_ms": 9.5}}
    own = {"merged_us": 90.5, "spans_per_s": 1, "idle_mib": 1, "peak_mib": 1, "idle_after_mib": 1}
    results = {
        "peers_plain": {"spans": 1_000, "peers": peers, "failures": {}},
        "stack_plain": {"spans": 1_000, "otlp": own},
        "query": {"spans": 999, TRACE: {"http_p50_ms": 20.0}},
    }
    lines = table(rows(results)).splitlines()

    assert lines[0].split() == ["what", "Clearspan", "Jaeger,", "badger", "VictoriaTraces"]
    cells = {line.partition("  ")[0]: line.partition("  ")[2].split("  ") for line in lines}
    stripped = {what: [cell.strip() for cell in line if cell.strip()] for what, line in cells.items()}
    assert stripped["side by side, plain: OTLP/HTTP → accepted"] == ["1,500 spans/s", "1,500 spans/s"]
    assert stripped["side by side, plain: processor time until idle"] == ["90.5 µs", "100.0 µs", "33.0 µs"]
    assert stripped["side by side, plain: on disk"] == ["1,500 B/span", "1,500 B/span"]
    assert stripped[f"side by side: {TRACE}, p50"] == ["1.5 ms", "8.5 ms"], "Clearspan was measured with other spans"


def test_the_report_says_what_was_built_and_what_failed() -> None:
    results = {
        "peers": {"jaeger": "v1.76.0", "victoriatraces": "left out: Go is not installed, which builds it"},
        "peers_llm": {"spans": 10, "peers": {}, "failures": {"jaeger": "PeerError: it dropped 5 of 10 spans"}},
    }
    assert remarks(results) == [
        "Jaeger, badger: v1.76.0",
        "VictoriaTraces: left out: Go is not installed, which builds it",
        "Jaeger, badger, llm: failed: PeerError: it dropped 5 of 10 spans",
    ]
    assert rows({}) == []
