"""What the examples of the OpenAPI document find: a trace of an agent, its annotation, histories, a subscription and an alert."""

from __future__ import annotations

from typing import Any, Final

import aiohttp

from query_api.freshness.headers import COORDINATES_HEADER

TRACE_ID: Final = "5b8efff798038103d269b633813fc60c"
ROOT_ID: Final = "eee19b7ec3c1b174"
ANNOTATION_ID: Final = "0af7651916cd43dd8448eb211c80319c"
UNPRICED_ID: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
"""A call of a model without a price, a day before the others."""


def _chat(span_id: str, second: int, cost: float, **members: Any) -> dict[str, Any]:
    tokens = {"prompt": 200, "completion": 40, "total": 240}
    attributes = {
        "type": {"trace": "invocation", "span": "chat"},
        "meta": {"request": {"model": "gpt-4o"}, "system": "openai"},
        "metrics": {"tokens": {"incremental": tokens}, "costs": {"incremental": {"total": cost}}},
        "session": {"id": "trip-7"},
        "user": {"id": "ada"},
    }
    return {
        "trace_id": TRACE_ID,
        "span_id": span_id,
        "parent_id": ROOT_ID,
        "span_name": "chat gpt-4o",
        "span_kind": "SPAN_KIND_CLIENT",
        "start_time": f"2026-01-02T03:04:0{second}Z",
        "end_time": f"2026-01-02T03:04:0{second}.800000Z",
        "status_code": "STATUS_CODE_OK",
        "attributes": {"ag": attributes},
        "resource": {"attributes": {"service": {"name": "travel"}}},
        "scope": {"name": "travel.agent", "version": "1.4.0"},
        **members,
    }


_SPANS: Final[list[dict[str, Any]]] = [
    {
        "trace_id": TRACE_ID,
        "span_id": ROOT_ID,
        "span_name": "answer the question",
        "span_kind": "SPAN_KIND_SERVER",
        "start_time": "2026-01-02T03:04:05Z",
        "end_time": "2026-01-02T03:04:09Z",
        "status_code": "STATUS_CODE_OK",
        "attributes": {
            "ag": {
                "type": {"trace": "invocation", "span": "agent"},
                "data": {"inputs": {"question": "Where is Oslo?"}, "outputs": "In Norway."},
                "session": {"id": "trip-7"},
                "user": {"id": "ada"},
            }
        },
        "resource": {"attributes": {"service": {"name": "travel"}}},
        "scope": {"name": "travel.agent", "version": "1.4.0"},
    },
    _chat("1b2c3d4e5f607182", 6, 0.002),
    _chat(
        "2c3d4e5f60718293",
        7,
        0.004,
        status_code="STATUS_CODE_ERROR",
        status_message="The model did not answer in time.",
        events=[
            {
                "name": "exception",
                "timestamp": "2026-01-02T03:04:07.700000Z",
                "attributes": {"exception.type": "TimeoutError"},
            }
        ],
    ),
    {
        "trace_id": UNPRICED_ID,
        "span_id": "00f067aa0ba902b7",
        "span_name": "chat travel-7b",
        "start_time": "2026-01-01T08:00:00Z",
        "end_time": "2026-01-01T08:00:01Z",
        "attributes": {
            "ag": {
                "type": {"trace": "invocation", "span": "chat"},
                "meta": {"request": {"model": "travel-7b"}, "system": "vllm"},
                "metrics": {"tokens": {"incremental": {"prompt": 200, "completion": 40, "total": 240}}},
            }
        },
        "references": [{"slug": "capital-agent", "attributes": {"key": "application"}}],
    },
    {
        "trace_id": ANNOTATION_ID,
        "span_id": "b7ad6b7169203331",
        "span_name": "review",
        "start_time": "2026-01-02T04:00:00Z",
        "end_time": "2026-01-02T04:00:01Z",
        "attributes": {"ag": {"data": {"outputs": {"score": 0.9}}}},
        "references": [{"slug": "helpfulness", "attributes": {"key": "evaluator"}}],
        "links": [{"trace_id": TRACE_ID, "span_id": ROOT_ID, "attributes": {"key": "invocation"}}],
    },
]
_TARGET: Final = {"kind": "kafka", "bootstrap": "127.0.0.1:9", "topic": "failed-answers"}
_CREATED: Final[list[tuple[str, dict[str, Any]]]] = [
    (
        "/simple/applications",
        {
            "application": {
                "slug": "capital-agent",
                "name": "Capital agent",
                "data": {"parameters": {"model": "gpt-4o", "prompt": "Answer in one sentence: {{question}}"}},
            }
        },
    ),
    (
        "/simple/evaluators",
        {
            "evaluator": {
                "slug": "names-the-capital",
                "name": "Names the capital",
                "data": {"schemas": {"outputs": {"type": "object", "required": ["outputs"]}}},
            }
        },
    ),
    (
        "/simple/queries",
        {
            "query": {
                "slug": "failed-answers",
                "name": "Failed answers",
                "data": {"filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]}},
            }
        },
    ),
    (
        "/applications/revisions/deploy",
        {"environment_ref": {"slug": "production"}, "application_ref": {"slug": "capital-agent"}},
    ),
    (
        "/subscriptions",
        {
            "subscription": {
                "slug": "failed-answers-to-kafka",
                "query_ref": {"slug": "failed-answers"},
                "target": _TARGET,
            }
        },
    ),
    (
        "/alerts",
        {
            "alert": {
                "slug": "failing-models",
                "measure": {"ratio": [{"of": "errors"}, {"of": "count"}]},
                "above": 0.05,
                "window": "10m",
                "group_by": ["model"],
                "target": _TARGET,
            }
        },
    ),
]


async def store_example_data(client: aiohttp.ClientSession) -> str:
    """Send everything; return the coordinates of the spans."""
    for path, body in _CREATED:
        async with client.post(path, json=body) as response:
            assert response.status == 200, await response.text()
    async with client.post("/tracing/spans/ingest", json={"spans": _SPANS}) as response:
        assert response.status == 202, await response.text()
        return response.headers[COORDINATES_HEADER]
