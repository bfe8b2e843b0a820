from __future__ import annotations

import time
from typing import Any

import pytest

from query_api.registry.diff import changed

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
    names = [f"name-{number}" for number in range(50_000)]
    before = {"parameters": dict.fromkeys(names, 1)}
    started_s = time.process_time()

    outcome = changed(before, merged={}, removed=[f"parameters.{name}" for name in names[1:]])

    assert outcome == {"parameters": {names[0]: 1}}
    assert time.process_time() - started_s < 2
