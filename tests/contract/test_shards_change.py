"""Changes of tables that are divided among two shards: afterwards both answer as one engine does (ADR 0037)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import pytest

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from query_api.retention.rules import KeepRules
from tests.support.cases import case
from tests.support.retention import PARTITIONS as RETENTION_PARTITIONS
from tests.support.retention import expected_versions, retention_world, visible_versions
from tests.support.scale import rest_is_long, scaled
from tests.support.span_corpus import random_span
from tests.support.span_pages import SpanPages
from tests.support.two_apis import PARTITIONS, SPANS_COUNT, TwoApis, agree

SEED: Final = 20_261_127
FEW: Final = 2
CHANGES: Final = scaled(60, 250)
"""With one epoch and with two: 500 in `make test-full`."""

RUNS: Final = scaled(60, 500)
pytestmark = pytest.mark.timeout(3_600)


@pytest.mark.parametrize("cases", rest_is_long([FEW, CHANGES]))
def test_deletions_and_spans_that_are_sent_again(apis: TwoApis, cases: int) -> None:
    source = random.Random(SEED)
    for number in range(cases):
        with case("change", number):
            trace_id = (bytes([1 + source.randrange(37)]) * 16).hex()
            agree(apis.ask("DELETE", f"/traces/{trace_id}"))
            again = [random_span(source, source.randrange(SPANS_COUNT)) for _ in range(source.randrange(1, 12))]
            once = {(span.trace_id, span.span_id): span for span in again}  # as a worker reads a record
            apis.send(list(once.values()), partition_id=source.choice(PARTITIONS))
            agree(apis.walks("/spans/query", {}, {"limit": 200}, items="spans"))
            agree(apis.ask("POST", "/spans/groups/query", {"group_by": ["trace_id"], "limit": 40}))
            agree(apis.ask("GET", f"/traces/{trace_id}"))


@pytest.mark.parametrize("cases", rest_is_long([FEW, RUNS]))
async def test_retention(divided: ColumnStore, database: Database, cases: int) -> None:
    source = random.Random(SEED)
    async with retention_world(divided, database) as world:
        world.limits = replace(world.limits, chunk_versions=5)
        with world.freeing_at_once():
            for number in range(cases):
                with case("run", number):
                    for _ in range(source.randrange(1, 4)):
                        partition_id = source.choice(RETENTION_PARTITIONS)
                        await world.send(world.random_spans(source), partition_id=partition_id)
                    await world.run(KeepRules(source.choice((None, 2.0, 5.0)), source.choice((2_000, 8_000, 20_000))))
                    pages = await SpanPages.over(divided, project_id=world.project_id).pages(windowing={"limit": 50})
                    assert visible_versions(pages) == expected_versions(world.model)
