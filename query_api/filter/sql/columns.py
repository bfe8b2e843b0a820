"""The fields that are columns of the table ``spans``, and what each operator asks of a column.

Fields that hold JSON are in ``json.py``, arrays of objects in ``elements.py``, ``content`` in ``text.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from common.clickhouse.span_columns import NO_PARENT
from common.span import PROMOTED_TEXTS, SPAN_TYPES, TRACE_TYPES, SpanKind, StatusCode
from query_api.filter.patterns import TextSearch
from query_api.filter.sql.parameters import Parameters, ids_in
from query_api.filter.sql.subject import Bounds, Subject
from query_api.filter.sql.text import ordered, text_condition

IS_ROOT: Final = f"parent_id = toFixedString(unhex('{NO_PARENT.hex()}'), 16)"
"""A condition on a row of ``spans``: the span has no parent."""


@dataclass(frozen=True, slots=True)
class _Column(Subject):
    """A column with one scalar. ``name`` is SQL, the name of the column."""

    parameters: Parameters
    name: str

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:
        values = list(dict.fromkeys(operands))
        if not values or (is_all and len(values) > 1):
            return "0"  # no scalar equals two values at once
        return f"({self._is_one_of(values)})"

    def equals(self, operand: Any) -> str:
        return f"({self._is_one_of([operand])})"

    def _is_one_of(self, values: list[Any]) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class IdColumn(_Column):
    """An id of 16 bytes; ``absent`` is stored for none."""

    absent: bytes | None = None

    def exists(self) -> str:
        return "1" if self.absent is None else f"({self.name} != {self._id(self.absent.hex())})"

    def equals(self, operand: Any) -> str:
        return f"({self.name} = {self._id(operand)})"

    def _is_one_of(self, values: list[Any]) -> str:
        return f"{self.name} IN {ids_in(self.parameters.texts(values))}"

    def _id(self, hex_text: str) -> str:
        return f"toFixedString(unhex({self.parameters.text(hex_text)}), 16)"


@dataclass(frozen=True, slots=True)
class EnumColumn(_Column):
    """One of a few values, never absent. ``stored`` maps the text of responses to the column's value, a ``kind``."""

    kind: str
    stored: Mapping[str, str | int]

    def exists(self) -> str:
        return "1"

    def _is_one_of(self, values: list[Any]) -> str:
        stored = [self.stored[name] for name in values]
        return f"{self.name} IN ({self.parameters.place(f'Array({self.kind})', stored)})"


@dataclass(frozen=True, slots=True)
class TimeColumn(_Column):
    """Microseconds since 1970, never absent."""

    def exists(self) -> str:
        return "1"

    def compares(self, bounds: Bounds) -> str:
        compared = [f"{self.name} {sign} {self.parameters.place('Int64', time_us)}" for sign, time_us in bounds]
        return f"({' AND '.join(compared)})"

    def reads(self, search: TextSearch) -> str:
        """Read the time as responses show it: six digits of fraction, or none (``common/times.py``)."""
        seconds = f"formatDateTime(fromUnixTimestamp64Micro({self.name}, 'UTC'), '%Y-%m-%dT%H:%i:%S')"
        fraction_us = f"{self.name} % 1000000"
        fraction = f"if({fraction_us} = 0, '', '.' || leftPad(toString({fraction_us}), 6, '0'))"
        return text_condition(f"({seconds} || {fraction} || 'Z')", search, self.parameters)

    def _is_one_of(self, values: list[Any]) -> str:
        return f"{self.name} IN ({self.parameters.place('Array(Int64)', values)})"


@dataclass(frozen=True, slots=True)
class TextColumn(_Column):
    """A text; null if the span has none and ``is_nullable``."""

    is_nullable: bool = True

    def exists(self) -> str:
        return f"isNotNull({self.name})" if self.is_nullable else "1"

    def compares(self, bounds: Bounds) -> str:
        typed = f"concat('s', {self.name})"
        return ordered(f"ifNull({typed}, '')" if self.is_nullable else typed, bounds, self.parameters)

    def reads(self, search: TextSearch) -> str:
        return self._or_absent(text_condition(self.name, search, self.parameters))

    def _is_one_of(self, values: list[Any]) -> str:
        return self._or_absent(f"{self.name} IN ({self.parameters.texts(values)})")

    def _or_absent(self, found: str) -> str:
        return f"ifNull({found}, 0)" if self.is_nullable else found


COLUMNS: Final[Mapping[str, Callable[[Parameters], Subject]]] = {
    "trace_id": partial(IdColumn, name="trace_id"),
    "span_id": partial(IdColumn, name="span_id"),
    "parent_id": partial(IdColumn, name="parent_id", absent=NO_PARENT),
    "trace_type": partial(EnumColumn, name="trace_type", kind="String", stored={name: name for name in TRACE_TYPES}),
    "span_type": partial(EnumColumn, name="span_type", kind="String", stored={name: name for name in SPAN_TYPES}),
    "span_kind": partial(EnumColumn, name="kind", kind="UInt8", stored={kind.name: kind.value for kind in SpanKind}),
    "status_code": partial(
        EnumColumn, name="status_code", kind="UInt8", stored={code.name: code.value for code in StatusCode}
    ),
    "span_name": partial(TextColumn, name="name", is_nullable=False),
    "status_message": partial(TextColumn, name="status_message"),
    **{name: partial(TextColumn, name=name) for name in PROMOTED_TEXTS},
    "start_time": partial(TimeColumn, name="start_us"),
    "end_time": partial(TimeColumn, name="end_us"),
    "created_at": partial(TimeColumn, name="stored_us"),
}
"""A scalar field that is missing here is never present on a span: ``updated_at``, ``created_by_id`` and others."""
