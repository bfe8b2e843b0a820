"""Invalid arguments are wrong usage, reported before a command does anything."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clearspan.cli import main

WRONG_USAGE = 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["keys", "create", "caf\udce9"], "'caf\\udce9' is not text in UTF-8"),
        (["keys", "create", "laptop", "--project", "\udcff"], "is not text in UTF-8"),
        (["keys", "create", "x" * 201], "it has 201 characters; at most 200 are allowed"),
        (["keys", "create", " "], "it must not be empty"),
        (["keys", "create", "laptop", "--user", "x" * 201], "at most 200 are allowed"),
        (["keys", "create", "00000000-0000-7000-8000-000000000001"], "is an id, not a name"),
        (["projects", "create", "x" * 201], "at most 200 are allowed"),
        (["projects", "create", ""], "it must not be empty"),
        (["projects", "create", "00000000-0000-7000-8000-000000000001"], "must not look like an id"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value)[:30].encode(errors="replace").decode(),
)
def test_invalid_argument_is_wrong_usage(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == WRONG_USAGE
    assert message in capsys.readouterr().err
