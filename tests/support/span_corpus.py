"""Random spans that share few names and values, so that random filters find some of them; and a way to store them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from common.clickhouse.span_columns import SPANS_TABLE, SpanColumns
from common.clickhouse.store import ColumnStore
from common.project import DEFAULT_PROJECT_ID
from common.span import Event, Resource, Scope, Span
from ingest.normalise import normalise

START_NS = 1_780_000_000_000_000_000
STORED_US = 1_790_000_000_000_001
OTHER_PROJECT_ID = UUID("00000000-0000-7000-8000-00000000000b")

SEGMENTS = ("a", "b", "", "0", "1", "10", "é", "x y")
KEYS = (*SEGMENTS, "a.b", "0.1", ".")
TEXTS = (
    "",
    "a",
    "A",
    "é",
    "a.b",
    "true",
    "null",
    "5",
    "5.0",
    "-0",
    "007",
    "+5",
    " 5",
    "0.1",
    "1e22",
    "9007199254740993",
    "100000000000000000000",
    "18446744073709551616",
    "1e400",
    'it\'s \\ "{p1:String}"\n%_',
    "x" * 70,
    "x" * 70 + "y",
    "é" * 40,
)
NUMBERS = (
    0,
    1,
    -1,
    5,
    0.1,
    -2.5,
    2**53,
    2**53 + 1,
    2**63,
    2**64 - 1,
    -(2**63),
    2.0**64,
    1e20,
    1e22,
    5e-324,
    1e-7,
)
SCALARS = (*TEXTS, *NUMBERS, True, False)


def random_value(source: random.Random, *, depth: int = 3) -> Any:
    """Any JSON value, containers included."""
    kind = source.random()
    if depth == 0 or kind < 0.55:
        return source.choice((*SCALARS, None))
    if kind < 0.78:
        return [random_value(source, depth=depth - 1) for _ in range(source.randrange(4))]
    return {source.choice(KEYS): random_value(source, depth=depth - 1) for _ in range(source.randrange(4))}


def random_attributes(source: random.Random) -> dict[str, Any]:
    return {source.choice(KEYS): random_value(source) for _ in range(source.randrange(6))}


def random_span(source: random.Random, number: int) -> Span:
    """One of the spans of a corpus; ``number`` makes its id."""
    is_root = source.random() < 0.4
    start_ns = START_NS + source.randrange(5) * 1_000_000_000 + source.choice((0, 1, 999, 1_000, 123_456_789))
    usage = {
        f"ag.metrics.{metric}.incremental.{kind}": source.choice((1, 5, 0.5))
        for metric in ("tokens", "costs")
        for kind in ("prompt", "total")
        if source.random() < 0.1
    }
    return Span(
        trace_id=bytes([1 + number % 37]) * 16,
        span_id=(number + 1).to_bytes(8, "big") * 2,
        parent_id=None if is_root else (source.randrange(40) + 1).to_bytes(8, "big") * 2,
        name=source.choice(TEXTS),
        kind=source.randrange(6),
        start_ns=start_ns,
        end_ns=start_ns + source.choice((0, 1_500, 10**9)),
        status_code=source.randrange(3),
        status_message=source.choice((None, *TEXTS)),
        attributes={**random_attributes(source), **usage},
        events=(Event("exception", start_ns, {}),) if source.random() < 0.1 else (),
        resource=Resource(random_attributes(source)) if source.random() < 0.7 else Resource({}),
        scope=Scope(source.choice(("", "a")), "1", random_attributes(source)),
        session_id=None if is_root else source.choice((None, *TEXTS)),
        agent_id=None if is_root else source.choice((None, "a")),
    )


async def store_record(
    store: ColumnStore,
    spans: Sequence[Span],
    *,
    log: str = "cluster/spans/0",
    offset: int = 0,
    record_ms: int = 1,
    project_id: UUID = DEFAULT_PROJECT_ID,
) -> None:
    """Store spans as one record; every call is an insert of its own, also of the same record."""
    columns = SpanColumns()
    columns.append_record(
        project_ids=project_id,
        log=log,
        log_offset=offset,
        record_ms=record_ms,
        spans=spans,
        span_indexes=range(len(spans)),
        normals=normalise(spans),
    )
    token = f"{log}-{offset}-{record_ms}-{random.random()}"
    await store.insert(SPANS_TABLE, columns.table(stored_us=STORED_US), dedup_token=token, deadline_s=30.0)
