from __future__ import annotations

from argparse import Namespace

import pytest

from clearspan import dead_letters
from ingest.replay import DeadLetter

LETTER = DeadLetter(
    id="0-17",
    topic="spans",
    partition=0,
    offset=3,
    span_index=0,
    code="invalid_span_id",
    reason="“\x1b[2J\n0-18\x9b31m” is not a span id.",
    created_at="2026-01-02T03:04:05Z",
    bytes_count=9,
)


def test_a_reason_writes_no_row_of_its_own_and_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    dead_letters._print_table([LETTER])

    _head, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1
    assert rows[0].endswith(r"“\x1b[2J\x0a0-18\x9b31m” is not a span id.")


def test_the_bytes_of_a_letter_command_no_terminal() -> None:
    assert dead_letters._readable(
        b'{\n\t"name": "\x1b]0;owned\x07 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb"}\r\n'
    ) == ('{\n\t"name": "\\x1b]0;owned\\x07 👩\u200d💻"}\\x0d\n')


def test_a_letter_named_twice_is_given_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(dead_letters, "_confirmed", asked.append)

    dead_letters._drop(Namespace(ids=["0-17", "0-3", "0-17"], yes=False, json=False))

    assert asked == ["Give up 0-17, 0-3? [y/N] "]
