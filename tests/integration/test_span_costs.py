"""What a span costs, counted and not timed: lines of Python from the bytes of a record to rows, and bytes on disk.

The bounds are about one and a half times what was counted when they were set, so a step that costs twice as much fails.
Make them smaller when a step becomes cheaper. Times are measured by `make bench`.
"""

from __future__ import annotations

import pytest

from bench.ingest import tables_of
from bench.semconv import RULES, chunk_of
from bench.varied import SETS
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.settings import Settings
from ingest.decoding.chunk import decode_chunk
from tests.support.steps import steps_of

BYTES_ON_DISK = """
SELECT sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND database = currentDatabase()
"""


@pytest.mark.parametrize(("name", "spans_count", "steps_max"), [("plain", 2_000, 4), ("llm", 200, 2_400)])
def test_decoding_a_span_takes_a_bounded_number_of_steps(name: str, spans_count: int, steps_max: int) -> None:
    chunk = chunk_of(list(SETS[name](spans_count)))
    decode_chunk(chunk, RULES)  # plans keys

    assert steps_of(lambda: decode_chunk(chunk, RULES)) / spans_count < steps_max


@pytest.mark.parametrize(("name", "spans_count", "bytes_max"), [("plain", 4_000, 360), ("llm", 1_000, 1_400)])
async def test_a_stored_span_takes_a_bounded_number_of_bytes(
    store: ColumnStore, name: str, spans_count: int, bytes_max: int
) -> None:
    for number, rows in enumerate(tables_of(list(SETS[name](spans_count)), Settings())):
        await store.insert(SPANS_TABLE, rows, dedup_token=str(number), deadline_s=60)
    stored = await store.select(Statement(BYTES_ON_DISK), deadline_s=60)

    assert stored["bytes"][0].as_py() / spans_count < bytes_max
