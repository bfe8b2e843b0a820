"""Connecting to a ClickHouse server: TLS, users by password or by certificate, and why a connection failed."""

from __future__ import annotations

import errno
from socket import gaierror
from typing import Final

from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.exceptions import OperationalError

from common.settings import ClickHouseSettings
from common.tls import TlsNames, UnusableCertificate, tls_context, tls_failure

CONNECT_TIMEOUT_S: Final = 5.0
LONGER_THAN_ANY_DEADLINE_S: Final = 3600
"""The driver needs a number; each call has its own deadline."""

NAMES: Final = TlsNames.of("CLEARSPAN_CLICKHOUSE__TLS", protocol="CLEARSPAN_CLICKHOUSE__INTERFACE")
NOT_REACHED: Final = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})


async def connected_client(settings: ClickHouseSettings, host: str, *, connections: int) -> AsyncClient:
    """Return a client of the driver that has asked the server for its version.

    Raises the errors of the driver and ``UnusableCertificate``.
    """
    password = settings.password.get_secret_value()
    by_certificate = settings.tls.certificate_file is not None and not password
    headers = {"X-ClickHouse-User": settings.username, "X-ClickHouse-SSL-Certificate-Auth": "on"}
    client = AsyncClient(
        interface=settings.interface,
        host=host.strip("[]"),
        port=settings.port,
        username=None if by_certificate else settings.username,
        password=password,
        headers=headers if by_certificate else None,
        database=settings.database,
        compress=False,  # the bodies that matter are compressed inside
        connect_timeout=CONNECT_TIMEOUT_S,
        send_receive_timeout=LONGER_THAN_ANY_DEADLINE_S,
        query_retries=0,
        connector_limit=connections,
        autogenerate_session_id=False,
        client_name="clearspan",
    )
    if settings.interface == "https":  # the driver knows neither the password of a key nor renewed files
        backend = client._backend
        backend.ssl_context = backend.connector_kwargs["ssl"] = tls_context(settings.tls)
    try:
        await client._initialize()
    except BaseException as exc:
        await client.close()
        if type(exc) is OperationalError:  # without a code, so not from the engine
            raise OperationalError(f"{exc}; see {NAMES.protocol} and {NAMES.certificate}") from exc
        raise
    return client


def connection_failure(error: BaseException) -> str | None:
    """Return why a server was not reached, with the setting to look at; ``None`` if it may have been reached."""
    if isinstance(error, UnusableCertificate):
        return f"{NAMES.member(error.member)}: {error}"
    if (of_tls := tls_failure(error, NAMES)) is not None:
        return of_tls
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            return None
        if isinstance(cause, gaierror) or (isinstance(cause, OSError) and cause.errno in NOT_REACHED):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return None
