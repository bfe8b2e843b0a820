"""From errors of the Postgres driver to ours: one table, mostly of classes of SQLSTATE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import asyncpg

from common.errors import (
    Conflict,
    DeadlineExceeded,
    InvalidInput,
    InvalidStatement,
    NotMigrated,
    Overloaded,
    ServiceError,
    Unauthorized,
    Unavailable,
)
from common.tls import TlsNames, tls_failure


class UniqueViolation(Conflict):
    """Another row has this value, which must be unique."""

    def __init__(self, detail: str, *, constraint_name: str) -> None:
        self.constraint_name = constraint_name
        super().__init__(detail)


MEANING: Final[Mapping[type[Exception], type[ServiceError]]] = {
    asyncpg.CharacterNotInRepertoireError: InvalidInput,  # U+0000 in a text
    asyncpg.UntranslatableCharacterError: InvalidInput,  # U+0000 in a text within JSON
    asyncpg.QueryCanceledError: DeadlineExceeded,
    asyncpg.InsufficientResourcesError: Overloaded,
    asyncpg.LockNotAvailableError: Overloaded,
    asyncpg.TransactionRollbackError: Overloaded,  # serialization failures and deadlocks
    asyncpg.PostgresConnectionError: Unavailable,
    asyncpg.OperatorInterventionError: Unavailable,  # shutting down, starting up
    asyncpg.InvalidAuthorizationSpecificationError: Unavailable,  # the permission may be granted later
    asyncpg.InvalidCatalogNameError: Unavailable,
    asyncpg.ReadOnlySQLTransactionError: Unavailable,  # a standby, or a primary that has become one
    OSError: Unavailable,
    TimeoutError: Unavailable,
    asyncpg.InterfaceError: Unavailable,
    asyncpg.InternalClientError: Unavailable,
    asyncpg.PostgresError: InvalidStatement,
}
"""Our error for each of the driver's. The first row decides of which an error is an instance."""

NAMES: Final = TlsNames.of("CLEARSPAN_POSTGRES__TLS", protocol="CLEARSPAN_POSTGRES__DSN (sslmode)")

PUBLIC_MESSAGES: Final[Mapping[type[ServiceError], str]] = {
    DeadlineExceeded: "Postgres did not answer in time",
    Overloaded: "Postgres is busy",
    Unavailable: "Postgres is unavailable",
}
"""What clients see in place of the driver's message."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except asyncpg.UniqueViolationError as exc:
        raise UniqueViolation(str(exc), constraint_name=exc.constraint_name or "") from exc
    except asyncpg.ForeignKeyViolationError as exc:
        # A key is remembered for seconds: with it a request may still come for a project that has been deleted.
        if "project_id" not in (exc.constraint_name or ""):
            raise InvalidStatement(f"Postgres: {exc}") from exc
        raise Unauthorized from exc
    except asyncpg.UndefinedTableError as exc:
        raise NotMigrated("Postgres") from exc
    except tuple(MEANING) as exc:
        meaning = next(ours for kind, ours in MEANING.items() if isinstance(exc, kind))
        public_message, reason = PUBLIC_MESSAGES.get(meaning), _reason(exc)
        raise meaning(
            f"{public_message or 'Postgres'}: {reason}", public_message=f"{public_message}." if public_message else None
        ) from exc


def _reason(error: Exception) -> str:
    """Return why a statement or a connection failed, with the setting to look at if that is known."""
    if (of_tls := tls_failure(error, NAMES)) is not None:
        return of_tls
    message = str(error) or type(error).__name__
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return f"{message}; see CLEARSPAN_POSTGRES__DSN and CLEARSPAN_POSTGRES__PASSWORD"
    return message
