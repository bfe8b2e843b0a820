"""The files that build and start containers, without a container engine; `test_containers.py` runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_build_context_and_wheel_have_no_packages_of_npm(tmp_path: Path):
    """`make lint` installs them next to the modules of the explorer."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    page = tmp_path / "query_api/explorer/page"
    (page / "node_modules/typescript").mkdir(parents=True)
    for path in (page / "node_modules/typescript/index.js", page / "index.html", page.parent / "__init__.py"):
        path.write_text("\n")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "made", "."]

    subprocess.run(command, cwd=tmp_path, check=True, timeout=240)

    (wheel,) = (tmp_path / "made").iterdir()
    packed = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("query_api/explorer/page")]
    assert packed == ["query_api/explorer/page/index.html"]
    assert "**/node_modules" in (ROOT / ".dockerignore").read_text().splitlines()
