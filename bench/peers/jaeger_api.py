"""The query API of Jaeger (``/api/traces``), which VictoriaTraces serves as well."""

from __future__ import annotations

import json
import random
from typing import Final
from urllib.parse import urlencode

from bench.peers.peer import PeerQuery
from bench.queries import ATTRIBUTE_TRACES, OPERATION, TRACE, Stored, operation_of, service_of, user_of
from bench.records import SPANS_PER_TRACE

ATTRIBUTE_TRACES_LIMIT: Final = 20
OPERATION_TRACES_LIMIT: Final = 5
"""This many traces of ten spans hold 50 spans: the API has no query of spans."""


def jaeger_queries(prefix: str, stored: Stored) -> dict[str, PeerQuery]:
    """Return the queries of an API below a path. Each search names a service, which the API requires."""

    def trace(draw: random.Random) -> str:
        return f"{prefix}/api/traces/{draw.choice(stored.trace_ids)}"

    def search(draw: random.Random, limit: int, **conditions: str) -> str:
        window = {"start": stored.oldest_us, "end": stored.newest_us, "limit": limit}
        return f"{prefix}/api/traces?" + urlencode({"service": service_of(draw), **conditions, **window})

    def by_attribute(draw: random.Random) -> str:
        return search(draw, ATTRIBUTE_TRACES_LIMIT, tags=json.dumps({"user.id": user_of(draw)}))

    def by_operation(draw: random.Random) -> str:
        return search(draw, OPERATION_TRACES_LIMIT, operation=operation_of(draw))

    return {
        TRACE: PeerQuery(trace, _count_spans, SPANS_PER_TRACE),
        ATTRIBUTE_TRACES: PeerQuery(by_attribute, _count_spans, ATTRIBUTE_TRACES_LIMIT * SPANS_PER_TRACE),
        OPERATION: PeerQuery(by_operation, _count_spans, OPERATION_TRACES_LIMIT * SPANS_PER_TRACE),
    }


def _count_spans(body: bytes) -> int:
    return sum(len(trace["spans"]) for trace in json.loads(body)["data"])
