"""Only ``Select`` becomes a statement of the API and of jobs: nothing else can read rows of a project."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def test_api_and_jobs_make_no_statement_by_hand() -> None:
    makers = {
        str(path.relative_to(ROOT))
        for package in ("query_api", "jobs")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Statement"
    }

    assert makers == set()
