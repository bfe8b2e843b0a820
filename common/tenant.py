"""For whom work is done right now: what shared resources are divided by (``common/fair_share.py``, contract §2).

A context variable, like the trace context of a request: every handle, thread and connection that is taken on behalf of a request
counts to its project, without each function in between passing it on. It decides nothing about what may be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Tenant:
    """A project as a user of shared resources."""

    project_id: UUID
    has_neighbours: bool = False
    """Whether other projects have keys: then this one gets at most its share."""

    queue_s: float | None = None
    """How long a call waits for its turn, in seconds; ``None``: as long as the caller of the resource allows."""


OWN_WORK: Final = Tenant(UUID(int=0))
"""Work of the program itself: inserts, health checks, the lookup of keys."""

_CURRENT: Final[ContextVar[Tenant]] = ContextVar("tenant", default=OWN_WORK)


def current_tenant() -> Tenant:
    """Return the tenant whose work is being done; ``OWN_WORK`` outside of requests."""
    return _CURRENT.get()


@contextmanager
def working_for(tenant: Tenant) -> Iterator[None]:
    """Count what is done inside to ``tenant``."""
    token = _CURRENT.set(tenant)
    try:
        yield
    finally:
        _CURRENT.reset(token)
