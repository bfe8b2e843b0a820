"""Trees that keep everything, in linear time."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query_api.intake.models import TraceIngest
from query_api.intake.prepare import flatten
from query_api.pages.tree import LEVELS_MAX, tree_json
from query_api.request.json_body import read_body
from query_api.spans.rows import Rendered
from query_api.spans.versions import Version
from tests.support.scale import rest_is_long
from tests.support.steps import steps_of

TRACE = b"t" * 16


def span(number: int, parent: int | None = None, *, name: str = "", start_us: int = 0) -> Rendered:
    shown = {"span_name": name or f"s{number}", "number": number}
    return Rendered(
        Version(start_us, number.to_bytes(16, "big"), TRACE, b"partition_id", number),
        None if parent is None else parent.to_bytes(16, "big"),
        orjson.dumps(name or f"s{number}"),
        orjson.dumps(shown),
    )


def tree(*spans: Rendered) -> dict[str, Any]:
    """Name → its children; a list where there are several of one name."""

    def children(node: dict[str, Any]) -> dict[str, Any]:
        return {
            name: [children(each) for each in value] if isinstance(value, list) else children(value)
            for name, value in node.get("spans", {}).items()
        }

    return children({"spans": json.loads(tree_json(spans))})


def test_children_are_below_their_parent() -> None:
    assert tree(span(1), span(2, 1), span(3, 2), span(4, 1)) == {"s1": {"s2": {"s3": {}}, "s4": {}}}


def test_a_leaf_has_no_spans() -> None:
    assert json.loads(tree_json([span(1)])) == {"s1": {"span_name": "s1", "number": 1}}


def test_orphans_and_extra_roots_are_at_the_top() -> None:
    assert tree(span(1), span(2), span(3, 99), span(4, 3)) == {"s1": {}, "s2": {}, "s3": {"s4": {}}}


def test_a_child_that_starts_first_is_still_a_child() -> None:
    assert tree(span(2, 1, start_us=1), span(1, start_us=5)) == {"s1": {"s2": {}}}


def test_siblings_and_roots_of_one_name_are_lists_in_order() -> None:
    found = json.loads(tree_json([span(1, name="r"), span(2, 1, name="x"), span(3, 1, name="x"), span(4, name="r")]))

    assert [root["number"] for root in found["r"]] == [1, 4]
    assert [child["number"] for child in found["r"][0]["spans"]["x"]] == [2, 3]


def test_its_own_parent_is_a_root() -> None:
    assert tree(span(1, 1), span(2, 1)) == {"s1": {"s2": {}}}


def test_earliest_span_of_a_cycle_is_at_the_top() -> None:
    cycle = [span(1, 3, start_us=7), span(2, 1, start_us=5), span(3, 2, start_us=6), span(4, 1)]

    assert tree(*cycle) == {"s2": {"s3": {"s1": {"s4": {}}}}}


def test_names_are_json() -> None:
    assert tree(span(1, name='a"\\é\n')) == {'a"\\é\n': {}}


@given(st.lists(st.tuples(st.none() | st.integers(0, 12), st.sampled_from("xyz")), max_size=12))
def test_every_span_is_there_once(spans: list[tuple[int | None, str]]) -> None:
    made = [span(number, parent, name=name, start_us=-number) for number, (parent, name) in enumerate(spans)]

    found = _numbers(json.loads(tree_json(made)))

    assert sorted(found) == list(range(len(spans)))


@pytest.mark.parametrize("shape", ["chain", "bush", "random", "cycle"])
@pytest.mark.parametrize("name", rest_is_long(["x", ""]), ids=["one name", "own names"])
def test_ten_times_the_spans_take_ten_times_the_steps(shape: str, name: str) -> None:
    source = random.Random(7)

    def steps(count: int) -> int:
        parents = {
            "chain": lambda number: number - 1 if number else None,
            "bush": lambda number: 0 if number else None,
            "random": lambda number: source.randrange(number) if number else None,
            "cycle": lambda number: (number + 1) % count,
        }[shape]
        spans = [span(number, parents(number), name=name) for number in range(count)]
        texts: list[bytes] = []
        counted = steps_of(lambda: texts.append(tree_json(spans)))
        assert texts[0].count(b'"number":') == count
        return counted

    assert steps(5_000) < 15 * steps(500)


@pytest.mark.parametrize(("length", "tops"), [(LEVELS_MAX, 1), (LEVELS_MAX + 1, 2), (2 * LEVELS_MAX + 1, 3)])
def test_too_deep_chain_is_cut_and_continues_at_the_top(length: int, tops: int) -> None:
    chain = [span(number, number - 1 if number else None) for number in range(length)]
    random.Random(3).shuffle(chain)

    found = json.loads(tree_json(chain))

    assert len(found) == tops
    assert sorted(_numbers(found)) == list(range(length))


@pytest.mark.parametrize("parse", [json.loads, orjson.loads])
def test_a_chain_can_be_read_however_deep_the_attributes_are(parse: Any) -> None:
    nested: Any = None
    for _ in range(48):
        nested = [nested]
    spans = [
        span(number, number - 1 if number else None)._replace(json=orjson.dumps({"number": number, "a": nested}))
        for number in range(3 * LEVELS_MAX)
    ]

    assert len(parse(tree_json(spans))) == 3


@pytest.mark.parametrize("siblings", [1, 2])
def test_the_deepest_tree_can_be_sent_back(siblings: int) -> None:
    spans = [
        span(siblings * level + each, siblings * (level - 1) if level else None, name=f"s{level}")._replace(
            json=orjson.dumps({"trace_id": "t", "span_id": f"{siblings * level + each}"})
        )
        for level in range(LEVELS_MAX)
        for each in range(siblings)
    ]

    body = read_body(TraceIngest, b'{"trace":{"spans":%b}}' % tree_json(spans), content_type=None, required=True)

    assert body.trace is not None
    assert len(list(flatten(body.trace["spans"], path="trace.spans"))) == len(spans)


def _numbers(members: dict[str, Any]) -> Sequence[int]:
    nodes = [node for value in members.values() for node in (value if isinstance(value, list) else [value])]
    return [number for node in nodes for number in (node["number"], *_numbers(node.get("spans", {})))]
