"""From errors of the Postgres driver to ours: one table by class of SQLSTATE."""

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
    Unavailable,
)


class UniqueViolation(Conflict):
    """Another row has this value, which must be unique."""

    def __init__(self, detail: str, *, constraint_name: str) -> None:
        self.constraint_name = constraint_name
        super().__init__(detail)


# The first matching row decides.
MEANING: Final[tuple[tuple[tuple[type[Exception], ...], type[ServiceError]], ...]] = (
    # U+0000 in a text, or in a text within JSON.
    ((asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError), InvalidInput),
    ((asyncpg.QueryCanceledError,), DeadlineExceeded),
    (
        (
            asyncpg.InsufficientResourcesError,
            asyncpg.LockNotAvailableError,
            asyncpg.TransactionRollbackError,  # serialization failures and deadlocks
        ),
        Overloaded,
    ),
    (
        (
            asyncpg.PostgresConnectionError,
            asyncpg.OperatorInterventionError,  # shutting down, starting up
            asyncpg.InvalidAuthorizationSpecificationError,  # the permission may be granted later
            asyncpg.InvalidCatalogNameError,
            OSError,
            TimeoutError,
        ),
        Unavailable,
    ),
    ((asyncpg.InterfaceError, asyncpg.InternalClientError), Unavailable),
    ((asyncpg.PostgresError,), InvalidStatement),
)
PUBLIC_MESSAGES: Final[Mapping[type[ServiceError], str]] = {
    DeadlineExceeded: "Postgres did not answer in time",
    Overloaded: "Postgres is busy",
    Unavailable: "Postgres is unavailable",
}
"""What clients see in place of the driver's message."""

FOREIGN: Final = tuple(kind for kinds, _ in MEANING for kind in kinds)


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except asyncpg.UniqueViolationError as exc:
        raise UniqueViolation(str(exc), constraint_name=exc.constraint_name or "") from exc
    except asyncpg.UndefinedTableError as exc:
        raise NotMigrated("Postgres") from exc
    except FOREIGN as exc:
        meaning = next(ours for kinds, ours in MEANING if isinstance(exc, kinds))
        public_message, said = PUBLIC_MESSAGES.get(meaning), str(exc) or type(exc).__name__
        raise meaning(
            f"{public_message or 'Postgres'}: {said}", public_message=f"{public_message}." if public_message else None
        ) from exc
