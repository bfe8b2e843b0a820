"""The audit log of commands that change something without the API (ADR 0023)."""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

from clearspan.console import at_running_stack
from common.errors import ServiceError
from common.postgres.audit import NO_PROJECT, AuditActor, AuditLog, AuditSubject, BegunWrite, EndedWrite
from common.postgres.pool import Database, open_database
from common.settings import Settings
from query_api.request.errors import INTERNAL_STATUS, status_of

_DONE = 200
_NAME_CHARACTERS_MAX = 200
_ENTITIES_MAX = 10


class Changed:
    """What a command has changed."""

    def __init__(self, ids: Iterable[object]) -> None:
        self.ids = [str(each) for each in ids]

    @property
    def entities(self) -> list[dict[str, str]]:
        """The first of them, as an entry shows them."""
        return [{"id": each} for each in self.ids[:_ENTITIES_MAX]]


@asynccontextmanager
async def audited(
    database: Database, command: str, *, project_id: UUID = NO_PROJECT, ids: Iterable[object] = ()
) -> AsyncIterator[Changed]:
    """Write an entry before the block, and its outcome after it. Raises the errors of ``Database`` before it."""
    log = AuditLog(database)
    subject = AuditSubject(
        project_id, AuditActor.COMMAND_LINE, f"clearspan {command}", actor_name=_user()[:_NAME_CHARACTERS_MAX]
    )
    changed = Changed(ids)
    (entry_id,) = await log.begin([BegunWrite(subject, None, changed.entities)])
    status = INTERNAL_STATUS
    try:
        yield changed
        status = _DONE
    except ServiceError as error:
        status = status_of(error)
        raise
    finally:
        try:
            await log.end([EndedWrite(entry_id, status, changed.entities)])
        except ServiceError as error:
            print(f"The outcome is not in the audit log: {error.detail}", file=sys.stderr)


@asynccontextmanager
async def audited_if_possible(
    settings: Settings, command: str, *, ids: Iterable[object] = ()
) -> AsyncIterator[Changed]:
    """The same for a command that works without Postgres: if that is away, say on standard error what is missing."""
    changed = Changed(ids)
    async with AsyncExitStack() as recording:
        try:
            database = await recording.enter_async_context(open_database(at_running_stack(settings).postgres))
            changed = await recording.enter_async_context(audited(database, command, ids=changed.ids))
        except ServiceError as error:
            print(f"This is not in the audit log: {error.detail}", file=sys.stderr)
        yield changed


def _user() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container may run as a user without a name
        name = "unknown"
    return f"{name}@{socket.gethostname()}".replace("\0", "")
