"""Dead letters in the table, as the worker stores them."""

from __future__ import annotations

from common.clickhouse.dead_letters import DeadLetter, DeadLetterContent, DeadLetterTable, Envelope, dead_letter_id
from common.clickhouse.store import ColumnStore
from common.times import format_us

BEGIN_S = 1_750_000_000


def created_at(at_s: float) -> str:
    """Return the time of rejection of a dead letter that was rejected at ``at_s``."""
    return format_us(_us(at_s))


def dead_letter(
    offset: int,
    *,
    at_s: float = 0.0,
    value: bytes = b"no json",
    key: bytes | None = b"k",
    topic: str = "spans",
    code: str = "undecodable",
    reason: str = "No JSON.",
    project: str | None = None,
    span_index: int | None = None,
    codes: dict[str, int] | None = None,
) -> tuple[DeadLetter, DeadLetterContent]:
    """Return a dead letter of the record at ``offset``. A header names the project, if there is one."""
    identity = dead_letter_id(f"cluster/{topic}/1", 1, offset, 7, span_index)
    where = (topic, 1, offset, span_index, code, reason)
    headers = (("project-id", project.encode()),) if project else ()
    return (
        DeadLetter(identity, *where, _us(at_s), len(value), codes, project),
        DeadLetterContent(Envelope(key, headers), value),
    )


async def add_dead_letter(
    store: ColumnStore,
    offset: int,
    *,
    at_s: float = 0.0,
    value: bytes = b"no json",
    key: bytes | None = b"k",
    topic: str = "spans",
    code: str = "undecodable",
    project: str | None = None,
) -> str:
    """Store one that was rejected at ``at_s``; return its id."""
    stored = dead_letter(offset, at_s=at_s, value=value, key=key, topic=topic, code=code, project=project)
    await DeadLetterTable(store, deadline_s=60.0).insert([stored])
    return stored[0].id


def _us(at_s: float) -> int:
    return round((BEGIN_S + at_s) * 1_000_000)
