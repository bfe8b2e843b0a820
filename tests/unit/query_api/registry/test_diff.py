"""Deltas and differences of revisions."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query_api.registry.diff import ABSENT, Difference, Op, changed, differences
from tests.support.steps import steps_of

DATA: dict[str, Any] = {"script": "s", "parameters": {"prompt": {"text": "a", "stop": ["x"]}, "n": 1}}


@pytest.mark.parametrize(
    ("merged", "removed", "outcome"),
    [
        ({}, (), DATA),
        ({"script": "t"}, (), {**DATA, "script": "t"}),
        (
            {"parameters": {"prompt": {"stop": []}}},
            (),
            {**DATA, "parameters": {"prompt": {"text": "a", "stop": []}, "n": 1}},
        ),
        ({"parameters": {"n": None}}, (), {**DATA, "parameters": {**DATA["parameters"], "n": None}}),
        ({"script": {"deep": 1}}, (), {**DATA, "script": {"deep": 1}}),
        ({}, ("script",), {"parameters": DATA["parameters"]}),
        ({}, ("parameters.prompt.text",), {**DATA, "parameters": {"prompt": {"stop": ["x"]}, "n": 1}}),
        ({"parameters": {"n": 2}}, ("parameters.n",), {**DATA, "parameters": {"prompt": DATA["parameters"]["prompt"]}}),
        ({}, ("none", "parameters.none.deep", "script.deep", "parameters.prompt.stop.0"), DATA),
    ],
)
def test_delta_merges_and_then_removes(merged: dict[str, Any], removed: tuple[str, ...], outcome: dict[str, Any]):
    assert changed(DATA, merged=merged, removed=removed) == outcome


def test_delta_does_not_change_the_original_data():
    before = {"parameters": {"n": {"m": 1}}}

    changed(before, merged={"parameters": {"n": {"m": 2}}}, removed=["parameters.n"])

    assert before == {"parameters": {"n": {"m": 1}}}


def test_nested_paths_are_removed_in_any_order():
    data = {"a": {"b": 1, "c": {"d": 1, "e": 2}}, "f": 1}

    assert changed(data, merged={}, removed=("a.c.d", "a", "a.b")) == {"f": 1}
    assert changed(data, merged={}, removed=("a.c.d", "a.c.e", "a.b", "a.b")) == {"a": {"c": {}}, "f": 1}


def test_many_paths_are_removed_in_one_pass():
    """A copy of all members for each path took half a minute, on the loop that answers everybody."""
    names = [f"name-{number}" for number in range(2_000)]
    before = {"parameters": dict.fromkeys(names, 1)}
    outcomes = []

    steps = steps_of(
        lambda: outcomes.append(changed(before, merged={}, removed=[f"parameters.{name}" for name in names[1:]]))
    )

    assert outcomes == [{"parameters": {names[0]: 1}}]
    assert steps < 100 * len(names)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"b": 1}, [("removed", "/a", 1, ABSENT), ("added", "/b", ABSENT, 1)]),
        ({"a": None}, {}, [("removed", "/a", None, ABSENT)]),
        ({"a": 1}, {"a": True}, [("changed", "/a", 1, True)]),
        ({"a": 1}, {"a": 1.0}, [("changed", "/a", 1, 1.0)]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("changed", "/a/b", 1, 2)]),
        ({"a": {"b": 1}}, {"a": [1]}, [("changed", "/a", {"b": 1}, [1])]),
        ({"a/b~c": 1}, {}, [("removed", "/a~1b~0c", 1, ABSENT)]),
        ([1, 2, 3], [1, 3], [("removed", "/1", 2, ABSENT)]),
        ([1, 3], [0, 1, 3], [("added", "/0", ABSENT, 0)]),
        ([{"t": "a"}, 2], [{"t": "b"}, 2, 3], [("changed", "/0/t", "a", "b"), ("added", "/2", ABSENT, 3)]),
        ([1, 1], [1, 1, 1], [("added", "/2", ABSENT, 1)]),
    ],
)
def test_differences_are_listed(before: Any, after: Any, expected: list[tuple[str, str, Any, Any]]):
    assert [tuple(change) for change in differences(before, after)] == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "~/"]),
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(st.sampled_from(["a", "role", "~", "/"]), below, max_size=3)
    ),
    max_leaves=12,
)


@given(before=JSON, after=JSON)
def test_differences_lead_from_one_value_to_the_other(before: Any, after: Any):
    assert _equal(_applied({"root": before}, differences({"root": before}, {"root": after})), {"root": after})


def _applied(value: Any, changes: Any) -> Any:
    """Removals from the end, where the places of the older value hold; then the rest, in order."""
    outcome = deepcopy(value)
    listed: list[Difference] = list(changes)
    for change in reversed([each for each in listed if each.op is Op.REMOVED]):
        parent, name = _place(outcome, change.path)
        del parent[name]
    for change in (each for each in listed if each.op is not Op.REMOVED):
        parent, name = _place(outcome, change.path)
        if change.op is Op.ADDED and isinstance(parent, list):
            parent.insert(name, change.after)
        else:
            parent[name] = change.after
    return outcome


def _place(value: Any, path: str) -> tuple[Any, Any]:
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    for part in parents:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value, int(last) if isinstance(value, list) else last


def _equal(one: Any, other: Any) -> bool:
    return repr(_sorted(one)) == repr(_sorted(other))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def test_messages_are_compared_with_those_of_their_role():
    before = [_message("system", "Be kind."), _message("user", "{{question}}")]
    after = [_message("system", "Be brief."), _message("assistant", "Hello!"), _message("user", "Q: {{question}}")]

    assert [tuple(change) for change in differences(before, after)] == [
        ("changed", "/0/content", "Be kind.", "Be brief."),
        ("added", "/1", ABSENT, _message("assistant", "Hello!")),
        ("changed", "/2/content", "{{question}}", "Q: {{question}}"),
    ]


def test_path_of_a_removed_member_counts_places_in_the_older_value():
    before, after = [{"role": "user", "name": "ada"}], [_message("system", "s"), {"role": "user"}]

    assert [tuple(change)[:2] for change in differences(before, after)] == [("added", "/0"), ("removed", "/0/name")]
