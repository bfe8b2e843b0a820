"""What a record costs: a cost that was sent wins over a list price, and what counts has a cost (ADR 0010)."""

from __future__ import annotations

from typing import Any

from common.span import Span
from ingest.normalize import normalize

TRACE = bytes(15) + b"\1"


def span(number: int, parent: int | None, **attributes: Any) -> Span:
    return Span(
        trace_id=TRACE,
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        name=f"s{number}",
        kind=1,
        start_ns=1_795_740_000_000_000_000 + number,
        end_ns=1_795_740_000_500_000_000 + number,
        status_code=0,
        status_message=None,
        attributes=attributes,
    )


def costs(spans: list[Span]) -> list[Any]:
    """Return the cumulative total of each span; ``None`` if it has none."""
    metrics = [normalized.attributes["ag"]["metrics"] for normalized in normalize(spans)]
    return [metric["costs"].get("cumulative", {}).get("total") for metric in metrics]


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10}
GATEWAY = span(1, None, **CHAT, **{"gen_ai.request.model": "prod-alias", "gen_ai.usage.cost": 0.5})
CALL = span(2, 1, **CHAT, **{"gen_ai.request.model": "gpt-4o-mini"})


def test_cost_of_a_gateway_wins_over_the_list_price_below_it() -> None:
    assert costs([GATEWAY, CALL])[0] == 0.5
    assert costs([CALL, GATEWAY])[1] == 0.5


def test_what_is_sent_stays_what_was_sent_when_it_is_published_again() -> None:
    once = normalize([GATEWAY, CALL])
    again = [
        sent._replace(attributes=normalized.attributes) for sent, normalized in zip((GATEWAY, CALL), once, strict=True)
    ]

    assert [normalized.cost_is_computed for normalized in normalize(again)] == [False, True]
    assert costs(again)[0] == 0.5


def test_tokens_that_only_the_agent_reports_have_a_cost() -> None:
    """The record of openinference-instrumentation-claude-agent-sdk 0.1.22 (case 09), with its cache tokens."""
    agent = span(
        1,
        None,
        **{
            "openinference.span.kind": "AGENT",
            "llm.model_name": "claude-sonnet-4-5",
            "llm.system": "anthropic",
            "llm.token_count.prompt": 6839,
            "llm.token_count.completion": 120,
            "llm.token_count.total": 6959,
            "llm.token_count.prompt_details.cache_read": 6000,
            "llm.token_count.prompt_details.cache_write": 400,
        },
    )
    tool = span(2, 1, **{"openinference.span.kind": "TOOL", "tool.name": "Bash"})

    assert costs([agent, tool]) == [0.006417, None]


def test_parts_add_up_to_the_decimals_that_they_have() -> None:
    sent = span(1, None, **{"openinference.span.kind": "LLM", "llm.cost.prompt": 0.1, "llm.cost.completion": 0.2})

    (normalized,) = normalize([sent])

    of_span = normalized.attributes["ag"]["metrics"]["costs"]
    assert of_span["incremental"] == of_span["cumulative"] == {"prompt": 0.1, "completion": 0.2, "total": 0.3}
