"""The bill of materials names every package that is pinned, and the page about the supply chain those with binaries."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pytest

from tests.sbom import ROOT, bill_of_materials

SETS: Final = [ROOT / "requirements" / name for name in ("server.txt", "embedded.txt")]


def _names(requirements: Path) -> list[str]:
    return re.findall(r"^([a-z0-9._-]+)==", requirements.read_text(), re.MULTILINE)


@pytest.mark.parametrize("requirements", SETS, ids=lambda path: path.stem)
def test_every_pinned_package_is_in_the_bill_of_materials(requirements: Path) -> None:
    bill = bill_of_materials(requirements)

    packages = [each for each in bill["components"] if each["purl"].startswith("pkg:pypi/")]
    assert [each["name"] for each in packages] == _names(requirements)
    assert all(each["properties"] for each in packages)
    assert {"preact", "uplot"} < {each["name"] for each in bill["components"]} - set(_names(requirements))


def test_every_requirement_is_pinned_with_digests() -> None:
    for requirements in sorted((ROOT / "requirements").glob("*.txt")):
        entries = re.split(r"\n(?=[a-z0-9])", requirements.read_text().strip())
        assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_page_names_every_package_with_native_code() -> None:
    page = (ROOT / "docs" / "supply-chain.md").read_text()
    named = set(re.findall(r"^\| ([a-z0-9-]+) \|", page, re.MULTILINE))

    native = {name for name in _names(SETS[1]) if _is_native(name)}

    assert native
    assert native - named == set()


def _is_native(name: str) -> bool:
    """Whether the package that is installed here has libraries or programs."""
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:  # of another system or version of Python
        return False
    inside = [file for file in files if ".." not in file.parts]
    return any(".so" in file.suffixes or file.suffix == ".dylib" or "bin" in file.parts for file in inside)
