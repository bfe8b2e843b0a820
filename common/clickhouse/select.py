"""A statement over the tables of spans, as a value: it reads the rows of one project (contract §2).

``Select`` alone names these tables, and writes the condition on its project wherever it reads one. A query inside of
another is a source, a join, a named query, or a text in a condition: ``f"trace_id IN ({select})"``. Such a text takes
its parameters from the query around it, the project included. (The engine's ``additional_table_filters`` would need no
text, but makes a statement 1.3 ms slower: the engine analyses every column of the table again.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from common.clickhouse.store import Statement
from common.named_sql import load_named_sql

ATTRIBUTES_COLUMN: Final = "attributes_json"
"""The column from which attributes are read as JSON text."""

COMPUTED_COLUMNS: Final[Mapping[str, str]] = load_named_sql(Path(__file__).with_name("computed_columns.sql"))
"""Columns of ``spans`` that expressions name like any other, and that the engine computes. A query that uses one
defines it once: the engine plans an expression as often as a query has it, 1 to 2 ms each time."""

_OF_PROJECT: Final = "project_id = {project_id:UUID}"

EngineSettings: TypeAlias = Mapping[str, str | int | float]
NO_SETTINGS: Final[EngineSettings] = {}
NO_VALUES: Final[Mapping[str, Any]] = {}


class Table(StrEnum):
    """A table of spans."""

    SPANS = "spans"
    VERSIONS = "span_versions"
    ARRIVALS = "span_arrivals"
    EVENTS = "span_events"
    JUDGED = "judged_spans"
    SETTLED = "settled_traces"
    SETTLINGS = "trace_settlings"


LOCAL_SUFFIX: Final = "_local"
"""Ends the names of the tables of one shard (ADR 0037)."""

_READ_TABLE: Final = re.compile(rf"(?<=\nFROM )(?:{'|'.join(Table)})\b")
"""A table in the text of a ``Select``: it is written in one place."""


def on_shard(sql: str, database: str) -> str:
    """Return the text of a query with the tables of one shard."""
    return _READ_TABLE.sub(lambda table: f"{database}.{table[0]}{LOCAL_SUFFIX}", sql)


_BY_TRACE: Final = "/* by trace */"
_RUN_BY_SHARDS: Final = re.compile(rf"\({re.escape(_BY_TRACE)}(.*?){re.escape(_BY_TRACE)}\)", re.DOTALL)


def run_by_shards(sql: str, database: str, cluster: str) -> str:
    """Return the text of a query whose sources by trace are run by each shard. So what the query computes of them is
    computed there in part, instead of sending all their rows to one server.
    """
    return _RUN_BY_SHARDS.sub(lambda source: f"cluster('{cluster}', view({on_shard(source[1], database)}))", sql)


class Union(NamedTuple):
    """The rows of several queries with the same columns."""

    selects: Sequence[Select]

    def __str__(self) -> str:
        return "\nUNION ALL\n".join(f"({select})" for select in self.selects)


class Join(NamedTuple):
    """A query that is joined under a name; ``kind`` is what the engine calls the join."""

    kind: str
    select: Select
    alias: str
    condition: str = ""
    """Empty if every row is joined with every other."""


@dataclass(frozen=True, slots=True)
class Select:
    """A query of the rows of one project. ``str`` of it is its SQL; values are parameters, ``{name:Type}``.

    Raises ``ValueError`` if a part reads another project, or if the source is a name that ``queries`` does not define.
    """

    project_id: UUID
    source: Table | Select | Union | str
    """What it reads; a text is the name of one of ``queries``."""

    columns: Sequence[str]
    where: Sequence[str] = ()
    """All of these conditions hold."""

    prewhere: Sequence[str] = ()
    """Conditions that are evaluated first, together with the project, before the columns of ``where`` are read."""

    is_by_trace: bool = False
    """Whether the rows about a trace depend on that trace alone, so that each shard can compute its own. Has an effect
    on a source."""

    is_final: bool = False
    """Whether only merged rows are read."""

    alias: str = ""
    joins: Sequence[Join] = ()
    group_by: Sequence[str] = ()
    having: Sequence[str] = ()
    order_by: Sequence[str] = ()
    limit_by: str = ""
    """The number of rows and the columns that they share: ``1 BY trace_id``."""

    limit: str | int | None = None
    """A number or its parameter, with an offset if there is one."""

    queries: Mapping[str, Select | str] = field(default_factory=dict)
    """Queries that this one, and each part of it, may read by their names, in the order in which they read each other.
    A text reads nothing but these names."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Values of the parameters of its own expressions; those of its parts are theirs."""

    def __post_init__(self) -> None:
        if isinstance(self.source, str) and not isinstance(self.source, Table) and self.source not in self.queries:
            raise ValueError(f"The source {self.source!r} is none of the named queries ({', '.join(self.queries)}).")
        if any(part.project_id != self.project_id for part in self._parts()):
            raise ValueError("A part of the query reads another project.")

    def __str__(self) -> str:
        body = "".join(self._clauses())
        named = [f"{name} AS ({query})" for name, query in self.queries.items()]
        if self.source is Table.SPANS:
            named += [f"{sql} AS {name}" for name, sql in COMPUTED_COLUMNS.items() if name in body]
        return "WITH\n" + ",\n".join(named) + "\n" + body if named else body

    def statement(self, settings: EngineSettings = NO_SETTINGS, *, prefix: str = "", suffix: str = "") -> Statement:
        """Return what the engine runs; ``prefix`` and ``suffix`` make another statement of the query, as ``EXPLAIN``
        does.
        """
        return Statement(f"{prefix}{self}{suffix}", self.values, settings)

    @property
    def values(self) -> dict[str, Any]:
        """The values of all parameters, the project included."""
        values: dict[str, Any] = {}
        for part in self._parts():
            values |= part.values
        return {**values, **self.parameters, "project_id": str(self.project_id)}

    def _parts(self) -> Iterator[Select]:
        if isinstance(self.source, Select):
            yield self.source
        elif isinstance(self.source, Union):
            yield from self.source.selects
        yield from (join.select for join in self.joins)
        yield from (query for query in self.queries.values() if isinstance(query, Select))

    def _clauses(self) -> Iterator[str]:
        is_table = isinstance(self.source, Table)
        first = [_OF_PROJECT, *self.prewhere] if is_table and self.prewhere else [*self.prewhere]
        rest = [_OF_PROJECT, *self.where] if is_table and not self.prewhere else self.where
        yield f"SELECT {', '.join(self.columns)}\nFROM "
        is_first = isinstance(self.source, Select) and self.source.is_by_trace and not self.is_by_trace
        mark = _BY_TRACE if is_first else ""
        yield f"{self.source}" if isinstance(self.source, str) else f"({mark}{self.source}{mark})"
        yield " FINAL" if self.is_final else ""
        yield f" AS {self.alias}" if self.alias else ""
        for join in self.joins:
            yield f"\n{join.kind} JOIN ({join.select}) AS {join.alias}"
            yield f" ON {join.condition}" if join.condition else ""
        yield _all_of("\nPREWHERE ", first)
        yield _all_of("\nWHERE ", rest)
        yield f"\nGROUP BY {', '.join(self.group_by)}" if self.group_by else ""
        yield _all_of("\nHAVING ", self.having)
        yield f"\nORDER BY {', '.join(self.order_by)}" if self.order_by else ""
        yield f"\nLIMIT {self.limit_by}" if self.limit_by else ""
        yield "" if self.limit is None else f"\nLIMIT {self.limit}"


def _all_of(keyword: str, conditions: Iterable[str]) -> str:
    enclosed = [f"({condition})" if " OR " in condition else condition for condition in conditions]
    return keyword + "\n    AND ".join(enclosed) if enclosed else ""
