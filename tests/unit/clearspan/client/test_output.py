"""What client commands print: nothing that a span contains can command the terminal, and tables fit where they can."""

from __future__ import annotations

import sys

import pytest
from rich.cells import cell_len

from clearspan.client.output import GAP, PIPE_COLUMN_WIDTH_MAX, TableColumn, bar, print_objects, print_table, safe
from clearspan.console import wide_tables

HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eevil\x9b31m[red]x[/red]:smile:\r\n"
SHOWN = "\\x1b[2J\\x1b]0;title\\x07\\u202eevil\\x9b31m[red]x[/red]:smile:\\x0d\\x0a"


def test_hostile_text_is_escaped_in_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([TableColumn("name"), TableColumn("value")], [[HOSTILE, {"key": HOSTILE}]])

    printed = capsys.readouterr().out
    assert SHOWN in printed
    assert not set(printed.replace("\n", "")) & set(map(chr, [*range(32), *range(0x7F, 0xA0), 0x202E]))
    assert len(printed.splitlines()) == 3


def test_hostile_text_is_escaped_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects([{"name": HOSTILE}])

    printed = capsys.readouterr().out
    assert printed.isascii()
    assert "\x1b" not in printed


def test_long_values_are_cut_and_empty_ones_stay_empty() -> None:
    assert cell_len(safe("x" * 10_000).plain) == 500
    assert safe(None).plain == ""


def test_one_long_value_does_not_pad_every_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [TableColumn("name"), TableColumn("trace_id", is_whole=True)]

    print_table(columns, [["n" * 600, "0" * 32], ["short", "1" * 32]])

    _title, _rule, long, short = capsys.readouterr().out.splitlines()
    assert "n…" in long
    assert len(long) == len(short) == PIPE_COLUMN_WIDTH_MAX + GAP + 32


def test_ids_and_the_last_column_are_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [TableColumn("id", is_whole=True), TableColumn("name"), TableColumn("reason")]

    print_table(columns, [["i" * 200, "n" * 200, "r" * 200]])

    printed = capsys.readouterr().out
    assert "i" * 200 in printed
    assert "n" * 200 not in printed
    assert "r" * 200 in printed


@pytest.mark.parametrize("is_terminal", [False, True])
def test_wide_tables_have_every_column_and_every_value(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    columns = [TableColumn("a"), TableColumn("type", is_optional=True), TableColumn("b")]

    with wide_tables():
        print_table(columns, [["x" * 200, "chat", "y" * 200]])

    assert capsys.readouterr().out.splitlines()[-1].split() == ["x" * 200, "chat", "y" * 200]


def test_a_narrow_terminal_cuts_only_what_may_be_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("NO_COLOR", "1")

    print_table([TableColumn("name"), TableColumn("trace_id", is_whole=True)], [["n" * 60, "0" * 32]])

    *_, row = capsys.readouterr().out.splitlines()
    assert "…" in row
    assert "0" * 32 in row
    assert len(row.rstrip()) <= 70


@pytest.mark.parametrize(
    ("width", "row", "said"),
    [
        (60, "chat $1", ""),
        (50, "$1", "The terminal is too narrow for type.\n"),
        (40, "", "The terminal is too narrow for type, cost.\n"),
    ],
)
def test_a_terminal_that_is_too_narrow_leaves_out_optional_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, row: str, said: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    columns = [TableColumn(name, is_optional=True) for name in ("type", "empty", "cost")]

    print_table([*columns, TableColumn("id", is_whole=True)], [["chat", None, "$1", "0" * 40]])

    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].split() == [*row.split(), "0" * 40]
    assert printed.err == said


def test_output_that_cannot_be_encoded_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)

    print_table([TableColumn("name")], [["naïve"]])

    stream.flush()
    assert b"na\\xefve" in stream.buffer.getvalue()


@pytest.mark.parametrize(
    ("share", "shown"), [(0, "    "), (0.5, "██  "), (1, "████"), (2, "████"), (0.001, "▏   "), (0.28125, "█▏  ")]
)
def test_bar_is_as_long_as_its_share(share: float, shown: str) -> None:
    assert bar(share, 4) == shown
