"""Connections to servers that a project chose: they must not use up what the process needs for its own work (ADR 0034).

The driver resolves names, and computes passwords of SCRAM, in the threads of the event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from aiokafka import conn
from aiokafka import errors as driver_errors
from typing_extensions import override

from common.errors import Overloaded
from common.host_names import UnresolvedNameError, resolve

ITERATIONS_MAX: Final = 100_000
"""Of SCRAM; they take 0.02 to 0.05 s. Apache Kafka allows 16,384."""


class RefusedServer(driver_errors.KafkaError):  # type: ignore[misc] # the driver ships no types
    """A server is not allowed, or asks for too much. The message says why."""


class BoundedScram(conn.ScramAuthenticator):  # type: ignore[misc] # the driver ships no types
    """The driver's, which computes for as long as the server says: minutes, in a thread that nothing can stop."""

    @override
    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        """Derive the key. Raises ``RefusedServer``."""
        if not 0 < iterations <= ITERATIONS_MAX:
            raise RefusedServer(
                f"the broker asks for {iterations} iterations of SCRAM; at most {ITERATIONS_MAX:,} are allowed"
            )
        super().create_salted_password(salt, iterations)


class ForeignLoop:
    """The event loop for one connection, which resolves names with ``common.host_names``.

    ``refusal_of`` says why an address is not allowed, or ``None``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, refusal_of: Callable[[str], str | None]) -> None:
        self._loop = loop
        self._refusal_of = refusal_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(
        self, protocol: Callable[[], asyncio.Protocol], host: str, port: int, *, ssl: ssl.SSLContext | None
    ) -> Any:
        """Connect to the first address that can be reached. Raises ``OSError`` and ``RefusedServer``."""
        failure: OSError | None = None
        for *_, address in await _addresses(host, port):
            if (refusal := self._refusal_of(str(address[0]))) is not None:
                raise RefusedServer(refusal)
            try:
                return await self._loop.create_connection(
                    protocol, address[0], port, ssl=ssl, server_hostname=None if ssl is None else host
                )
            except OSError as exc:
                failure = exc
                if _is_of_tls(exc):
                    break
        raise failure or UnresolvedNameError(f"the name '{host}' has no address")


def _is_of_tls(error: OSError) -> bool:
    """Return whether the server was reached: another address of it would fail in the same way."""
    return isinstance(error, ssl.SSLError)


async def _addresses(host: str, port: int) -> list[Any]:
    """Resolve a name; the driver knows no ``Overloaded``."""
    try:
        return [*await resolve(host, port)]
    except Overloaded as exc:
        raise UnresolvedNameError(exc.public_message) from exc
