"""How a client of ClickHouse says who it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.clickhouse import server
from common.settings import ClickHouseSettings
from tests.support.certificates import Authority


class _Backend:
    ssl_context = None

    def __init__(self) -> None:
        self.connector_kwargs: dict[str, Any] = {}


class _Client:
    """Keeps what the driver's client is given."""

    given: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        type(self).given = given
        self._backend = _Backend()

    async def _initialize(self) -> None:
        """Ask nobody."""


@pytest.mark.parametrize(
    ("password", "username", "headers"),
    [
        ("", None, {"X-ClickHouse-User": "ada", "X-ClickHouse-SSL-Certificate-Auth": "on"}),
        ("S3CR3T", "ada", None),
    ],
    ids=["by certificate", "by password"],
)
async def test_certificate_without_a_password_is_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, password: str, username: str | None, headers: dict[str, str] | None
) -> None:
    monkeypatch.setattr(server, "AsyncClient", _Client)
    client = Authority(tmp_path).issue("client")
    members = {"interface": "https", "username": "ada", "password": password, "tls": {"certificate_file": client}}

    await server.connected_client(ClickHouseSettings.model_validate(members), "[::1]", connections=1)

    given = _Client.given
    assert (given["host"], given["username"], given["headers"]) == ("::1", username, headers)
