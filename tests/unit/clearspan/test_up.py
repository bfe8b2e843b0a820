"""``clearspan up`` where it cannot keep anything: a sentence, and no success."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clearspan.embedded import commands


@pytest.mark.parametrize("up", [commands.up, commands.up_detached])
def test_a_data_directory_that_is_a_file_is_told_in_a_sentence(
    up: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / "file"))

    assert up() == 1

    assert f"CLEARSPAN_DATA_DIR is {tmp_path / 'file'}, where nothing can be kept" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a,b", 'a"b', "$(touch pwned)", "a`b", "what?", "a\\b", "a\nb", "a\udc80b"])
@pytest.mark.parametrize("up", [commands.up, commands.up_detached])
def test_a_data_directory_whose_path_cannot_reach_the_stores_is_refused(
    up: Callable[[], int],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / name / "data"))

    assert up() == 1

    assert 'All characters are legal but , " $ ` ? \\, control characters' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
