"""The embedded Postgres, real, wherever the data directory lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from clearspan.embedded.postgres import EmbeddedPostgres
from common.postgres.pool import open_database
from common.settings import PostgresSettings


@pytest.mark.parametrize(
    "name", ["My Projects", "c++", "50%25", "a#1", "it's", "R&D; (é)", "=@:!~*[]{}<>|^", "long" * 50]
)
async def test_it_runs_in_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    postgres = EmbeddedPostgres(tmp_path / name / "postgres")
    try:
        async with open_database(PostgresSettings(dsn=SecretStr(postgres.dsn))) as database:
            await database.fetch_one("SELECT 1")
    finally:
        postgres.stop()
