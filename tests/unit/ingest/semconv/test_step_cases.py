"""Calls that several spans show: what each step counts, and how often."""

from __future__ import annotations

from typing import Any

from common.span import Span, StatusCode
from ingest.normalize import normalize

TRACE = b"t" * 16
SPAN_KIND_SERVER, SPAN_KIND_CLIENT = 2, 3
TOOL_CALL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_weather",
    "mcp.method.name": "tools/call",
    "error.type": "tool_error",
}
MODEL_CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
}


def sums_of(*spans: Span) -> dict[str, Any]:
    """Return the metrics of the first span, summed up over all below it."""
    metrics: dict[str, Any] = normalize(spans)[0].attributes["ag"]["metrics"]
    return {name: metric["cumulative"] for name, metric in metrics.items() if "cumulative" in metric}


def span(
    number: int, parent: int | None, attributes: dict[str, Any], *, kind: int = 1, is_failed: bool = False
) -> Span:
    parent_id = None if parent is None else parent.to_bytes(16, "big")
    status = StatusCode.STATUS_CODE_ERROR if is_failed else StatusCode.STATUS_CODE_UNSET
    return Span(TRACE, number.to_bytes(16, "big"), parent_id, "s", kind, 0, 0, status, None, attributes)


def test_failure_that_client_and_server_of_mcp_report_counts_once() -> None:
    spans = [
        span(1, None, {}),
        span(2, 1, TOOL_CALL, kind=SPAN_KIND_CLIENT, is_failed=True),
        span(3, 2, TOOL_CALL, kind=SPAN_KIND_SERVER, is_failed=True),
    ]

    assert sums_of(*spans)["errors"] == 1
    assert [normalized.span_type for normalized in normalize(spans)] == ["task", "tool", "tool"]


def test_each_retry_of_a_structured_answer_counts() -> None:
    wrapper = {"openinference.span.kind": "TOOL", "input.value": "?", "output.value": "4"}
    calls = [span(number, 1, MODEL_CALL) for number in (2, 3, 4)]

    sums = sums_of(span(1, None, wrapper), *calls)

    assert sums["tokens"] == {"prompt": 300, "completion": 60, "total": 360}
    assert sums["costs"]["total"] == 0.000081


def test_retries_count_once_if_the_wrapper_repeats_their_usage() -> None:
    wrapper = {**MODEL_CALL, "gen_ai.usage.input_tokens": 300, "gen_ai.usage.output_tokens": 60}

    sums = sums_of(span(1, None, wrapper), *(span(number, 1, MODEL_CALL) for number in (2, 3, 4)))

    assert sums["tokens"] == {"prompt": 300, "completion": 60, "total": 360}
