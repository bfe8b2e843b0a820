"""Measures the stages of decoding in processor time: ``python -m bench.decode [SPANS] [ROUNDS]``.

One process, one thread: what a decoder does with a chunk of records, and what surrounds it. Runs of all stages alternate
and are medians, so that other load affects them alike.

- ``protobuf``: ``ExportTraceServiceRequest.FromString`` alone, the reference for all others.
- ``together``: reading records together, and the rows of plain spans (ADR 0029); ``decode``: records to spans, one by
  one; ``normalize``: nest, build ``ag``, sum up; ``map``: what mapping adds to that; ``columns``: the rest of a chunk,
  mostly leaves and Arrow. Together they are ``chunk``.
- ``pipe``: a chunk to a decoder and its rows back.
- ``gzip``, ``lz4``, ``zstd``: decompressing the records, if the producer compresses them.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from unittest import mock

import cramjam
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.command import numbers
from bench.harness import Row, median, table, us_per
from bench.semconv import RULES, chunk_of, without_mappings
from bench.varied import SETS
from common.children.child import encode, receive, send
from common.memory import tune_for_batches
from ingest.decoding.child import to_parts
from ingest.decoding.chunk import Chunk, decode_chunk
from ingest.decoding.decoder import from_parts

SPANS: Final = 4_000
ROUNDS: Final = 5
TIMED: Final = {
    "ingest.decoding.chunk.read_together": "together",
    "ingest.decoding.chunk.decode_record": "decode",
    "ingest.decoding.chunk.normalize": "normalize",
}
"""The functions of a chunk that are timed, with their stages; what they leave of it are the columns."""

CODECS: Final = {"gzip": cramjam.gzip, "lz4": cramjam.lz4, "zstd": cramjam.zstd}


def measure(spans_count: int = SPANS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the medians of each stage in microseconds per span, for each set."""
    return {name: _stages(list(records(spans_count)), rounds) for name, records in SETS.items()}


def _stages(records: Sequence[bytes], rounds: int) -> dict[str, float]:
    chunk = chunk_of(records)
    decoded = decode_chunk(chunk, RULES)
    spans_count = decoded.rows.num_rows
    compressed = {name: [bytes(codec.compress(record)) for record in records] for name, codec in CODECS.items()}
    runs: list[dict[str, float]] = []
    for _ in range(rounds):
        run = {"protobuf": seconds(lambda: [ExportTraceServiceRequest.FromString(record) for record in records])}
        run |= _chunk_stages(chunk)
        with without_mappings():
            run["map"] = run["normalize"] - _chunk_stages(chunk)["normalize"]
        run["normalize"] -= run["map"]
        run["pipe"] = seconds(lambda: (_through_pipe(chunk), from_parts(*_through_pipe(to_parts(decoded)))))
        for name, codec in CODECS.items():
            run[name] = seconds(partial(list, map(codec.decompress, compressed[name])))
        runs.append(run)
    return {stage: us_per(spans_count, median([run[stage] for run in runs])) for stage in runs[0]}


def _chunk_stages(chunk: Chunk) -> dict[str, float]:
    spent: dict[str, float] = dict.fromkeys(TIMED.values(), 0.0)
    with _timed(spent):
        whole_s = seconds(lambda: decode_chunk(chunk, RULES))
    return {**spent, "columns": whole_s - sum(spent.values()), "chunk": whole_s}


@contextmanager
def _timed(spent: dict[str, float]) -> Iterator[None]:
    patches = [mock.patch(target, _timing(target, stage, spent)) for target, stage in TIMED.items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def _timing(target: str, stage: str, spent: dict[str, float]) -> Callable[..., Any]:
    module, _, name = target.rpartition(".")
    function = getattr(sys.modules[module], name)

    def timed(*arguments: Any, **named: Any) -> Any:
        started_s, others_s = time.process_time(), sum(spent.values())
        try:
            return function(*arguments, **named)
        finally:
            inside_s = sum(spent.values()) - others_s  # of functions that this one called
            spent[stage] += time.process_time() - started_s - inside_s

    return timed


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a function."""
    started_s = time.process_time()
    work()
    return time.process_time() - started_s


def _through_pipe(message: Any) -> Any:
    pipe = io.BytesIO()
    send(pipe, encode(message))
    pipe.seek(0)
    return receive(pipe)


def rows(results: dict[str, Any]) -> list[Row]:
    """Return the rows of the performance table."""
    return [
        Row(f"{name}: decoding, {stage}", f"{spent_us} µs", ratio=f"{spent_us / stages['protobuf']:.2f} × protobuf")
        for name, stages in results.items()
        for stage, spent_us in stages.items()
    ]


def main() -> None:
    """Measure all sets; print the table and one JSON object."""
    given = numbers(measure)
    tune_for_batches()
    result = measure(*given)
    print(table(rows(result)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
