"""Every stage of the performance table is printed, and what cannot be measured is said to be left out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.__main__ import STAGES, Size
from bench.harness import Row, table
from bench.peers.rows import stage_of
from bench.report import ROWS, report


def test_each_stage_has_rows() -> None:
    assert {*ROWS, stage_of("plain"), stage_of("llm")} == set(STAGES)


def test_a_run_without_peers_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert STAGES["peers_plain"](Size(spans=100_000, rounds=1, peers={})) is None
    assert "left out" in capsys.readouterr().err


def test_a_table_has_the_columns_that_are_used() -> None:
    assert table([Row("insert", "30 µs", "20 µs"), Row("merges", "5 µs")]).splitlines() == [
        "what    Clearspan  engine alone",
        "──────  ─────────  ────────────",
        "insert  30 µs      20 µs",
        "merges  5 µs",
    ]


def test_a_table_has_a_column_for_each_peer() -> None:
    rows = [Row("on disk", "150 B", peers={"A": "900 B", "B": "120 B"}), Row("merges", "5 µs", ratio="2.0")]
    assert [line.split() for line in table(rows).splitlines()] == [
        ["what", "Clearspan", "A", "B", "ratio", "or", "difference"],
        ["───────", "─────────", "─────", "─────", "───────────────────"],
        ["on", "disk", "150", "B", "900", "B", "120", "B"],
        ["merges", "5", "µs", "2.0"],
    ]


def test_the_report_has_what_was_measured_and_the_load() -> None:
    indexes = {"set": "plain", "insert_us": 30.0, "bare_us": 15.0, "spread_us": 0.5, "parts_us": {"a": 1.0, "b": 9.0}}
    lines = report({"indexes_plain": indexes, "load_average": {"indexes_plain": 2.5}}).splitlines()

    assert [line.split("  ")[0] for line in lines[2:4]] == ["plain: insert, merges stopped", "plain:"]
    assert "of it b" in lines[3]  # the most expensive part first
    assert lines[-1] == "Load average at the ends of the stages: 2.5 to 2.5"


def test_a_stage_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    indexes = {"set": "plain", "insert_us": 30.0, "bare_us": 15.0, "spread_us": 0.5, "parts_us": {}}

    def run(module: str, *_: object, timeout_s: float) -> dict[str, object]:
        if module == "bench.decode":
            raise subprocess.CalledProcessError(1, module)
        return indexes

    path = tmp_path / "bench.json"
    monkeypatch.setattr(command, "run_child", run)
    monkeypatch.setattr(sys, "argv", ["bench", "--stages", "decode", "indexes_plain", "--json", str(path)])
    with pytest.raises(SystemExit, match="Failed: decode"):
        command.main()

    assert json.loads(path.read_text())["indexes_plain"] == indexes
    assert "insert, merges stopped" in capsys.readouterr().out
