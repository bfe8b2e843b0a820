"""Measures what a span costs as multiples of a reference, in one process: ``python -m bench.ratios``.

A ratio within one run says the same on every machine, so a test can hold it (``tests/integration/test_span_costs.py``).

- ``decode``: records to rows (decode, normalize, map, columns), in multiples of parsing the same records with protobuf.
- ``insert``: the rows into the tables with their views and indexes, in multiples of an insert of the bytes of the same
  spans, as they were sent, into a plain table.

Processor time; what is measured and its reference take turns, and a ratio is the median of the rounds.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.command import parser_of
from bench.decode import seconds
from bench.harness import bench_settings, median, migrated_store
from bench.ingest import tables_of
from bench.records import spans_of
from bench.semconv import RULES, chunk_of
from bench.varied import SETS
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.memory import tune_for_batches
from common.telemetry import configure_logging
from ingest.decoding.chunk import decode_chunk

DECODED: Final = {"plain": 2_000, "llm": 600}
INSERTED: Final = {"plain": 4_000, "llm": 1_000}
PARSES: Final = 5
"""How often the reference parses in a round: once takes a few milliseconds."""

ROUNDS: Final = 5
DEADLINE_S: Final = 60.0
REFERENCE: Final = """
CREATE TABLE reference (trace_id FixedString(16), span_id FixedString(8), start_ns Int64, span String CODEC(ZSTD(1)))
ENGINE = MergeTree ORDER BY (start_ns, span_id)
"""


def decode_ratio(name: str) -> float:
    """Return the cost of decoding a set, in multiples of parsing it."""
    records = list(SETS[name](DECODED[name]))
    chunk = chunk_of(records)
    decode_chunk(chunk, RULES)  # plans keys

    def parse() -> None:
        for _ in range(PARSES):
            for record in records:
                ExportTraceServiceRequest.FromString(record)

    return median([PARSES * seconds(lambda: decode_chunk(chunk, RULES)) / seconds(parse) for _ in range(ROUNDS)])


async def insert_ratios() -> dict[str, float]:
    """Return the cost of inserting each set, in multiples of the plain insert."""
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        async with migrated_store(settings) as store:
            for sql in ("SYSTEM STOP MERGES", REFERENCE):
                await store.execute(Statement(sql), deadline_s=DEADLINE_S)
            ratios = {}
            for name, spans_count in INSERTED.items():
                records = list(SETS[name](spans_count))
                ours, plain = tables_of(records, settings), [_as_sent(records)]
                pairs = []
                for number in range(ROUNDS + 1):  # the first warms up
                    token = f"{name}-{number}"
                    ours_s = await _insert(store, SPANS_TABLE, ours, token)
                    pairs.append(ours_s / await _insert(store, "reference", plain, token))
                ratios[name] = median(pairs[1:])
    return ratios


def _as_sent(records: Sequence[bytes]) -> pa.Table:
    spans = [span for record in records for span in spans_of(ExportTraceServiceRequest.FromString(record))]
    return pa.table(
        {
            "trace_id": pa.array([span.trace_id for span in spans], pa.binary(16)),
            "span_id": pa.array([span.span_id for span in spans], pa.binary(8)),
            "start_ns": pa.array([span.start_time_unix_nano for span in spans], pa.int64()),
            "span": pa.array([span.SerializeToString() for span in spans], pa.binary()),
        }
    )


async def _insert(store: ColumnStore, into: str, tables: Sequence[pa.Table], token: str) -> float:
    started_s = time.process_time()
    for number, rows in enumerate(tables):
        await store.insert(into, rows, dedup_token=f"{token}-{number}", deadline_s=DEADLINE_S)
    return time.process_time() - started_s


def main() -> None:
    """Measure; print one JSON object."""
    parser_of("ratios", __doc__).parse_args()
    configure_logging(log_format="text", level="error")
    tune_for_batches()
    ratios = {f"decode, {name}": decode_ratio(name) for name in DECODED}
    ratios |= {f"insert, {name}": ratio for name, ratio in asyncio.run(insert_ratios()).items()}
    print(json.dumps({name: round(ratio, 1) for name, ratio in ratios.items()}))


if __name__ == "__main__":
    main()
