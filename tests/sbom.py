"""Write the bill of materials of what is installed: ``make sbom`` prints CycloneDX 1.6 as JSON.

The packages are those of ``requirements/server.txt``, or of the file that is given, with the digests of every file that
pip accepts for them; and the libraries of the explorer. Source: https://cyclonedx.org/docs/1.6/json/.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
REQUIREMENTS: Final = ROOT / "requirements" / "server.txt"
VENDORED: Final = ROOT / "query_api" / "explorer" / "page" / "vendor" / "vendor.json"
_PINNED: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;]+)[^\n]*\\\n(?P<hashes>(?: +--hash=[^\n]+\n)+)", re.MULTILINE
)


def bill_of_materials(requirements: Path) -> dict[str, Any]:
    """Return the document about a file of pinned requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    root = {"type": "application", "name": project["name"], "version": project["version"]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**root, "licenses": [{"license": {"id": project["license"]}}]}},
        "components": [*_packages(requirements.read_text()), *_libraries()],
    }


def _packages(text: str) -> Iterator[dict[str, Any]]:
    for pinned in _PINNED.finditer(text):
        digests = re.findall(r"--hash=sha256:([0-9a-f]{64})", pinned["hashes"])
        yield {
            "type": "library",
            "name": pinned["name"],
            "version": pinned["version"],
            "purl": f"pkg:pypi/{pinned['name']}@{pinned['version']}",
            "properties": [{"name": "pip:sha256", "value": digest} for digest in digests],
        }


def _libraries() -> Iterator[dict[str, Any]]:
    for library in json.loads(VENDORED.read_text()):
        yield {
            "type": "library",
            "name": library["name"],
            "version": library["version"],
            "purl": f"pkg:npm/{library['name'].replace('@', '%40')}@{library['version']}",
            "licenses": [{"license": {"id": library["license"]}}],
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.sbom", description=__doc__)
    help_text = "pinned requirements with hashes (default: those of a server)"
    parser.add_argument("requirements", nargs="?", type=Path, default=REQUIREMENTS, help=help_text)
    named: Path = parser.parse_args().requirements
    if not named.is_file():
        parser.error(f"{named} is not a file")
    print(json.dumps(bill_of_materials(named), indent=2))  # noqa: T201
