from __future__ import annotations

import pytest
from pydantic import ValidationError

from common.settings import PostgresSettings


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://clearspan@127.0.0.1:5432/clearspan",
        "postgres://user:p%2Fw@db/clearspan?sslmode=require",
        "postgresql://one:5432,two:5433/clearspan",
        "postgresql://user@[::1]:5432/clearspan",
        "postgresql://postgres:@/postgres?host=/run/a:b",
        "postgresql://",
    ],
)
def test_addresses_of_postgres_are_taken(dsn: str) -> None:
    assert PostgresSettings.model_validate({"dsn": dsn}).dsn.get_secret_value() == dsn


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("", "begins with"),
        ("nonsense", "begins with"),
        ("mysql://db/clearspan", "begins with"),
        ("postgresql+asyncpg://user:secret@db/clearspan", "begins with"),
        ("postgresql://db:port/clearspan", "no number"),
        ("postgresql://db:65536/clearspan", "no number"),
        ("postgresql://user:secret/of@db/clearspan", "percent-encoded"),
    ],
)
def test_what_is_no_address_of_postgres_is_refused_without_telling_it(dsn: str, reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        PostgresSettings.model_validate({"dsn": dsn})

    [error] = refused.value.errors()
    assert (error["loc"], reason in error["msg"], "secret" in error["msg"]) == (("dsn",), True, False)
