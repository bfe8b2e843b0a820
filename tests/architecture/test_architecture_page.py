"""ARCHITECTURE and the page of limits say what the code is: layers as import-linter holds them, definitions, limits."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from clearspan.environment import describe_settings
from common.limits import KIB, MIB

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "ARCHITECTURE.md").read_text()
LIMITS: Final = (ROOT / "docs/limits.md").read_text()
CONTRACTS: Final[list[dict[str, Any]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def _section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_layers_are_those_of_import_linter() -> None:
    drawn = [re.findall(r"^\S.*?(?=  |$)", block, re.MULTILINE) for block in PAGE.split("```")[1::2]]
    held = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]

    assert [layers for layers in held if layers not in drawn] == []


def test_import_rules_are_those_of_import_linter() -> None:
    rules = re.findall(r"^- (.+)$", _section("Packages"), re.MULTILINE)

    assert rules == [contract["name"] for contract in CONTRACTS if contract["type"] != "layers"]


def test_definitions_are_in_the_files_that_are_named() -> None:
    named = re.findall(r"`(\w+)` in \[[^]]+\]\(([^)]+)\)", PAGE)

    assert named
    assert [
        (name, path) for name, path in named if not re.search(rf"\b(?:def|class) {name}\b", (ROOT / path).read_text())
    ] == []


def test_limits_are_as_they_are_in_the_code() -> None:
    rows = re.findall(r"^\| [^|]+ \| `([\w.]+)` \| ([^|]+) \|$", LIMITS, re.MULTILINE)
    defaults = {setting.name: setting.default for setting in describe_settings()}

    assert len(rows) > 30
    assert rows == [(name, _text(name, _value(name, defaults))) for name, _ in rows]


def _value(name: str, defaults: dict[str, str]) -> float:
    """The default of a setting, the constant of a module, or the default of a member of ``Limits``."""
    if name.startswith("CLEARSPAN_"):
        return float(defaults[name])
    module, constant = name.rsplit(".", 1)
    if module.endswith(".Limits"):
        return float(getattr(importlib.import_module(module.removesuffix(".Limits")).Limits(), constant))
    return float(getattr(importlib.import_module(module), constant))


def _text(name: str, value: float) -> str:
    """The value with the unit that its name says."""
    name = name.upper()
    if "BYTES" in name or "BODY_RATE" in name:
        unit, size = next(
            (unit, size) for unit, size in (("GiB", KIB * MIB), ("MiB", MIB), ("KiB", KIB)) if value >= size
        )
        return f"{value / size:g} {unit}"
    if name.endswith("_SHARE"):
        return f"{value:g}"
    return f"{value:g} s" if re.search(r"_S(_MAX)?$", name) else f"{int(value):,}"
