"""``clearspan reset``: it deletes the files of a stack, or prints a sentence and fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearspan.embedded import commands
from clearspan.environment import read_settings


def test_data_directory_that_is_a_file_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / "file"))

    assert commands.reset(read_settings(), yes=True) == 1

    assert f"{tmp_path / 'file'} cannot be deleted" in capsys.readouterr().err


def test_reset_deletes_only_the_files_of_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("clickhouse/data", "postgres", "documents/of/mine"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("lock", "clearspan.log", "children.new", "letter.txt"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))

    assert commands.reset(read_settings(), yes=True) == 0

    assert sorted(path.name for path in tmp_path.iterdir()) == ["documents", "letter.txt"]
    assert "These are not the stack's and were left: documents, letter.txt." in capsys.readouterr().out


def test_reset_deletes_the_directory_if_it_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "data"
    elsewhere.mkdir()
    root.mkdir()
    (root / "clickhouse").symlink_to(elsewhere)
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(root))

    assert commands.reset(read_settings(), yes=True) == 0

    assert not root.exists()
    assert elsewhere.exists()
