"""A model call that is reported in two traces counts in one of them."""

from __future__ import annotations

from common.ids import span_id_hex, trace_id_hex
from common.span import NormalizedSpan, Resource, Scope, Span
from ingest.normalize import normalize

CLIENT = Scope("com.anthropic.sdk.python")
INSTRUMENTATION = Scope("openinference.instrumentation.anthropic")
PROCESS = Resource({"service": {"name": "a"}})


def call(
    number: int,
    *,
    scope: Scope = INSTRUMENTATION,
    at: tuple[int, int] = (0, 100),
    tokens: int = 40,
    parent: int | None = None,
    resource: Resource = PROCESS,
) -> Span:
    """A span in its own trace."""
    start_ns = 1_780_000_000_000_000_000
    return Span(
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        name="call",
        kind=3,
        start_ns=start_ns + at[0],
        end_ns=start_ns + at[1],
        status_code=0,
        status_message=None,
        attributes={"ag.type.span": "chat", "ag.metrics.tokens.incremental.prompt": tokens},
        resource=resource,
        scope=scope,
    )


def echo(number: int, *, at: tuple[int, int] = (1, 99), tokens: int = 40, parent: int | None = None) -> Span:
    return call(number, scope=CLIENT, at=at, tokens=tokens, parent=parent)


def counting(*spans: Span) -> list[bool]:
    return [normalized.metrics.tokens_total > 0 for normalized in normalize(spans)]


def meta(normalized: NormalizedSpan) -> dict[str, object]:
    found: dict[str, object] = normalized.attributes["ag"].get("meta", {})
    return found


def test_client_span_does_not_count_next_to_the_span_around_it() -> None:
    assert counting(call(1), echo(2)) == counting(call(1), echo(2, at=(0, 100))) == [True, False]
    assert counting(echo(2), call(1)) == [False, True]


def test_duplicate_keeps_its_report_and_names_the_counted_span() -> None:
    original, kept = normalize([call(1), echo(2)])

    assert kept.attributes["ag"]["metrics"]["tokens"] == {"incremental": {"prompt": 40}}
    assert meta(kept)["counted_in"] == {
        "trace_id": trace_id_hex(call(1).trace_id),
        "span_id": span_id_hex(call(1).span_id),
    }
    assert "counted_in" not in meta(original)


def test_client_span_alone_counts() -> None:
    assert counting(echo(2)) == [True]


def test_client_span_below_another_is_left_to_the_roll_up() -> None:
    assert counting(call(1), echo(2, parent=9)) == [True, True]


def test_different_call_counts() -> None:
    assert counting(call(1), echo(2, tokens=41)) == [True, True]
    assert counting(call(1), echo(2, at=(1, 101))) == [True, True]
    assert counting(call(1, at=(2, 100)), echo(2, at=(1, 99))) == [True, True]
    assert counting(call(1, resource=Resource({"service": {"name": "b"}})), echo(2)) == [True, True]


def test_each_call_has_one_duplicate() -> None:
    assert counting(call(1), echo(2), echo(3)) == [True, False, True]
    assert counting(call(1, at=(0, 100)), call(2, at=(10, 50)), echo(3, at=(11, 49)), echo(4, at=(1, 99))) == [
        True,
        True,
        False,
        False,
    ]


def test_error_counts_in_both_traces() -> None:
    failed = echo(2)
    failed = failed._replace(attributes=failed.attributes | {"ag.metrics.errors.incremental": 1})

    _, kept = normalize([call(1), failed])

    assert kept.metrics == kept.metrics._replace(errors=1, tokens_total=0)
    assert kept.metrics.tokens_prompt == kept.metrics.costs_total == 0


def test_duplicate_republished_alone_does_not_count() -> None:
    kept = normalize([call(1), echo(2)])[1]

    (again,) = normalize([echo(2)._replace(attributes=kept.attributes)])

    assert again.attributes == kept.attributes
    assert again.metrics == kept.metrics
