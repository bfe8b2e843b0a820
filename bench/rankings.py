"""Measures rankings and groups of spans with models and costs, as ``bench/query.py`` measures pages.

The spans are those of one day; each window is this day, and begins and ends at different microseconds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from bench.harness import child_main
from bench.queries import Body, Call, MakeCall, stored_of
from bench.query import TIMES, filled, measure_query
from bench.records import DAY_NS, START_NS, calls_records
from common.times import format_us

HOUR_US: Final = 3_600_000_000


def day(randomness: random.Random, **members: Any) -> Body:
    """Return a body with a window around the day."""
    outside_us = randomness.randrange(1, HOUR_US)
    oldest_us, newest_us = START_NS // 1000 - outside_us, (START_NS + DAY_NS) // 1000 + outside_us
    return {"windowing": {"oldest": format_us(oldest_us), "newest": format_us(newest_us), **members}}


def _first(randomness: random.Random, by: str) -> Body:
    return day(randomness, limit=50, sort={"by": by})


def _cost_by_model(randomness: random.Random) -> Body:
    costs = [{"of": "cost", "as": ["sum"]}]
    return {**day(randomness), "group_by": ["model"], "measures": costs, "interval": "1h"}


QUERIES: Final[Mapping[str, MakeCall]] = {
    "ranking: top 50 by cost": lambda draw, _: Call("/spans/query", _first(draw, "cost")),
    "ranking: 50 slowest traces": lambda draw, _: Call("/traces/summaries/query", _first(draw, "duration")),
    "groups: cost by model in hours": lambda draw, _: Call("/spans/groups/query", _cost_by_model(draw)),
}


async def measure(spans_count: int, times: int = TIMES) -> dict[str, Any]:
    """Return percentiles in milliseconds: each query over HTTP and in the engine alone."""
    async with filled(calls_records(spans_count)) as (store, client, trace_ids):
        stored = stored_of(spans_count, START_NS + DAY_NS, trace_ids)
        return {
            name: await measure_query(store, client, make_call, stored, times=times)
            for name, make_call in QUERIES.items()
        }


if __name__ == "__main__":
    child_main(measure)
