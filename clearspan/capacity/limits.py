"""Which limit comes first as the rate grows, and what changes then: a seeded model over the spread of the figures."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from clearspan.capacity import figures
from clearspan.capacity.plan import PARTITIONS_MIN, USED_SHARE, Load, SpanCosts

DRAWS: Final = 1_000
DECODERS_DEFAULT: Final = 2


class Limit(NamedTuple):
    """A limit: the rate at which it is reached, and how often it is the first of all."""

    name: str
    spans_per_second: float
    """The median of all draws."""

    low: float
    high: float
    """Nine of ten draws are between these."""

    first_share: float
    change: str


CHANGES: Final = {
    "disk of one server": "move old spans to object storage (CLEARSPAN_CLICKHOUSE__HOT_DAYS), then add shards",
    "decoders of one worker": "raise CLEARSPAN_INGEST__DECODE_PROCESSES, up to 8",
    "inserts of one worker": "start more workers: each inserts one batch at a time",
    "partitions by default": "create topics with more partitions: each belongs to one worker",
    "processors of one server": "add a shard: each does its part of inserts and merges",
    "network of one server": "add a shard: each receives its part",
    "inserts on each shard": "raise CLEARSPAN_INGEST__BATCH_ROWS_MAX and …_BYTES_MAX: each batch reaches every shard",
}
"""The limits of one worker and one server as they are by default, and what changes beyond them."""


def limits_of(load: Load, *, seed: int) -> list[Limit]:
    """Return the limits in the order in which they are reached.

    Each draw multiplies each figure by a factor of its own, between 1 ÷ ``SPREAD`` and ``SPREAD``.
    """
    source = random.Random(seed)  # noqa: S311 - a model, no secret
    draws = [_reached(load, _factors(source)) for _ in range(DRAWS)]
    first = Counter(min(reached, key=reached.__getitem__) for reached in draws)
    found = []
    for name, change in CHANGES.items():
        rates = sorted(reached[name] for reached in draws)
        low, high = rates[DRAWS // 20], rates[-DRAWS // 20]
        found.append(Limit(name, median(rates), low, high, first[name] / DRAWS, change))
    return sorted(found, key=lambda limit: limit.spans_per_second)


def _factors(source: random.Random) -> dict[str, float]:
    names = (*(figure.meaning for figure in figures.FIGURES), "insert")
    return {name: figures.SPREAD ** source.uniform(-1, 1) for name in names}


def _reached(load: Load, factors: dict[str, float]) -> dict[str, float]:
    """Return the rate at which each limit is reached."""
    costs = SpanCosts(replace(load, spans_per_second=1.0), factors)
    at_rate = SpanCosts(load, factors)
    worker_rate = 1e6 / costs.of(figures.INSERTED_IN_TURN)
    wire_bytes = load.network_bits / 8 / (load.bytes_count + costs.of(figures.ON_DISK) * (load.replicas - 1))
    batch_rows = min(figures.BATCH_ROWS, figures.BATCH_BYTES / load.bytes_count)
    return {
        "disk of one server": load.disk_bytes / costs.hot_bytes,
        "decoders of one worker": DECODERS_DEFAULT * 1e6 / costs.of(figures.DECODING),
        "inserts of one worker": worker_rate,
        "partitions by default": PARTITIONS_MIN * worker_rate,
        "processors of one server": load.cores * 1e6 / at_rate.engine_us,
        "network of one server": wire_bytes,
        "inserts on each shard": load.cores * USED_SHARE / costs.parts_s * batch_rows,
    }
