"""Comparisons that take long are done in a child process, with the same result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from query_api.compute import ThreadCompute
from query_api.registry.comparison import compared
from query_api.registry.diff import changes_json


class _Counting(ThreadCompute):
    calls = 0

    async def run(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        return await super().run(*arguments, **options)


@pytest.mark.parametrize(
    ("before", "after", "calls"),
    [
        ("Be kind.", "Be brief.", 0),
        ("".join(f"a{n}\n" for n in range(300)), "".join(f"b{n}\n" for n in range(300)), 1),
        ("a" * 40_000, "b" * 40_000, 1),
    ],
)
async def test_long_comparison_runs_in_a_child_process(before: str, after: str, calls: int) -> None:
    texts = json.dumps({"p": before}), json.dumps({"p": after})
    compute = _Counting()

    assert await compared(compute, *texts, with_lines=True) == changes_json(*texts, with_lines=True)
    assert compute.calls == calls
