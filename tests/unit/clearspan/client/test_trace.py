"""The tree of a trace has every span once, whatever their parents are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clearspan.client.trace import OutlineSpan, TreeRow, _cells, _guides, spans_of, tree_of

IDS = ["a", "b", "c", "d", "e", "f"]


def span(span_id: str, parent_id: str | None = None) -> OutlineSpan:
    return OutlineSpan(span_id, parent_id, span_id, "task", "STATUS_CODE_UNSET", "", "", 0, 1, None, None)


def drawn(*spans: OutlineSpan) -> list[str]:
    return [_guides(row.last_of) + row.span.span_id for row in tree_of(spans)]


def test_children_are_below_their_parents() -> None:
    assert drawn(span("a"), span("b", "a"), span("c", "b"), span("d", "a"), span("e")) == [
        "a",
        "├─ b",
        "│  └─ c",
        "└─ d",
        "e",
    ]


def test_orphans_circles_and_own_parents_are_at_the_top() -> None:
    assert drawn(span("a", "gone"), span("b", "c"), span("c", "b"), span("d", "d")) == ["a", "d", "b", "└─ c"]


def test_deep_trees_are_drawn_to_a_level() -> None:
    chain = [span("0"), *(span(str(level), str(level - 1)) for level in range(1, 2_000))]

    assert max(map(len, drawn(*chain))) < 100


def test_running_span_has_no_duration_and_reaches_to_the_end_of_the_trace() -> None:
    running = replace(span("a"), start_ns=10, duration_ns=None)
    others = [replace(span("b"), duration_ns=40)]
    name, _, took, bar, *_ = _cells(TreeRow(running, ()), max(each.end_ns for each in [running, *others]), 8)

    assert str(name) == "a"
    assert took == "running"
    assert str(bar).rstrip() == str(bar)


@given(
    st.lists(st.tuples(st.sampled_from(IDS), st.none() | st.sampled_from([*IDS, "x"])), unique_by=lambda one: one[0])
)
def test_every_span_is_drawn_once(pairs: list[tuple[str, str | None]]) -> None:
    rows = [row.span.span_id for row in tree_of([span(*pair) for pair in pairs])]

    assert sorted(rows) == sorted(span_id for span_id, _ in pairs)


def test_columns_of_an_outline_become_spans() -> None:
    named: dict[str, Any] = {
        name: {"values": ["", name], "index": [1, 0]}
        for name in ("span_name", "span_type", "status_code", "service", "model")
    }
    columns = {
        "span_id": ["a", "b"], "parent_id": [None, "a"], "start_ns": [0, 5], "duration_ns": [9, 4],
        "tokens": [None, 3], "cost": [None, 0.5], **named,
    }  # fmt: skip

    first, second = spans_of({"spans": columns})

    assert (first.span_name, first.model, first.parent_id) == ("span_name", "model", None)
    assert (second.span_name, second.start_ns, second.tokens, second.cost) == ("", 5, 3, 0.5)
