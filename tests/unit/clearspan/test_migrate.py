"""Problems of migrations that waiting does not cure: every command reports them in a sentence and fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import clearspan.embedded.stack
import clearspan.migrate
from clearspan.cli import main
from common.errors import InvalidStatement
from common.migrations import InvalidMigration
from common.settings import Settings

IS_AHEAD = InvalidMigration(
    "Migration 0009 is applied to Postgres but not part of this program, which is older than that."
)
MAY_NOT = InvalidStatement("Postgres: permission denied for schema public")


@pytest.mark.parametrize("problem", [IS_AHEAD, MAY_NOT], ids=lambda problem: type(problem).__name__)
def test_migrate_reports_the_problem_in_a_sentence(
    problem: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_settings: Settings) -> None:
        raise problem

    monkeypatch.setattr(clearspan.migrate, "migrate_all", fail)

    with pytest.raises(SystemExit) as left:
        main(["migrate"])

    assert left.value.code == 1
    assert capsys.readouterr().err == f"clearspan: {problem}\n"


def test_up_reports_newer_tables_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_settings: Settings) -> None:
        raise IS_AHEAD

    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(clearspan.embedded.stack, "run_stack", fail)

    with pytest.raises(SystemExit) as left:
        main(["up"])

    assert left.value.code == 1
    assert capsys.readouterr().err == f"clearspan: {IS_AHEAD}\n"
