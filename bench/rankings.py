"""Measures rankings and groups of spans with models and costs, as ``bench/query.py`` measures pages.

The spans are those of one day; each window is this day, and begins and ends at different microseconds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from bench.harness import child_main
from bench.query import Body, Query, filled, measure_query
from bench.records import DAY_NS, START_NS, calls_records
from common.times import format_us

HOUR_US: Final = 3_600_000_000


def _day(randomness: random.Random, **members: Any) -> Body:
    outside_us = randomness.randrange(1, HOUR_US)
    oldest_us, newest_us = START_NS // 1000 - outside_us, (START_NS + DAY_NS) // 1000 + outside_us
    return {"windowing": {"oldest": format_us(oldest_us), "newest": format_us(newest_us), **members}}


def _first(randomness: random.Random, by: str) -> Body:
    return _day(randomness, limit=50, sort={"by": by})


def _cost_by_model(randomness: random.Random) -> Body:
    costs = [{"of": "cost", "as": ["sum"]}]
    return {**_day(randomness), "group_by": ["model"], "measures": costs, "interval": "1h"}


QUERIES: Final[Mapping[str, Query]] = {
    "ranking: top 50 by cost": Query("/spans/query", lambda chance, _: _first(chance, "cost")),
    "ranking: 50 slowest traces": Query("/traces/summaries/query", lambda chance, _: _first(chance, "duration")),
    "groups: cost by model in hours": Query("/spans/groups/query", lambda chance, _: _cost_by_model(chance)),
}


async def measure(spans_count: int) -> dict[str, Any]:
    """Return percentiles in milliseconds: each query over HTTP and in the engine alone."""
    async with filled(calls_records(spans_count)) as (store, client):
        return {name: await measure_query(store, client, query, spans_count) for name, query in QUERIES.items()}


if __name__ == "__main__":
    child_main(measure)
