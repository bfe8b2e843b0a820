"""What every client of the driver is given to connect: addresses, TLS and SASL; and why a connection failed.

The driver logs why it cannot connect and raises an error without the reason. ``LastFailure`` keeps it
(ADR 0022).
"""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

from aiokafka import client as driver_client
from aiokafka import conn
from aiokafka import errors as driver_errors
from aiokafka.abc import AbstractTokenProvider
from typing_extensions import override

from common.host_names import UnresolvedNameError
from common.kafka.foreign_servers import BoundedScram, ForeignLoop, RefusedServer
from common.kafka_settings import KafkaSettings, SaslSettings
from common.secret_files import UnreadableSecret, read_secret
from common.setting_types import load_function
from common.telemetry import get_logger
from common.tls import tls_context, tls_failure

_log = get_logger(__name__)

FAILURE_S: Final = 60.0
"""How long the reason why a connection failed explains further failures."""

CLOSE_S: Final = 1.0
"""How long the end of a connection that was refused may take."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""A bearer token (RFC 6750)."""

_DEFAULTS: Final = KafkaSettings()

DENIED: Final = (
    driver_errors.TopicAuthorizationFailedError,
    driver_errors.GroupAuthorizationFailedError,
    driver_errors.ClusterAuthorizationFailedError,
    driver_errors.TransactionalIdAuthorizationFailed,
)


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return what a client of the driver needs to connect. Raises ``UnusableCertificate``."""
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap,
        "security_protocol": settings.security_protocol,
    }
    if settings.has_tls:
        options["ssl_context"] = tls_context(settings.tls)
    if settings.has_sasl:
        options |= _sasl_options(settings.sasl)
        if not settings.has_tls:
            _warn_of_plaintext(settings.sasl.mechanism)
    return options


def consumer_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return the same for a consumer. Raises ``UnusableCertificate``."""
    return {**client_options(settings), "client_rack": settings.client_rack or None}


def _sasl_options(sasl: SaslSettings) -> dict[str, Any]:
    if sasl.mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": sasl.mechanism, "sasl_oauth_token_provider": TokenProvider(sasl)}
    return {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": sasl.username,
        "sasl_plain_password": sasl.password.get_secret_value(),
    }


@cache
def _warn_of_plaintext(mechanism: str) -> None:
    """Warn, once for each process."""
    _log.warning(
        "Credentials and records of Kafka travel unencrypted, because the security protocol is SASL_PLAINTEXT.",
        mechanism=mechanism,
    )


class TokenUnavailable(driver_errors.KafkaError):  # type: ignore[misc] # the driver ships no types
    """There is no token to connect with. The message says why, without anything of the token."""


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc] # the driver ships no types
    """Reads the token for each connection, so that it may be renewed while the process runs."""

    def __init__(self, sasl: SaslSettings) -> None:
        self._sasl = sasl

    @override
    async def token(self) -> str:
        """Return a token. Raises ``TokenUnavailable``."""
        token = await self._read()
        if not _TOKEN.fullmatch(token):
            raise TokenUnavailable("what was read is not a bearer token")
        return token

    async def _read(self) -> str:
        if self._sasl.token_file is not None:
            try:
                return read_secret(self._sasl.token_file).strip()
            except UnreadableSecret as exc:
                raise TokenUnavailable(str(exc)) from None
        name = self._sasl.token_function
        try:
            returned = await _call(load_function(name))
        except Exception as exc:  # noqa: BLE001 - foreign code; its message may hold the token
            raise TokenUnavailable(f"the function {name} raised {type(exc).__name__}") from None
        if not isinstance(returned, str):
            raise TokenUnavailable(f"the function {name} returned {type(returned).__name__}, not str")
        return returned


async def _call(function: Callable[[], Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function()
    return await asyncio.to_thread(function)


class LastFailure:
    """Why the last connection of a client failed."""

    def __init__(self, settings: KafkaSettings | None = None) -> None:
        self.settings = settings or _DEFAULTS
        self._server = ""
        self._error: BaseException | None = None
        self._failed_s = 0.0
        self._is_connected = False

    def note(self, server: str, error: BaseException) -> None:
        """Note that a connection failed."""
        self._server, self._error, self._failed_s = server, error, time.monotonic()

    def forget(self) -> None:
        """Note that a connection succeeded."""
        self._error, self._is_connected = None, True

    def explain(self, error: BaseException) -> str | None:
        """Return in words why an operation failed with ``error``; ``None`` if that is not known."""
        if isinstance(error, DENIED):
            return f"the broker denies it to this user ({_denied(error)}); grant the right with an ACL"
        if self._error is not None and time.monotonic() - self._failed_s < FAILURE_S:
            reason = connection_failure(self._error, self.settings)
            return None if reason is None else f"{self._server}: {reason}"
        if self._is_connected and isinstance(error, driver_errors.KafkaConnectionError):
            return f"the broker closed the connection: it may expect a user; see {self.settings.names.tls.protocol}"
        return None


def _denied(error: BaseException) -> str:
    return f"{type(error).__name__.removesuffix('Error')}: {', '.join(map(_as_text, error.args)) or 'no name given'}"


def _as_text(argument: object) -> str:
    return ", ".join(sorted(map(str, argument))) if isinstance(argument, set | frozenset | list) else str(argument)


def connection_failure(error: BaseException, settings: KafkaSettings) -> str | None:
    """Return in words why a connection failed, and which setting to look at; ``None`` if the server was just away."""
    names = settings.names
    credentials = names.token if settings.sasl.mechanism == "OAUTHBEARER" else names.credentials
    if isinstance(error, TokenUnavailable):
        return f"no token: {error.args[0]}; see {names.token}"
    if isinstance(error, UnresolvedNameError | RefusedServer):
        return str(error.args[-1])
    if isinstance(error, driver_errors.UnsupportedSaslMechanismError):
        return f"the broker does not offer this mechanism of SASL; see {names.mechanism}"
    if isinstance(error, driver_errors.IllegalSaslStateError):
        return f"the broker expects no user on this port; see {names.tls.protocol}"
    if isinstance(error, driver_errors.SaslAuthenticationFailed):
        return f"the broker refuses the credentials; see {credentials}"
    if (of_tls := tls_failure(error, names.tls)) is not None:
        return of_tls
    if isinstance(error, ValueError):  # from SCRAM, where the server proves that it knows the password, too
        return f"the broker proved no knowledge of the password; see {credentials}"
    if _is_closed(error):
        return f"the server closed the connection at once: it may expect TLS, or not; see {names.tls.protocol}"
    return None


def _is_closed(error: BaseException) -> bool:
    return isinstance(error, ConnectionResetError) or isinstance(error.__cause__, EOFError | ConnectionResetError)


_current: ContextVar[LastFailure | None] = ContextVar("last_failure", default=None)
"""The one of the client for which this task, or the task that started it, works."""


def connecting_for(failure: LastFailure | None) -> LastFailure | None:
    """Let connections of this task, and of the tasks that it starts, note their failures; return what did so before."""
    before = _current.get()
    _current.set(failure)
    return before


async def _watched(host: str, port: int, **options: Any) -> Any:
    """Connect as the driver does, and note a failure."""
    failure = _current.get()
    connection = conn.AIOKafkaConnection(host, port, **options)
    if failure is not None and failure.settings.is_foreign:
        connection._loop = ForeignLoop(connection._loop, failure.settings.refusal_of)
    try:
        await connection.connect()
    except BaseException as exc:
        if connection._protocol is not None:  # TLS takes a round trip to end; the driver does not wait for it
            await asyncio.wait({connection.close()}, timeout=CLOSE_S)
        if not isinstance(exc, Exception):
            raise
        if failure is not None:
            failure.note(f"{host}:{port}", exc)
        if isinstance(exc, ValueError) and not isinstance(exc, OSError):  # would end a background task of the driver
            raise driver_errors.KafkaConnectionError(f"{host}:{port}: {type(exc).__name__}") from exc
        raise
    if failure is not None:
        failure.forget()
    return connection


class CheckedOAuth(conn.OAuthAuthenticator):  # type: ignore[misc] # the driver ships no types
    """The driver's, which takes the refusal of a token for success: it ignores what the broker answers (RFC 7628)."""

    @override
    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Return what to send next. Raises ``SaslAuthenticationFailed``."""
        if self._token_sent and payload:
            raise driver_errors.SaslAuthenticationFailed("the broker refuses the token")
        following: tuple[bytes, bool] | None = await super().step(payload)
        return following


def watch_connections() -> None:
    """Make every client of the driver note why it cannot connect, and compute no longer than is usual.

    Safe to call again.
    """
    driver_client.create_conn = _watched
    conn.OAuthAuthenticator = CheckedOAuth
    conn.ScramAuthenticator = BoundedScram
