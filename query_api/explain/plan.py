"""What the engine's ``EXPLAIN indexes = 1, json = 1`` says about a statement, limited to one project.

The engine counts granules of the whole table until it has applied the primary key. So the steps before that
(partitions, their bounds) are left out, and the total is what the primary key selects for the project alone. If other
projects have keys, no plan is shown (``explain.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

Json: TypeAlias = Mapping[str, Any]

PRIMARY_KEY: Final = "primary key"
_BEFORE_THE_PROJECT: Final = frozenset({"Min-Max", "MinMax", "Partition"})


@dataclass(frozen=True, slots=True)
class IndexUse:
    """One index: its condition, and the granules before and after it."""

    name: str
    type: str
    condition: str
    granules_before: int
    granules_after: int


@dataclass(frozen=True, slots=True)
class TableRead:
    """One table of a statement, with its indexes in the order of their use. ``granules`` remain to be read."""

    table: str
    parts: int
    granules: int
    indexes: tuple[IndexUse, ...]


def table_reads(plan: bytes, *, of_project: Mapping[str, int]) -> list[TableRead]:
    """Return the tables that a plan reads. ``of_project`` counts the granules of each that hold rows of the project."""
    # Conditions show ids as raw bytes, which need not be UTF-8.
    nodes = _nodes(orjson.loads(plan.decode("utf-8", "replace")))
    return [_table_read(node, of_project) for node in nodes if "Indexes" in node]


def _nodes(value: Any) -> Iterator[Json]:
    """Yield every node of a plan, the outer before the inner."""
    if isinstance(value, list):
        for element in value:
            yield from _nodes(element)
    elif isinstance(value, dict):
        if "Node Type" in value:
            yield value
        for key in ("Plan", "Plans"):
            yield from _nodes(value.get(key))


def _table_read(node: Json, of_project: Mapping[str, int]) -> TableRead:
    table = str(node.get("Description", "")).rsplit(".", 1)[-1]
    applied = [index for index in node["Indexes"] if index["Type"] not in _BEFORE_THE_PROJECT]
    if of_project.get(table) == 0:  # only granules in which two other projects meet remain
        applied = []
    uses = tuple(_index_use(index, of_project.get(table)) for index in applied)
    parts = int(applied[-1]["Selected Parts"]) if applied else 0
    return TableRead(table, parts, uses[-1].granules_after if uses else 0, uses)


def _index_use(index: Json, granules_of_project: int | None) -> IndexUse:
    after = int(index["Selected Granules"])
    condition = str(index.get("Condition", ""))
    if index["Type"] == "PrimaryKey":
        before = max(after, granules_of_project or 0)
        return IndexUse(PRIMARY_KEY, "sparse", condition, before, after)
    kind = str(index.get("Description", index["Type"])).split(" ", 1)[0]
    return IndexUse(str(index.get("Name", kind)), kind, condition, int(index["Initial Granules"]), after)
