"""A secret of a project with masking rules is found nowhere: not in responses, dead letters or files (contract §9)."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.kafka.record import PROJECT_HEADER
from tests.support.command_line import runner
from tests.support.otlp import request
from tests.support.produce import produce
from tests.support.shell_pages import check_commands, commands
from tests.support.stack import RunningStack, running_stack

ROOT = Path(__file__).parents[2]
SECRET, CONTROL = "sk-PlantedPlantedPlanted", "cs-ControlControlControl"
READ_ALL = """
import asyncio, sys
from pathlib import Path
from common.clickhouse.connect import open_store
from common.clickhouse.store import Statement
from common.settings import ClickHouseSettings

async def read():
    store = open_store(ClickHouseSettings(interface="chdb", cluster=""), data_dir=Path(sys.argv[1]))
    for table in ("spans", "span_versions", "span_arrivals"):
        print((await store.select(Statement(f"SELECT * FROM {table}"), deadline_s=60.0)).to_pylist())
    await store.close()

asyncio.run(read())
"""


@pytest.fixture(scope="module")
def masking_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningStack, Path]]:
    data_dir = tmp_path_factory.mktemp("masking") / "data"
    with running_stack(data_dir) as stack:
        yield stack, data_dir


@pytest.mark.long
async def test_commands_of_the_page_mask_what_it_shows(masking_stack: tuple[RunningStack, Path]) -> None:
    stack, _ = masking_stack
    page = commands("masking.md")
    printed = await check_commands(page, environment={**stack.environment, "PYTHONPATH": str(ROOT)})

    assert len(page) >= 3
    [span] = json.loads(printed[1])["spans"]
    assert span["attributes"]["user"]["email"].startswith("hash:")
    assert "cookie" not in printed[1]
    assert "No rules" in printed[2]


def test_secret_is_found_nowhere(masking_stack: tuple[RunningStack, Path]) -> None:
    stack, _ = masking_stack
    added = stack.command("projects", "masking", "add", "--value", "sk-[A-Za-z]+")
    assert added.returncode == 0, added.stderr
    time.sleep(6.0)
    content = json.dumps([{"role": "user", "content": f"{SECRET} {CONTROL}"}])
    spans = request([f"span {SECRET}"], attributes={"input.value": content, "k": f"{SECRET} {CONTROL}"})
    rejected = request([f"rejected {SECRET}"], absurd=[f"rejected {SECRET}"], attributes={"k": f"{SECRET} {CONTROL}"})
    produce(stack.kafka, "otlp_spans", [spans, rejected, f"not a span {SECRET}".encode()])

    query = {"filtering": {"conditions": [{"field": "content", "operator": "contains", "value": CONTROL}]}}
    found = stack.ask_until("/spans/query", query, lambda answer: answer["count"] == 1)
    traces = stack.ask("/traces/query", {})
    listed = stack.ask_until("/admin/dead-letters", None, lambda answer: answer["count"] == 2)
    letters = [stack.ask(f"/admin/dead-letters/{letter['id']}") for letter in listed["dead_letters"]]
    raw = b"".join(base64.b64decode(letter["dead_letter"]["value_base64"]) for letter in letters)
    searched = stack.ask(
        "/spans/query",
        {"filtering": {"conditions": [{"field": "content", "operator": "contains", "value": "Planted"}]}},
    )
    shown = stack.ask_until("/masking", None, lambda answer: answer["masking"]["masked"]["values"] >= 5)
    metrics = urllib.request.urlopen(f"{stack.worker}/metrics", timeout=120).read().decode()

    [without_value] = [letter["id"] for letter in listed["dead_letters"] if not letter["bytes_count"]]
    replayed = stack.command("dead-letters", "replay", without_value)
    skipped = stack.ask("/admin/dead-letters/replay", {"code": "undecodable"})

    assert (replayed.returncode, "value is not kept" in replayed.stderr) == (1, True), replayed
    assert (skipped["count"], skipped["skipped"][0]["id"]) == (0, without_value)
    everything = json.dumps([found, traces, listed, letters, shown]) + raw.decode("latin-1")
    assert CONTROL in json.dumps(found)
    assert CONTROL.encode() in raw
    assert "Planted" not in everything
    assert searched["count"] == 0
    assert "clearspan_masked_values_total 0" not in metrics


def test_rule_that_is_wrong_fails_in_words(
    masking_stack: tuple[RunningStack, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stack, _ = masking_stack
    run = runner(monkeypatch, capsys, stack.environment)
    rules: dict[str, Any] = {"rules": [{"value": "(", "action": "drop"}]}
    (tmp_path / "rules.json").write_text(json.dumps(rules))

    without = run("projects", "masking", "add")
    broken = run("projects", "masking", "set", str(tmp_path / "rules.json"))
    missing = run("projects", "masking", "set", str(tmp_path / "none.json"))
    piped = stack.command("projects", "masking", "set", "-", "--json", stdin='{"rules": []}')
    kept = stack.command("projects", "masking", "clear", stdin="n\n")

    assert (without.code, broken.code, missing.code, piped.returncode, kept.returncode) == (
        2,
        1,
        2,
        0,
        1,
    )
    assert "masking.rules[0].value" in broken.stderr
    assert json.loads(piped.stdout)["rules"] == []
    assert PROJECT_HEADER == "project-id"


def test_stored_rows_and_files_have_no_trace_of_the_secret(masking_stack: tuple[RunningStack, Path]) -> None:
    stack, data_dir = masking_stack
    stack.process.send_signal(signal.SIGTERM)
    assert stack.process.wait(180) == 0

    read = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(data_dir)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    broker = data_dir / "broker"  # has the records as they were sent, as every Kafka
    paths = [data_dir.with_suffix(".log"), *data_dir.rglob("*")]
    files = [path for path in paths if path.is_file() and not path.is_symlink() and b"Planted" in path.read_bytes()]
    files = [path for path in files if not path.is_relative_to(broker)]

    assert CONTROL in read.stdout
    assert "Planted" not in read.stdout
    assert files == []
