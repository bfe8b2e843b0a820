"""Stored random spans, and both interpreters of a filter over them."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.select import Select, Table
from common.clickhouse.settled_traces import (
    SETTLED_TRACES_TABLE,
    SettledTrace,
    SettlingReason,
    TraceName,
    settled_rows,
)
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.times import SystemClock
from query_api.filter.language import EVERYTHING, SETTLING_REASONS, Node
from query_api.filter.matches import matches
from query_api.filter.sql.compile import Compiled, compile_filter
from query_api.pages.spans import find_page
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.window import Window
from tests.support.span_corpus import OTHER_PROJECT_ID, random_span, store_record

SPANS_A_PART: Final = 20

SpanId: TypeAlias = tuple[str, str]
"""Trace id and span id."""


class FilterCorpus:
    """Spans as responses show them, the meaning of a filter on them, and what the engine finds."""

    def __init__(self, runner: asyncio.Runner, store: ColumnStore) -> None:
        self.store = store
        self.runner = runner
        self._spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=3600.0)
        page = find_page(self._spans, compile_filter(EVERYTHING), Window(), limit=10_000, bytes_max=1 << 30)
        self.answers = [orjson.loads(span.json) for span in runner.run(page).spans]
        for answer in self.answers:
            answer["settled"] = settled_reason(bytes.fromhex(answer["trace_id"]))

    def meant(self, node: Node) -> set[SpanId]:
        """Return the spans that match in plain Python."""
        return {(answer["trace_id"], answer["span_id"]) for answer in self.answers if matches(node, answer)}

    def verdicts(self, nodes: Sequence[Node]) -> list[set[SpanId]]:
        """Return the spans that match each filter on the engine, in one statement that reads every row."""
        parameters: dict[str, Any] = {}
        expressions = []
        for index, node in enumerate(nodes):
            compiled = compile_filter(node)
            expressions.append(re.sub(r"\{(p\d+):", rf"{{f{index}_\1:", compiled.sql))
            parameters |= {f"f{index}_{name}": value for name, value in compiled.parameters.items()}
        verdicts = f"[{', '.join(expressions)}] AS verdicts"
        rows = self.rows(["trace_id", "span_id", verdicts], "1", parameters)
        assert len(rows) == len(self.answers)
        assert {verdict for row in rows for verdict in row["verdicts"]} <= {0, 1}
        return [{_id(row) for row in rows if row["verdicts"][index]} for index in range(len(nodes))]

    def found(self, node: Node) -> set[SpanId]:
        """Return the spans that the engine finds with its indexes."""
        compiled = compile_filter(node)
        return {_id(row) for row in self.rows(["trace_id", "span_id"], compiled.sql, compiled.parameters)}

    def rows(self, columns: list[str], condition: str, parameters: Any) -> list[dict[str, Any]]:
        """Return columns of the project's spans that meet a condition."""
        query = Select(DEFAULT_PROJECT_ID, Table.SPANS, columns, where=[condition], parameters=parameters)
        rows: list[dict[str, Any]] = self.runner.run(self._spans.select(query)).to_pylist()
        return rows

    def plan(self, compiled: Compiled) -> list[dict[str, Any]]:
        """Return the engine's plan, with its indexes, of the query of spans that match."""
        query = Select(
            DEFAULT_PROJECT_ID, Table.SPANS, ["span_id"], where=[compiled.sql], parameters=compiled.parameters
        )
        statement = query.statement(prefix="EXPLAIN indexes = 1 ")
        plan: list[dict[str, Any]] = self.runner.run(self._spans._store.select(statement, deadline_s=60.0)).to_pylist()
        return plan


def settled_reason(trace_id: bytes) -> str | None:
    """Return how a trace of the corpus has settled for the last time; of responses only the feed shows it."""
    return (*SETTLING_REASONS, None)[trace_id[-1] % 3]


async def _settle(store: ColumnStore, trace_ids: set[bytes]) -> None:
    """Let two thirds of the traces settle, some of them once for each reason."""
    settled = []
    for trace_id in sorted(trace_ids):
        last = settled_reason(trace_id)
        for run, reason in enumerate((*SETTLING_REASONS, last) if trace_id[-1] % 2 else (last,), 1):
            if last is not None and reason is not None:
                name = TraceName(DEFAULT_PROJECT_ID, trace_id)
                settled.append(SettledTrace(name, run, run, 1, SettlingReason(reason)))
    await store.insert(SETTLED_TRACES_TABLE, settled_rows(settled), dedup_token="settled", deadline_s=60.0)


def _id(row: dict[str, Any]) -> SpanId:
    return row["trace_id"].hex(), row["span_id"][8:].hex()


@contextmanager
def filter_corpus(
    settings: ClickHouseSettings, data_dir: Path, *, seed: int, spans_count: int
) -> Iterator[FilterCorpus]:
    """Store random spans of the default project, some of them in another project, too.

    They stay in parts of few spans, so that indexes exclude some.
    """
    source = random.Random(seed)
    spans = [random_span(source, number) for number in range(spans_count)]
    with asyncio.Runner() as runner:
        runner.run(migrate(settings, data_dir=data_dir))
        store = open_store(settings, data_dir=data_dir)
        try:
            runner.run(store.execute(Statement("SYSTEM STOP MERGES spans"), deadline_s=60.0))
            for offset in range(0, spans_count, SPANS_A_PART):
                runner.run(store_record(store, spans[offset : offset + SPANS_A_PART], offset=offset))
            runner.run(store_record(store, spans[:50], project_id=OTHER_PROJECT_ID))
            runner.run(_settle(store, {span.trace_id for span in spans}))
            yield FilterCorpus(runner, store)
        finally:
            runner.run(store.close())
