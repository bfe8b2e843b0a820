"""Measures what the mappings of instrumentations cost: decodes spans with and without them.

One process, one thread. Runs with and without the mappings alternate and are measured in processor time, so that
other load affects both. ``llm`` is the set of the ingest benchmark, ``every instrumentation`` the samples
of all of them, and ``plain`` has spans of no instrumentation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any, Final
from unittest import mock

from bench.command import HELP, parser_of
from bench.harness import Row, median
from bench.records import SAMPLE
from bench.varied import NO_INSTRUMENTATION, llm_records, plain_records
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Record
from common.limits import SpanLimits
from common.memory import tune_for_batches
from common.settings import Encoding, TopicSettings
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk

SPANS: Final = 4_000
RULES: Final = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)


def measure(*, rounds: int) -> dict[str, Any]:
    """Return, per set, medians over ``rounds`` pairs: spans per second with and without mappings, and the ratio."""
    sets = {
        "llm": llm_records(SPANS),
        "every instrumentation": sample_records(),
        "plain": plain_records(SPANS),
    }
    return {name: _compared(chunk_of(values), rounds=rounds) for name, values in sets.items()}


def sample_records() -> Iterator[bytes]:
    """Yield the records of all samples of instrumentations repeatedly: about as many spans as in the other sets."""
    paths = sorted(SAMPLE.parent.glob("*.otlp_proto.bin"))
    values = [path.read_bytes() for path in paths if not path.name.startswith(NO_INSTRUMENTATION)]
    return islice(cycle(values), len(values) * 20)


def chunk_of(values: Iterable[bytes]) -> Chunk:
    """Return the records as the worker passes them to the decoder."""
    records = [Record("t", 0, offset, 1, None, value) for offset, value in enumerate(values)]
    return Chunk(records, {records[0].source: "bench/t/0"}, time.time_ns())


def _compared(chunk: Chunk, *, rounds: int) -> dict[str, Any]:
    decode_chunk(chunk, RULES)
    pairs = []
    for _ in range(rounds):
        mapped = _spans_per_s(chunk)
        with without_mappings():
            pairs.append((mapped, _spans_per_s(chunk)))
    return {
        "spans_per_s": round(median([mapped for mapped, _ in pairs])),
        "spans_per_s_without": round(median([bare for _, bare in pairs])),
        "ratio": round(median([mapped / bare for mapped, bare in pairs]), 2),
    }


def _spans_per_s(chunk: Chunk) -> float:
    started_s = time.process_time()
    decoded = decode_chunk(chunk, RULES)
    return _spans_count(decoded) / (time.process_time() - started_s)


def _spans_count(decoded: DecodedChunk) -> int:
    return sum(outcome.rows_count for outcome in decoded.outcomes)


@contextmanager
def without_mappings() -> Iterator[None]:
    """Replace the step that maps attributes by one that does nothing."""
    with mock.patch("ingest.normalize.map_attributes", _no_mapping):
        yield


def _no_mapping(*_: object) -> None:
    return None


def rows(results: dict[str, Any]) -> list[Row]:
    """Return rows of the performance table."""
    return [
        Row(
            f"decode → columns, {name}; without mappings",
            f"{result['spans_per_s']:,} spans/s",
            f"{result['spans_per_s_without']:,} spans/s",
            ratio=f"{result['ratio']:.2f}",
        )
        for name, result in results.items()
    ]


def main() -> None:
    """Measure all sets in this process; print one JSON object."""
    parser = parser_of("semconv", __doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=7, help=HELP["rounds"] + " (%(default)s)")
    rounds: int = parser.parse_args().rounds
    tune_for_batches()
    print(json.dumps(measure(rounds=rounds)))


if __name__ == "__main__":
    main()
