"""Connecting to Postgres: TLS, the password, and several hosts in turn."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

import asyncpg

from common.hosts import HostOrder
from common.settings import PostgresSettings
from common.tls import tls_context


def connection_options(settings: PostgresSettings) -> dict[str, Any]:
    """Return what the driver needs to connect. Raises ``UnusableCertificate``."""
    dsn = settings.dsn.get_secret_value()
    options: dict[str, Any] = {
        "dsn": dsn,
        "password": settings.password.get_secret_value() or None,
        "timeout": settings.timeout_s,
    }
    if settings.tls.is_set:
        options["ssl"] = tls_context(settings.tls)
    if len(dsns_of(dsn)) > 1 and "target_session_attrs" not in dsn:
        options["target_session_attrs"] = "read-write"
    return options


_FAILURES: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # among them that of a host that cannot be written to
)


class Connector:
    """Connects to the first host that can be written to; each has the whole time of a connection.

    The driver gives all hosts one time together, so that one that does not answer would hide the next.
    """

    def __init__(self, settings: PostgresSettings) -> None:
        self._dsns = dsns_of(settings.dsn.get_secret_value())
        self._order = HostOrder(len(self._dsns))

    async def connect(self, _dsn: str = "", **options: Any) -> Any:
        """Return a connection of the driver; raises what it raises for the last host."""
        failure: Exception | None = None
        for host in self._order.in_turn:
            try:
                connection = await asyncpg.connect(self._dsns[host], **options)
            except asyncio.CancelledError:
                self._order.fails(host)
                raise
            except _FAILURES as exc:
                self._order.fails(host)
                failure = exc
            else:
                self._order.works(host)
                return connection
        assert failure is not None  # noqa: S101 - there is at least one host
        raise failure


def dsns_of(dsn: str) -> list[str]:
    """Return a connection string for each of the hosts between ``@`` and ``/``."""
    scheme, _, rest = dsn.partition("://")
    matched = re.match(r"([^/?]*)(.*)", rest, re.DOTALL)
    authority, path = ("", "") if matched is None else matched.groups()
    user, at, hosts = authority.rpartition("@")
    return [f"{scheme}://{user}{at}{host}{path}" for host in hosts.split(",")]
