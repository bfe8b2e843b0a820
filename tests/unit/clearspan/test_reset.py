"""``clearspan reset`` where it cannot delete: a sentence, and no success."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearspan.embedded import commands


def test_a_data_directory_that_is_a_file_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / "file"))

    assert commands.reset(ask=False) == 1

    assert f"{tmp_path / 'file'} cannot be deleted" in capsys.readouterr().err
