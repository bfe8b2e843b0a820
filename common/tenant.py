"""The tenant whose work is being done, by which shared resources are divided (``common/fair_share.py``, contract §2).

A context variable, like the trace context of a request: every handle, thread and connection that a request takes counts
to its project, without a parameter of every function in between. It does not decide what may be read.
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
    """A project that uses shared resources."""

    project_id: UUID
    has_neighbours: bool = False
    """Whether other projects have keys; then this one gets at most its share."""

    queue_s: float | None = None
    """How long a request waits for its turn, in seconds; ``None``: as long as the user of the resource allows."""


OWN_WORK: Final = Tenant(UUID(int=0))
"""Work of the program itself: inserts, health checks, the lookup of keys."""

_CURRENT: Final[ContextVar[Tenant]] = ContextVar("tenant", default=OWN_WORK)


def current_tenant() -> Tenant:
    """Return the current tenant; ``OWN_WORK`` outside of requests."""
    return _CURRENT.get()


@contextmanager
def working_for(tenant: Tenant) -> Iterator[None]:
    """Make ``tenant`` the current tenant while inside."""
    token = _CURRENT.set(tenant)
    try:
        yield
    finally:
        _CURRENT.reset(token)
