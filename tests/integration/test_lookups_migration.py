"""A database from before its granules were small and its values looked up by filters, under the program of today."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from common.clickhouse.migrate import DDL, migrate
from common.clickhouse.store import ColumnStore, Statement
from common.clock import SystemClock
from common.project import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from query_api.filter.sql.compile import EVERY_ROW
from query_api.pages.sessions_activity import Walk, find_ids
from query_api.pages.spans_models import Order
from query_api.spans.project_spans import ProjectSpans
from tests.support.older_tables import apply_again, tables_before
from tests.support.span_corpus import START_NS, store_record
from tests.support.span_pages import SpanPages, ids_of

MARKS = "SELECT sum(marks) AS marks FROM system.parts WHERE database = currentDatabase() AND table = 'spans' AND active"


def span(number: int) -> Span:
    """A child, so that its session stands in its attributes alone."""
    at_ns = START_NS + number * 1_000
    ids = number.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    attributes = {"ag.session.id": f"s{number % 2}", "ag.user.id": f"u{number % 3}"}
    return Span(*ids, (1).to_bytes(8, "big") * 2, f"n{number}", 1, at_ns, at_ns, 0, None, attributes)


def as_it_was(text: str) -> str:
    """The first file with the granules that it had, and without what it says of them."""
    text = re.sub(r"\A-- formerly .*?\n\n", "", text, flags=re.DOTALL)
    text = text.replace("index_granularity = 512, min_compress_block_size = 8192", "index_granularity = 4096")
    return text.replace("index_granularity = 512, min_compress_block_size = 4096", "index_granularity = 1024")


async def ids(store: ColumnStore, kind: str) -> list[str]:
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=30.0)
    walk = Walk(kind, False, Order.ASCENDING, None, None)
    return [each.text for each in await find_ids(spans, EVERY_ROW, walk, limit=10)]


@pytest.mark.parametrize("is_applied_twice", [False, True])
async def test_what_was_stored_before_is_found_as_what_comes_later(
    chdb_dir: Path, chdb_empty_settings: Callable[[], ClickHouseSettings], tmp_path: Path, *, is_applied_twice: bool
) -> None:
    settings = chdb_empty_settings()
    store = await tables_before(6, settings, data_dir=chdb_dir, folder=tmp_path, as_it_was=as_it_was)
    first = tmp_path / "0001_spans.sql"
    assert hashlib.sha256(first.read_bytes()).hexdigest() in (DDL / first.name).read_text()
    await store_record(store, [span(number) for number in range(2, 5_000)])
    marks = (await store.select(Statement(MARKS), deadline_s=10.0))["marks"][0].as_py()

    applied = await migrate(settings, data_dir=chdb_dir)
    if is_applied_twice:
        await apply_again(store, "0006_lookups.sql")
    await store_record(store, [span(5_000)], offset=1)
    pages = SpanPages.over(store)
    shown = {
        (field, number): ids_of(await pages.page(filtering={"conditions": [{"field": field, "value": value}]}))
        for number in (2, 4_999, 5_000)
        for field, value in (("trace_id", f"{number:032x}"), ("span_id", f"{number:016x}"), ("span_name", f"n{number}"))
    }
    sessions, users = await ids(store, "session"), await ids(store, "user")
    await store.close()

    assert applied[0] == "0006_lookups"
    assert marks < 6  # granules of 4,096 rows
    assert shown == {key: [(f"{key[1]:032x}", f"{key[1]:016x}")] for key in shown}
    assert (sessions, users) == (["s0", "s1"], ["u2", "u0", "u1"])
