from __future__ import annotations

from typing import Any

import pytest

from query_api.lineage.delta import changed

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
def test_what_is_merged_then_what_goes(merged: dict[str, Any], removed: tuple[str, ...], outcome: dict[str, Any]):
    assert changed(DATA, merged=merged, removed=removed) == outcome


def test_the_data_itself_stays_as_it_is():
    before = {"parameters": {"n": {"m": 1}}}

    changed(before, merged={"parameters": {"n": {"m": 2}}}, removed=["parameters.n"])

    assert before == {"parameters": {"n": {"m": 1}}}
