"""What the traces of real instrumentations used, each model call once, compared with what the provider reported.

The numbers were added up by hand from the records (``tests/support/provider_tokens.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain

import pytest

from common.codec import otlp_protobuf
from common.limits import SpanLimits
from common.span import Metrics, NormalizedSpan, Span
from common.usage import Report, counted
from ingest.normalize import normalize
from tests.support.provider_tokens import GIVEN
from tests.support.sample_records import NOW_NS, SAMPLES


@cache
def records(source: str) -> list[tuple[list[Span], list[NormalizedSpan]]]:
    """The spans of each record of a source, and what is derived from them."""
    found = []
    for path in sorted(SAMPLES.glob(f"{source}-[0-9][0-9].otlp_proto.bin")):
        spans = list(otlp_protobuf.decode(path.read_bytes(), limits=SpanLimits(), now_ns=NOW_NS).spans)
        found.append((spans, normalize(spans)))
    return found


def spans_of(source: str, trace: str = "") -> Iterator[tuple[Span, NormalizedSpan]]:
    pairs = chain.from_iterable(
        zip(spans, normalized_spans, strict=True) for spans, normalized_spans in records(source)
    )
    return (pair for pair in pairs if pair[0].trace_id.hex().startswith(trace))


def used(pairs: Iterable[tuple[Span, NormalizedSpan]]) -> Metrics:
    return counted(
        Report(span.span_id, span.parent_id, normalized.metrics, normalized.usage_is_own, normalized.cost_is_computed)
        for span, normalized in pairs
    )


def blindly_added(pairs: Iterable[tuple[Span, NormalizedSpan]]) -> float:
    return sum(normalized.metrics.tokens_total for _, normalized in pairs)


@pytest.mark.parametrize("source", GIVEN)
def test_tokens_of_each_trace_are_those_of_the_provider(source: str) -> None:
    by_trace: dict[str, list[tuple[Span, NormalizedSpan]]] = defaultdict(list)
    for span, normalized in spans_of(source):
        by_trace[span.trace_id.hex()[:8]].append((span, normalized))

    totals = {trace: used(pairs)[0:3] for trace, pairs in by_trace.items()}

    assert {trace: tokens for trace, tokens in totals.items() if any(tokens)} == {
        trace: (prompt, completion, prompt + completion) for trace, (prompt, completion) in GIVEN[source].items()
    }


@pytest.mark.parametrize(
    ("source", "trace", "blindly"),
    [
        ("openinference-anthropic", "06b7e96a", 2 * 188),  # the SDK's own span below the instrumentation's
        ("vercel-ai-v5", "757667db", 139 + 107),  # the root repeats its last step
        ("vercel-ai-v5", "49a22b35", 2 * 3),  # embeddings
        ("vercel-ai-v7", "678fc0d4", 2 * 140),  # the agent repeats both, with a step between
        ("pydantic-ai-v1", "bfc3b197", 2 * 139),
    ],
)
def test_usage_reported_twice_is_counted_once(source: str, trace: str, blindly: float) -> None:
    assert blindly_added(spans_of(source, trace)) == blindly
    assert used(spans_of(source, trace)).tokens_total == sum(GIVEN[source][trace])


def test_manually_stored_metric_does_not_count_with_the_call_below_it() -> None:
    pairs = list(spans_of("agenta-sdk", "2d3fdf8b"))
    by_hand = next(normalized for span, normalized in pairs if span.name == "ask")
    by_hand = by_hand._replace(metrics=Metrics(42, 11, 53, costs_total=2.1e-05))

    again = [(span, by_hand if span.name == "ask" else normalized) for span, normalized in pairs]

    assert used(again)[0:3] == (42, 11, 53)


@pytest.mark.parametrize("source", ["pydantic-ai-v1", "vercel-ai-v5", "vercel-ai-v7"])
def test_agent_without_model_calls_counts_itself(source: str) -> None:
    agents = [(span, normalized) for span, normalized in spans_of(source) if normalized.span_type == "agent"]

    assert used(agents).tokens_total == blindly_added(agents) > 0


@pytest.mark.parametrize("source", GIVEN)
def test_roll_up_inside_a_record_gives_the_same_sums(source: str) -> None:
    """Checks roots whose whole trace is in one record."""
    for spans, normalized_spans in records(source):
        in_record = {span.trace_id for span in spans}
        for span, normalized in zip(spans, normalized_spans, strict=True):
            whole = [pair for pair in spans_of(source) if pair[0].trace_id == span.trace_id]
            if span.parent_id is None and len(whole) == sum(other.trace_id == span.trace_id for other in spans):
                shown = normalized.attributes["ag"]["metrics"]["tokens"].get("cumulative", {"total": 0})
                assert shown["total"] == used(whole).tokens_total
        assert in_record
