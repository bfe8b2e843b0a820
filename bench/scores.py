"""Measures groups, rankings and filters by scores, as ``bench/rankings.py`` measures those by costs: one span of ten has
scores.

``python -m bench.scores [SPANS] [TIMES]`` prints percentiles over HTTP and the processor time of one request.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from typing import Any, Final

from bench.command import numbers
from bench.harness import percentile
from bench.queries import Call, MakeCall, stored_of
from bench.query import TIMES, filled
from bench.rankings import day
from bench.records import DAY_NS, START_NS, scored_records

SPANS: Final = 1_000_000
RELEVANCE: Final = {"field": "scores", "key": "Relevance"}
_AVG: Final = [{"of": "count"}, {"of": RELEVANCE, "as": ["avg"]}]
_HAS_SCORE: Final = {"conditions": [{**RELEVANCE, "operator": "exists"}]}


def _groups(draw: random.Random, **members: Any) -> Call:
    return Call("/spans/groups/query", {**day(draw), **members})


QUERIES: Final[Mapping[str, MakeCall]] = {
    "groups: by label": lambda draw, _: _groups(draw, group_by=[RELEVANCE], measures=_AVG),
    "groups: avg score by model": lambda draw, _: _groups(draw, group_by=["model"], measures=_AVG),
    "groups: avg score in hours": lambda draw, _: _groups(draw, measures=_AVG, interval="1h"),
    "groups: by label, spans with it": lambda draw, _: _groups(draw, group_by=[RELEVANCE], filtering=_HAS_SCORE),
    "groups: count by model": lambda draw, _: _groups(draw, group_by=["model"]),
    "ranking: 50 lowest scores": lambda draw, _: Call(
        "/spans/query", day(draw, limit=50, sort={"by": RELEVANCE, "order": "ascending"})
    ),
    "filter: score below 0.1, page of 50": lambda draw, _: Call(
        "/spans/query",
        {**day(draw, limit=50), "filtering": {"conditions": [{**RELEVANCE, "operator": "lt", "value": 0.1}]}},
    ),
}
"""Beside those by scores one that reads none, to compare with."""


async def measure(spans_count: int = SPANS, times: int = TIMES) -> dict[str, Any]:
    """Return percentiles in milliseconds over HTTP, and the median of the processor time of this process."""
    async with filled(scored_records(spans_count)) as (_, client, trace_ids):
        stored, results = stored_of(spans_count, START_NS + DAY_NS, trace_ids), {}
        for name, make_call in QUERIES.items():
            draw, took_ms, busy_ms = random.Random(3), [], []
            for _ in range(times):
                begin_s = time.process_time()
                answer = await client.send(*make_call(draw, stored))
                busy_ms.append((time.process_time() - begin_s) * 1_000)
                took_ms.append(answer.took_ms)
            results[name] = {
                "http_p50_ms": round(percentile(took_ms, 50), 1),
                "http_p95_ms": round(percentile(took_ms, 95), 1),
                "processor_p50_ms": round(percentile(busy_ms, 50), 1),
            }
        return results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(*numbers(measure))), indent=2))
