"""Every module can be imported first, without a warning: no module needs another to be imported before it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("clearspan", "common", "ingest", "jobs", "query_api")
PATHS: Final = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.stem != "__main__"
}
IMPORT_ALL: Final = """
import importlib, sys, warnings
import pandas, clickhouse_connect  # chDB installs pandas, whose import warns
warnings.simplefilter("error")
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
IMPORT_EACH_ALONE: Final = """
import importlib, os, sys
import aiohttp.web, aiokafka.admin, asyncpg, clickhouse_connect, numpy, pandas, pyarrow, pydantic_settings
failed = 0
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except BaseException as exc:
            print(f"{name}: {exc!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    failed += status != 0
sys.exit(bool(failed))
"""


def _imported_at_once(body: list[ast.stmt]) -> Iterator[str]:
    """Modules that are imported when a module is, so not within functions and not for the type checker alone."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in PATHS else node.module
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _imported_at_once([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _imported_at_once(node.body)


def test_modules_do_not_import_each_other_in_circles() -> None:
    imports = {
        module: [name for name in _imported_at_once(ast.parse(path.read_text()).body) if name in PATHS]
        for module, path in PATHS.items()
    }

    TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules


def test_every_module_can_be_imported_without_a_warning() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *PATHS], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_every_module_can_be_imported_first() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH_ALONE, *PATHS], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
