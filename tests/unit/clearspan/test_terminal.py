from __future__ import annotations

import pytest

from clearspan.terminal import shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("\u2066a\u2069\u200f\u061c", "\\u2066a\\u2069\\u200f\\u061c"),
        ("a\u2028b\x85", "a\\u2028b\\x85"),
    ],
)
def test_what_commands_a_terminal_or_turns_a_line_is_spelt_out(text: str, told: str) -> None:
    assert shown(text) == told


@pytest.mark.parametrize("text", ["naïve", "שלום", "👩‍💻"])
def test_letters_of_every_script_are_shown_as_they_are(text: str) -> None:
    assert shown(text) == text


def test_what_is_kept_is_not_spelt_out() -> None:
    assert shown("a\n\tb", keeps="\n") == "a\n\\x09b"
