"""Dead letters on disk: what a crash has cut short costs nothing but itself."""

from __future__ import annotations

from pathlib import Path

from clearspan.embedded.journal import Journal, Letter


def letter(value: bytes) -> Letter:
    return Letter(value, b"key", (("clearspan-code", b"absurd_time"),))


def test_letters_come_back_as_they_were(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")

    journal.append(letter(b"\0\n\xff"))
    journal.append(Letter(b"", None, ()))

    assert journal.letters() == [letter(b"\0\n\xff"), Letter(b"", None, ())]


def test_a_line_that_was_cut_short_spoils_no_letter_after_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")
    journal.append(letter(b"first"))
    with (tmp_path / "letters.jsonl").open("ab") as file:
        file.write(b'{"value": "Zmly')

    journal.append(letter(b"second"))

    assert journal.letters() == [letter(b"first"), letter(b"second")]
