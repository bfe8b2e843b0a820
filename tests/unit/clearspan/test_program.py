"""Hints name the program as the person can type it here; nothing names `make`, which only a checkout has."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from clearspan.cli import main
from clearspan.program import called

ROOT = Path(__file__).parents[3]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in a virtual environment that is not on the path, and below the working directory."""
    program = tmp_path / "my env" / "bin" / "clearspan"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    return program


def test_program_on_the_path_is_called_by_its_name(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))

    assert called("up --detach") == "clearspan up --detach"


def test_another_program_of_that_name_on_the_path_is_not_meant(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "clearspan"
    other.parent.mkdir()
    other.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.chdir(tmp_path)

    assert called("down") == "'my env/bin/clearspan' down"


def test_program_elsewhere_is_called_by_its_whole_path(installed: Path) -> None:
    assert called("down") == f"'{installed}' down"


def test_module_run_by_python_is_called_by_the_program_next_to_python(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(ROOT / "clearspan" / "__main__.py")])
    monkeypatch.setattr(sys, "executable", str(installed.with_name("python")))

    assert called("down") == f"'{installed}' down"


def test_module_without_a_program_is_run_by_python(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(ROOT / "clearspan" / "__main__.py")])
    monkeypatch.setattr(sys, "executable", str(installed.with_name("python")))
    installed.unlink()

    assert called("down") == f"'{installed.with_name('python')}' -m clearspan down"


def test_no_hint_names_a_target_of_the_makefile() -> None:
    hint = re.compile(r"`make (up|down|logs|status|reset)\b")
    sources = [
        path for package in ("clearspan", "common", "ingest", "query_api") for path in (ROOT / package).rglob("*")
    ]
    texts = {path: path.read_text() for path in sources if path.suffix in {".py", ".js", ".html"}}

    assert [
        f"{path.relative_to(ROOT)}: {found[0]}" for path, text in texts.items() for found in hint.finditer(text)
    ] == []


def test_version_is_that_of_the_package_and_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    running = ".".join(map(str, sys.version_info[:3]))
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"clearspan {version('clearspan')} (Python {running})\n"
