"""What a version used, as one text: the engine and Python read what the row of the span says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.select import Select, Table
from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Metrics
from common.times import SystemClock
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.versions import LATEST_COLUMNS, SentVersions, latest_versions, sent_versions
from tests.support.numbered_spans import numbered_span
from tests.support.span_corpus import store_record

FLAGS = ("usage_is_own", "cost_is_computed")
USED: list[dict[str, Any]] = [
    {},
    {"gen_ai.usage.input_tokens": 256, "gen_ai.usage.output_tokens": 1, "gen_ai.request.model": "gpt-4o"},
    {"ag.metrics.tokens.incremental.prompt": 3, "ag.metrics.costs.incremental.total": 1e-12},
    {"ag.metrics.costs.incremental.completion": 0.1, "ag.metrics.errors.incremental": 2},
]


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    store = open_store(chdb_settings(), data_dir=chdb_dir)
    spans = [
        numbered_span(number, trace=number, parent=None, start_us=number, attributes={"ag.type.span": "chat", **used})
        for number, used in enumerate(USED, 1)
    ]
    await store_record(store, spans)
    yield store
    await store.close()


async def test_versions_used_what_their_rows_used(store: ColumnStore) -> None:
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=20.0)
    columns = ("trace_id", *Metrics._fields, *FLAGS)
    stored = {
        row.pop("trace_id"): row
        for row in (await spans.select(Select(DEFAULT_PROJECT_ID, Table.SPANS, columns))).to_pylist()
    }

    in_engine = await spans.select(Select(DEFAULT_PROJECT_ID, latest_versions(DEFAULT_PROJECT_ID), columns))
    sent = SentVersions.of(
        await spans.select(sent_versions(DEFAULT_PROJECT_ID, [], {}, columns=("parent_id", "usage")))
    )

    assert len(LATEST_COLUMNS) == 6 + len(columns) - 1
    assert {row.pop("trace_id"): row for row in in_engine.to_pylist()} == stored
    in_python = {sent.keys[index][0]: reported for index, reported in sent.reports.items()}
    assert in_python.keys() == {
        trace_id for trace_id, row in stored.items() if any(row[name] for name in Metrics._fields)
    }
    for trace_id, (metrics, *flags) in in_python.items():
        assert {**metrics._asdict(), **dict(zip(FLAGS, flags, strict=True))} == stored[trace_id]
    assert {len(reported.metrics) for reported in in_python.values()} == {7}
    assert {tuple(row[name] for name in FLAGS) for row in stored.values()} >= {(0, 0), (0, 1), (1, 0)}
