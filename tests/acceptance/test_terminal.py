"""Client commands on a terminal: progress, colors, tables that fit, Ctrl-C."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.support.stack import RunningStack
from tests.support.terminal import on_terminal

pytestmark = pytest.mark.timeout(300)

TRACE_ID = "7e" * 16
COLOR = re.compile(r"\x1b\[[\d;]*3[0-8]")
CURSOR_SHOWN = "\x1b[?25h"
ATTRIBUTES = {
    "ag.type.span": "chat",
    "ag.meta.request.model": "a-large-model-2026-05-01",
    "ag.metrics.tokens.incremental.total": 61,
    "ag.metrics.costs.incremental.total": 0.02,
}
FAILED = {"trace_id": TRACE_ID, "span_id": "00000000000000a1", "span_name": "answer a customer who asks", "start_time":
          "2026-05-01T12:00:00Z", "end_time": "2026-05-01T12:00:02.5Z", "status_code": "STATUS_CODE_ERROR",
          "attributes": ATTRIBUTES}  # fmt: skip
OURS = ("trace_id", "is", TRACE_ID)


@pytest.fixture(scope="module")
def shop(stack: RunningStack) -> RunningStack:
    """The stack, with a failed call of a model."""
    stack.ask("/tracing/spans/ingest", {"spans": [FAILED]})
    condition = {"field": "trace_id", "value": TRACE_ID}
    stack.ask_until("/spans/query", {"filtering": {"conditions": [condition]}}, lambda answer: answer["count"] == 1)
    return stack


def test_progress_is_on_the_terminal_while_the_result_goes_to_a_file(shop: RunningStack, tmp_path: Path) -> None:
    file = tmp_path / "spans.json"
    shown = on_terminal(shop.environment, "query", *OURS, "--json", stdout=file)

    assert shown.code == 0
    assert "reading spans" in shown.written
    assert shown.written.endswith(f"{CURSOR_SHOWN}\r\x1b[1A\x1b[2K")  # the progress has vanished
    assert [json.loads(line)["trace_id"] for line in file.read_text().splitlines()] == [TRACE_ID]


def test_export_shows_what_it_has_received(shop: RunningStack, tmp_path: Path) -> None:
    file = tmp_path / f"{'long ' * 20}.jsonl"
    # The path of the file is wider than the terminal, and stays in one line.
    ours = json.dumps({"conditions": [{"field": "trace_id", "value": TRACE_ID}]})
    shown = on_terminal(shop.environment, "export", str(file), "--filter", ours)

    assert shown.code == 0
    progress, *_, last = shown.lines()
    assert re.search(r"exporting 1 spans 0\.0 MB 0:00:\d\d", progress)
    assert last.startswith(f"{file}: 1 span, ")


@pytest.mark.parametrize("command", [("query", *OURS), ("trace", TRACE_ID), ("groups", "--by", "span_name", *OURS)])
def test_tables_fit_80_columns(shop: RunningStack, command: tuple[str, ...]) -> None:
    shown = on_terminal(shop.environment, *command)

    assert shown.code == 0
    *_, rule, row = shown.lines()
    assert set(rule) == {"─"}
    assert cell_len(rule) <= 80
    assert cell_len(row) <= 80


def test_columns_that_were_chosen_are_shown_on_every_terminal(shop: RunningStack) -> None:
    shown = on_terminal(shop.environment, "query", *OURS, "--columns", "start_time,tokens,cost,model,trace_id")

    assert "too narrow" not in shown.written
    assert "$0.02" in shown.lines()[-1]


@pytest.mark.parametrize("is_colored", [True, False])
def test_colors_are_shown_unless_the_environment_says_no(shop: RunningStack, is_colored: bool) -> None:
    shown = on_terminal({**shop.environment, "NO_COLOR": "" if is_colored else "1"}, "query", *OURS)

    assert "✗" in shown.lines()[-1]
    assert bool(COLOR.search(shown.written)) == is_colored


def test_ctrl_c_ends_tail_quietly(shop: RunningStack) -> None:
    shown = on_terminal(shop.environment, "tail", *OURS, "--last", "1d", interrupt_after=TRACE_ID)

    assert shown.code == 130
    assert len(shown.lines()) == 2  # the span, and ^C as the terminal shows it
