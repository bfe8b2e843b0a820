from __future__ import annotations

from query_api.intake.prepare import flatten, flatten_node


def _node(span_id: str, **members):
    return {"trace_id": "t", "span_id": span_id, **members}


def test_children_precede_their_parent_with_their_paths() -> None:
    tree = {"root": _node("1", spans={"a": _node("2", spans={"b": _node("3")}), "c": _node("4")})}

    placed = list(flatten(tree, path="trace.spans"))

    assert [(place.span["span_id"], place.path) for place in placed] == [
        ("3", "trace.spans.root.spans.a.spans.b"),
        ("2", "trace.spans.root.spans.a"),
        ("4", "trace.spans.root.spans.c"),
        ("1", "trace.spans.root"),
    ]


def test_lists_of_one_name_work_for_roots_and_siblings() -> None:
    tree = {"root": [_node("1", spans={"a": [_node("2"), _node("3")]}), _node("4")]}

    placed = list(flatten(tree, path="spans"))

    assert [place.span["span_id"] for place in placed] == ["2", "3", "1", "4"]
    assert [place.path for place in placed][0::3] == ["spans.root[0].spans.a[0]", "spans.root[1]"]


def test_nested_span_gets_its_parent_id() -> None:
    tree = _node("1", spans={"a": _node("2"), "b": _node("3", parent_id="9")})

    placed = list(flatten_node(tree, path="spans[0]"))

    assert [place.span.get("parent_id") for place in placed] == ["1", "9", None]
    assert [place.is_top for place in placed] == [False, False, True]


def test_nodes_are_unchanged_except_for_their_children() -> None:
    node = _node("1", anything={"a": None}, spans={})

    (place,) = flatten_node(node, path="spans[0]")

    assert place.span == {"trace_id": "t", "span_id": "1", "anything": {"a": None}}
    assert "spans" in node


def test_nothing_is_an_empty_tree() -> None:
    assert list(flatten(None, path="spans")) == []
    assert list(flatten({"root": []}, path="spans")) == []
