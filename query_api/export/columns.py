"""The columns of exported spans: what CSV and Parquet files hold of a span object (contract §9).

A column is a member of the span object under its name, a shorthand of the query language under its name, or the value
at a path in the attributes (``attributes.PATH``), or of a score (``scores.NAME``). Times are timestamps, members that
are objects or lists are JSON text, and absent is null. ``span_tables.py`` makes the same table from stored rows, column
by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

from common.errors import InvalidInput
from common.json_values import number_text
from common.paths import value_at
from common.span import PROMOTED_TEXTS
from common.times import parse_time_ns
from query_api.filter.language import ATTRIBUTES, DURATION, SCORES, STATE
from query_api.filter.matches import score_value, shorthand_value

SpanObject: TypeAlias = Mapping[str, Any]
"""A span as ``/spans/query`` returns it."""

COLUMNS_MAX: Final = 200
"""Columns of one export."""

PATH_BEGINS: Final = f"{ATTRIBUTES}."
SCORE_BEGINS: Final = f"{SCORES}."
TIME: Final = pa.timestamp("us", tz="UTC")
COUNTS: Final = (
    "flags",
    "dropped_attributes_count",
    "dropped_events_count",
    "dropped_links_count",
    "dropped_scores_count",
)
"""The members of a span that are whole numbers, in the order of their columns."""

_NS_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, its meaning, and its value in a span object."""

    name: str
    type: pa.DataType
    description: str
    value: Callable[[SpanObject], Any]
    """Returns what Arrow converts to the type; for times microseconds since 1970."""

    path: tuple[str, ...] = ()
    """The path in the attributes, of a column ``attributes.PATH``."""

    score: str = ""
    """The name of the score, of a column ``scores.NAME``."""


def value_text(value: Any) -> str | None:
    """Return a value of JSON as the text of a cell: a text as it is, anything else as JSON; ``None`` for null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    return orjson.dumps(value).decode()


def _member(name: str) -> Callable[[SpanObject], Any]:
    return lambda span: span.get(name)


def _json(name: str) -> Callable[[SpanObject], str | None]:
    return lambda span: orjson.dumps(span[name]).decode() if name in span else None


def _created_us(span: SpanObject) -> int:
    return parse_time_ns(span["created_at"]) // 1_000


def _us_of(name: str) -> Callable[[SpanObject], int | None]:
    return lambda span: int(span[name]) // 1_000 if name in span else None


def _ns(name: str) -> Callable[[SpanObject], int | None]:
    return lambda span: in_64_bits(int(span[name])) if name in span else None


def in_64_bits(time_ns: int) -> int | None:
    """Return nanoseconds since 1970 if they fit into a column, which ends in the year 2262."""
    return time_ns if abs(time_ns) <= _NS_MAX else None


def _duration(span: SpanObject) -> float | None:
    if "end_time_unix_nano" not in span:
        return None
    return (int(span["end_time_unix_nano"]) // 1_000 - int(span["start_time_unix_nano"]) // 1_000) / 1_000


def _text(name: str) -> Callable[[SpanObject], str | None]:
    def text(span: SpanObject) -> str | None:
        found = shorthand_value(name, span)
        return None if isinstance(found, bool | list | dict) else value_text(found) or None

    return text


def _service(span: SpanObject) -> str | None:
    """Return the name of the service if it is a text, as ``span_tables.py`` reads it from its column."""
    found = shorthand_value("service", span)
    return found or None if isinstance(found, str) else None


def _number(name: str) -> Callable[[SpanObject], float | None]:
    def number(span: SpanObject) -> float | None:
        found = shorthand_value(name, span)
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None

    return number


def _texts(*names: str, description: str = "The member of the span.") -> Iterable[Column]:
    return (Column(name, pa.string(), description, _member(name)) for name in names)


def _all_columns() -> Iterable[Column]:
    yield Column("created_at", TIME, "When this version of the span was stored.", _created_us)
    yield from _texts("trace_id", "span_id", "parent_id", "trace_type", "span_type", "span_kind", "span_name")
    for name in ("start_time", "end_time"):
        yield Column(name, TIME, "To the microsecond. A running span has no end.", _us_of(f"{name}_unix_nano"))
    for name in ("start_time_unix_nano", "end_time_unix_nano"):
        yield Column(name, pa.int64(), "Nanoseconds since 1970; null after the year 2262.", _ns(name))
    yield Column(DURATION, pa.float64(), "Milliseconds from start_time to end_time.", _duration)
    yield from _texts(STATE, description="`running` on a span without an end.")
    yield from _texts("status_code", "status_message", *PROMOTED_TEXTS)
    yield Column("service", pa.string(), "`service.name` of the resource, if it is a text.", _service)
    yield Column("model", pa.string(), "The model of the response, else of the request.", _text("model"))
    yield Column("provider", pa.string(), "`ag.meta.system`.", _text("provider"))
    yield Column("session", pa.string(), "`ag.session.id` of any span.", _text("session"))
    yield Column("user", pa.string(), "`ag.user.id` of any span.", _text("user"))
    yield Column("tokens", pa.float64(), "`ag.metrics.tokens.incremental.total`.", _number("tokens"))
    yield Column("cost", pa.float64(), "`ag.metrics.costs.incremental.total`, in US dollars.", _number("cost"))
    for name in (ATTRIBUTES, "events", "links", "references", "hashes", "resource", "scope", "repaired", "scores"):
        yield Column(name, pa.string(), "The member of the span, as JSON text.", _json(name))
    yield from _texts("trace_state")
    for name in COUNTS:
        yield Column(name, pa.int64(), "The member of the span.", _member(name))


COLUMNS: Final[Mapping[str, Column]] = {column.name: column for column in _all_columns()}
"""In the order of files. The names of members of the span object and of shorthands."""

SUMMARY_COLUMNS: Final = (
    "trace_id", "span_id", "parent_id", "span_name", "span_type", "start_time", "end_time", "duration", "status_code",
    "status_message", "session", "user", "service", "model", "tokens", "cost",
)  # fmt: skip
"""The columns of a CSV file unless others are chosen: one readable line a span."""


def columns_of(names: Sequence[str]) -> list[Column]:
    """Return the columns with these names. Raises ``InvalidInput`` for an unknown name, or one that is given twice."""
    if len(names) > COLUMNS_MAX:
        raise InvalidInput(f"columns: got {len(names)}; at most {COLUMNS_MAX} are allowed.")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidInput(f"columns: '{twice}' is named twice.")
    return [COLUMNS.get(name) or _score_column(name) or _path_column(name) for name in names]


def _score_column(name: str) -> Column | None:
    score = name.removeprefix(SCORE_BEGINS)
    if score == name or not score:
        return None
    return Column(
        name,
        pa.string(),
        "The value of the newest score of this name, or its label if it has no value, as text.",
        lambda span: value_text(score_value(span.get(SCORES, ()), score)),
        score=score,
    )


def _path_column(name: str) -> Column:
    path = tuple(name.removeprefix(PATH_BEGINS).split("."))
    if not name.startswith(PATH_BEGINS) or not all(path):
        raise InvalidInput(
            f"columns: '{name[:100]}' is not a column; allowed: {', '.join(COLUMNS)}, attributes.PATH and scores.NAME."
        )
    return Column(
        name,
        pa.string(),
        "The value at the path, as text.",
        lambda span: value_text(value_at(span.get(ATTRIBUTES), path)),
        path,
    )


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of a file with these columns."""
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def table_of_objects(spans: Sequence[SpanObject], columns: Sequence[Column] = tuple(COLUMNS.values())) -> pa.Table:
    """Return span objects as a table with the ``schema_of`` the columns, in their order."""
    arrays = [
        pa.array(list(map(column.value, spans)), pa.int64() if column.type == TIME else column.type)
        for column in columns
    ]
    return pa.table(arrays, names=[column.name for column in columns]).cast(schema_of(columns))
