"""What the engine's ``EXPLAIN indexes = 1, json = 1`` says of a statement, as far as it is about one project.

The engine counts granules of the whole table until the primary key has been applied. So what comes before it (partitions, their bounds)
is left out, and “of how many” is what the primary key selects for the project alone. Where other projects have keys no plan is shown
(``explain.py``).
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
    """One index: what it was asked, and how many granules there were before it and are left after it."""

    name: str
    type: str
    condition: str
    granules_before: int
    granules_after: int


@dataclass(frozen=True, slots=True)
class TableRead:
    """One table of a statement, with the indexes in the order in which they are applied. ``granules`` are left to be read."""

    table: str
    parts: int
    granules: int
    indexes: tuple[IndexUse, ...]


def table_reads(plan: bytes, *, of_project: Mapping[str, int]) -> list[TableRead]:
    """The tables that a plan reads. ``of_project``: the granules of each table that hold rows of the project."""
    # Conditions show ids as the bytes that they are, which need not be UTF-8.
    nodes = _nodes(orjson.loads(plan.decode("utf-8", "replace")))
    return [_table_read(node, of_project) for node in nodes if "Indexes" in node]


def _nodes(value: Any) -> Iterator[Json]:
    """Every node of a plan, the outer before the inner."""
    if isinstance(value, list):
        for each in value:
            yield from _nodes(each)
    elif isinstance(value, dict):
        if "Node Type" in value:
            yield value
        for key in ("Plan", "Plans"):
            yield from _nodes(value.get(key))


def _table_read(node: Json, of_project: Mapping[str, int]) -> TableRead:
    table = str(node.get("Description", "")).rsplit(".", 1)[-1]
    applied = [each for each in node["Indexes"] if each["Type"] not in _BEFORE_THE_PROJECT]
    if of_project.get(table) == 0:  # what is left are granules in which two other projects meet
        applied = []
    uses = tuple(_index_use(each, of_project.get(table)) for each in applied)
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
