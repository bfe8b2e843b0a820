"""What an API key may do in its project."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from enum import StrEnum
from typing import Final


class KeyScope(StrEnum):
    """``write`` includes ``read``, and ``admin`` includes all."""

    INGEST = "ingest"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


_INCLUDED: Final[Mapping[str, Set[KeyScope]]] = {
    KeyScope.INGEST: {KeyScope.INGEST},
    KeyScope.READ: {KeyScope.READ},
    KeyScope.WRITE: {KeyScope.WRITE, KeyScope.READ},
    KeyScope.ADMIN: {*KeyScope},
}


def with_included(scopes: Collection[str]) -> frozenset[KeyScope]:
    """Return the scopes and those that they include. Scopes of a later version grant nothing."""
    return frozenset[KeyScope]().union(*(_INCLUDED.get(scope, frozenset()) for scope in scopes))
