"""Random spans that share few names and values, so that random filters find some of them; and a way to store them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary

from common.clickhouse.repeated_rows import without_repeated
from common.clickhouse.span_columns import SPANS_TABLE, SpanColumns, stamped
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.score import EVENT_SOURCE, Score, ScoreSource
from common.span import Event, Link, Resource, Scope, Span
from ingest.normalize import normalize

START_NS = 1_780_000_000_000_000_000
STORED_US = 1_790_000_000_000_001
_TRIES: Final[WeakKeyDictionary[ColumnStore, Counter[tuple[UUID, str, int]]]] = WeakKeyDictionary()
OTHER_PROJECT_ID = UUID("00000000-0000-7000-8000-00000000000b")

SEGMENTS = ("a", "b", "", "0", "1", "10", "é", "x y")
KEYS = (*SEGMENTS, "a.b", "0.1", ".")
COLLIDING_KEYS = ("a", "a.b", "a.b.a", "a.b.a.b", "a.0", "a.0.b", "b", "b.a", "b.a.b")
"""Keys of attributes of which one often continues another."""

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
    "ÉA\u0301",
    "\u212aſß\u1e9e",
    "ΣΑΣ σας",
    "a\nB",
    "checkout failed, é",
)
ANALYTICS = (
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
    -1.25e21,
    123456789012345680000.0,
    5e-324,
    1e-7,
    1.25e-6,
    -0.000002,
    0.00001,
)
RUNNING_SHARE = 0.15
SCALARS = (*TEXTS, *ANALYTICS, True, False)


def random_value(source: random.Random, *, depth: int = 3) -> Any:
    """Any JSON value, containers included."""
    kind = source.random()
    if depth == 0 or kind < 0.55:
        return source.choice((*SCALARS, None))
    if kind < 0.78:
        return [random_value(source, depth=depth - 1) for _ in range(source.randrange(4))]
    return {source.choice(KEYS): random_value(source, depth=depth - 1) for _ in range(source.randrange(4))}


def random_attributes(source: random.Random) -> dict[str, Any]:
    keys = source.choice((KEYS, COLLIDING_KEYS))
    return {source.choice(keys): random_value(source) for _ in range(source.randrange(6))}


def random_shorthands(source: random.Random) -> dict[str, Any]:
    """Values that the shorthands ``model``, ``provider``, ``tokens`` and ``cost`` read, most of them of their usual
    type."""
    texts, amounts = (*TEXTS[:8], "gpt-4.1", "gpt-4.1-mini"), (0, 1, 5, 61, 0.1, "5", "61", "é")
    usual = {
        "ag.meta.response.model": texts,
        "ag.meta.request.model": texts,
        "ag.meta.system": texts,
        "ag.metrics.tokens.incremental.total": amounts,
        "ag.metrics.costs.incremental.total": amounts,
    }
    return {
        path: source.choice(values) if source.random() < 0.8 else random_value(source, depth=1)
        for path, values in usual.items()
        if source.random() < 0.5
    }


def random_identity(source: random.Random) -> dict[str, Any]:
    """Values that the shorthands ``session`` and ``user`` read."""
    values = (*TEXTS[:8], "gpt-4.1", 5, 61, True, None)
    return {path: source.choice(values) for path in ("ag.session.id", "ag.user.id") if source.random() < 0.5}


SCORE_NAMES = ("a", "a.b", "0", "é x", 'a"b', "A", "x" * 70)


def random_scores(source: random.Random) -> tuple[Score, ...]:
    """Few scores, several of one name among them."""
    return tuple(_few(source, random_score)) if source.random() < 0.7 else ()


def random_score(source: random.Random) -> Score:
    """One of few names, with a value, a label, or both."""
    value = source.choice((None, None, *ANALYTICS))
    labels = (*TEXTS[1:], "gpt-4.1") if value is None else (None, *TEXTS[1:8])
    sources = (EVENT_SOURCE, ScoreSource("annotation", b"a" * 16, b"b" * 16, "judge"))
    at_ns = START_NS + source.randrange(3) * 1_000
    return Score(source.choice(SCORE_NAMES), value, source.choice(labels), None, source.choice(sources), at_ns)


def random_owner_attributes(source: random.Random) -> dict[str, Any]:
    """Of a resource or scope: with a service, and under names that its members have too."""
    named = {key: random_value(source, depth=1) for key in ("name", "version") if source.random() < 0.3}
    service = source.choice(
        (
            {},
            {"service": {"name": source.choice((*TEXTS, random_value(source, depth=1)))}},
            {"service": "a"},
            {"service": "a", "service.name": source.choice((*TEXTS, random_value(source, depth=1)))},
        )
    )
    return {**random_attributes(source), **named, **service}


def random_flat_attributes(source: random.Random) -> dict[str, Any]:
    """Of an event or a link: they stay as sent, some with dots in their keys."""
    keys = ("key", "a", "a.b", "0", "exception.message")
    return {source.choice(keys): random_value(source, depth=2) for _ in range(source.randrange(3))}


def random_event(source: random.Random, start_ns: int) -> Event:
    """One of few names, near the start of its span."""
    name = source.choice(("exception", "checkout failed", "", "é"))
    return Event(name, start_ns + source.choice((0, 1, 1_000_000)), random_flat_attributes(source), source.randrange(2))


def random_link(source: random.Random) -> Link:
    """To one of few spans."""
    trace_id, span_id = bytes([1 + source.randrange(3)]) * 16, (1 + source.randrange(3)).to_bytes(8, "big") * 2
    return Link(trace_id, span_id, random_flat_attributes(source), source.choice(("", "a=b")), source.randrange(2))


def random_reference(source: random.Random) -> dict[str, Any]:
    """Part of the identity of one of few applications."""
    reference: dict[str, Any] = {"attributes": {"key": source.choice(("application", "evaluator", "é"))}}
    if source.random() < 0.7:
        reference["id"] = str(UUID(int=1 + source.randrange(3)))
    if source.random() < 0.5:
        reference["slug"] = source.choice(("a", "checkout.v2", "-"))
    if source.random() < 0.5:
        reference["version"] = source.choice(("1", 2))
    return reference


def random_hash(source: random.Random) -> dict[str, Any]:
    """One of few."""
    return {"id": str(UUID(int=source.randrange(3))), "attributes": {"key": source.choice(("indirect", "a"))}}


def _few(source: random.Random, make: Callable[[random.Random], Any]) -> list[Any]:
    return [make(source) for _ in range(source.choice((0, 0, 1, 1, 2, 3)))]


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
    span = Span(
        trace_id=bytes([1 + number % 37]) * 16,
        span_id=(number + 1).to_bytes(8, "big") * 2,
        parent_id=None if is_root else (source.randrange(40) + 1).to_bytes(8, "big") * 2,
        name=source.choice(TEXTS),
        kind=source.randrange(6),
        start_ns=start_ns,
        end_ns=start_ns + source.choice((0, 1_500, 10**9)),
        status_code=source.randrange(3),
        status_message=source.choice((None, *TEXTS)),
        attributes={
            **random_attributes(source),
            **usage,
            **random_shorthands(source),
            **random_identity(random.Random(number)),
        },
        events=tuple(_few(source, lambda source: random_event(source, start_ns))),
        links=source.choice((None, tuple(_few(source, random_link)))),
        references=source.choice((None, _few(source, random_reference))),
        hashes=source.choice((None, _few(source, random_hash))),
        scores=random_scores(random.Random(number)),
        resource=Resource(
            random_owner_attributes(source) if source.random() < 0.8 else {},
            source.randrange(2),
            source.choice(("", "a")),
        ),
        scope=Scope(
            source.choice(("", "a")),
            "1",
            random_owner_attributes(source),
            source.randrange(2),
            source.choice(("", "a")),
        ),
        session_id=None if is_root else source.choice((None, *TEXTS)),
        agent_id=None if is_root else source.choice((None, "a")),
    )
    is_running = random.Random(-number).random() < RUNNING_SHARE
    return span._replace(end_ns=span.start_ns, is_running=True) if is_running else span


async def store_record(
    store: ColumnStore,
    spans: Sequence[Span],
    *,
    partition_id: str = "cluster/spans/0",
    offset: int = 0,
    record_ms: int = 1,
    project_id: UUID = DEFAULT_PROJECT_ID,
    stored_us: int | None = None,
) -> None:
    """Store spans as one record; every call is an insert of its own, also of the same record.

    Without ``stored_us``, each further try stores its rows a microsecond later, as those of a worker do.
    """
    columns = SpanColumns()
    columns.append_record(
        project_ids=project_id,
        partition_id=partition_id,
        record_offset=offset,
        record_ms=record_ms,
        spans=spans,
        span_indexes=range(len(spans)),
        normalized_spans=normalize(spans),
    )
    token = f"{partition_id}-{offset}-{record_ms}-{uuid4()}"  # not of ``random``, which hypothesis sets back
    if stored_us is None:
        tries, record = _TRIES.setdefault(store, Counter()), (project_id, partition_id, offset)
        stored_us = STORED_US + tries[record]
        tries[record] += 1
    rows, _ = without_repeated(stamped(columns.rows(), stored_us=stored_us))
    await store.insert(SPANS_TABLE, rows, dedup_token=token, deadline_s=60.0)


async def store_year(
    store: ColumnStore, spans_count: int, *, rare_every: int, project_id: UUID = DEFAULT_PROJECT_ID
) -> None:
    """Spans at even distances over a year, all traces of one span; every so often one that is named ``rare``."""
    sql = (
        "INSERT INTO spans (project_id, start_us, span_id, trace_id, partition_id, version, record_ms, name, attributes_template)"
        " SELECT {project:UUID}, {start:Int64} + number * {step:Int64}, unhex(repeat(leftPad(hex(number + 1), 16, '0'), 2)),"
        " unhex(leftPad(hex(number + 1), 32, '0')), 'log', 4611686018427387904 + number * 131072, 1,"
        " if(number % {rare:UInt32} = {rare:UInt32} - 1, 'rare', 'usual'), '{}' FROM numbers({count:UInt32})"
    )
    step_us = 365 * 24 * 3_600_000_000 // spans_count
    values = {"project": str(project_id), "start": START_NS // 1000, "step": step_us, "rare": rare_every}
    await store.execute(
        Statement(sql, {**values, "count": spans_count}, {"max_partitions_per_insert_block": 0}), deadline_s=60.0
    )
