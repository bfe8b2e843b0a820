"""The value of any field as SQL, for statements that sort, group, measure or count by it (contract §3.5).

``query_api/filter/parse.py`` turns the ``field`` and ``key`` of a request into a ``ValuePlace`` (``parse_place``);
``value_of`` returns the value there in each row of ``spans``, as filters see it. A shorthand (``language.SHORTHANDS``)
compiles to the conditions on the places of its value, so that it uses their columns and indexes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from common.clickhouse.leaves import MODEL_COLUMN
from common.clickhouse.span_columns import NO_PARENT
from common.json_values import NUMBER_GRAMMAR
from common.span import PROMOTED_TEXTS, RUNNING, SpanKind, StatusCode
from common.span_version import IS_RUNNING_SQL
from query_api.filter.language import (
    DURATION,
    FIELDS,
    ID_IN_NAME,
    OPERATION,
    SETTLED,
    SHORTHANDS,
    STATE,
    Condition,
    Kind,
    ValuePlace,
)
from query_api.filter.sql.expressions import (
    DoubleValue,
    OfEnded,
    Parameters,
    condition_sql,
    double_text,
    scalar_leaf,
    time_text,
)
from query_api.filter.sql.json import json_condition, json_place
from query_api.filter.sql.scores import typed_label, typed_score
from query_api.filter.sql.settled import typed_reason

OPERATION_TEXT: Final = f"replaceRegexpAll(name, '{ID_IN_NAME}', '*')"
"""The shorthand ``operation``: a text, never null."""

DURATION_MS: Final = "((end_us - start_us) / 1000)"
"""The shorthand ``duration``: a double, which means nothing while the span is running."""


def _unless_running(expression: str, otherwise: str) -> str:
    return f"if({IS_RUNNING_SQL}, {otherwise}, {expression})"


def shorthand_condition(condition: Condition, parameters: Parameters) -> str:
    """Return a condition on a shorthand as an expression that is 0 or 1."""
    places = SHORTHANDS[condition.field]
    if not places:
        return condition_sql(condition, OfEnded(DoubleValue(DURATION_MS, parameters)))
    *preferred, last = places
    found = _at(last, condition, parameters)
    for place in reversed(preferred):
        leaf = f"leaves[{parameters.text('.'.join(place.path))}]"
        here = _at(place, condition, parameters)
        found = f"({leaf} != '' AND {here} OR {leaf} = '' AND {found})"
    return found


def _at(place: ValuePlace, condition: Condition, parameters: Parameters) -> str:
    """The same condition on the value at a place."""
    return json_condition(replace(condition, field=place.field, path=place.path), parameters)


class FieldValue(NamedTuple):
    """The scalar at one place in a row of ``spans``, as expressions. An array or object is absent here.

    ``typed`` is a ``String``: one letter for the type and then the text (``common/clickhouse/leaves.py``): ``s`` for a
    string, ``n`` for a number, ``b1`` and ``b0`` for booleans; ``''`` if the value is absent. Two values are equal
    exactly if their typed texts are, so group by it; ``read_typed`` turns it into the JSON value.

    ``text`` is a ``String``: the value as JSON shows it without quotes; ``''`` if it is absent (or the empty text).

    ``number`` is a ``Nullable(Float64)``: the number, also of a string that is a number in JSON's grammar. It is null
    if the value is absent, is no number, or is past the largest double; an id and an enumerated value have none. The
    number of a time is the microseconds since 1970.

    ``is_absent`` is 0 or 1.
    """

    typed: str
    text: str
    number: str
    is_absent: str


def value_of(place: ValuePlace, parameters: Parameters) -> FieldValue:
    """Return the value at a place that ``parse_place`` returned; ``parameters`` receives the keys of its path.

    The expressions read columns of ``spans`` by their bare names. They can be long: select those that are needed once,
    under a name, and then use the name.
    """
    typed = _typed(place, parameters)
    text = f"multiIf({typed} = 'b1', 'true', {typed} = 'b0', 'false', substring({typed}, 2))"
    return FieldValue(typed, text, _number(place, typed), f"({typed} = '')")


def group_value(place: ValuePlace, parameters: Parameters) -> str:
    """Return the typed text by which spans are grouped: the label of a score, the value of everything else."""
    if FIELDS[place.field].kind is Kind.SCORES:
        return typed_label(place, parameters)
    return value_of(place, parameters).typed


def read_typed(typed: str) -> str | float | bool | None:
    """Return the JSON value of a typed text: a string, an integer, a double or a boolean; ``None`` if it is ``''``."""
    kind, text = typed[:1], typed[1:]
    match kind:
        case "":
            return None
        case "s":
            return text
        case "b":
            return text == "1"
        case _:
            return int(text) if text.removeprefix("-").isdecimal() else float(text)


_NO_NUMBER: Final = "CAST(NULL, 'Nullable(Float64)')"
_HAS_NUMBERS: Final = frozenset({Kind.JSON, Kind.TEXT, Kind.SCORES, Kind.SHORTHAND})
_NO_ID: Final = f"unhex('{NO_PARENT.hex()}')"


def _text(column: str) -> str:
    return f"concat('s', {column})"


def _names(column: str, kind: type[SpanKind] | type[StatusCode]) -> str:
    values, names = [member.value for member in kind], [member.name for member in kind]
    return f"concat('s', transform({column}, {values}, {names}, ''))"


def _short_id(column: str) -> str:
    return f"concat('s', lower(substring(hex({column}), 17)))"


_COLUMNS: Final[Mapping[str, str]] = {
    "trace_id": "concat('s', lower(hex(trace_id)))",
    "span_id": _short_id("span_id"),
    "parent_id": f"if(parent_id = toFixedString({_NO_ID}, 16), '', {_short_id('parent_id')})",
    "trace_type": _text("trace_type"),
    "span_type": _text("span_type"),
    "span_kind": _names("kind", SpanKind),
    "status_code": _names("status_code", StatusCode),
    "span_name": _text("name"),
    **{name: f"ifNull({_text(name)}, '')" for name in ("status_message", *PROMOTED_TEXTS)},
    "start_time": _text(time_text("start_us")),
    "end_time": _unless_running(_text(time_text("end_us")), "''"),
    STATE: f"if({IS_RUNNING_SQL}, 's{RUNNING}', '')",
    SETTLED: typed_reason(),
    "created_at": _text(time_text("stored_us")),
    OPERATION: _text(OPERATION_TEXT),
    DURATION: _unless_running(f"concat('n', {double_text(DURATION_MS)})", "''"),
    "model": scalar_leaf(MODEL_COLUMN),
}
"""The typed text of each field that is not in JSON; a field that is missing here is never present on a span."""

_NUMBERS: Final[Mapping[str, str]] = {
    "start_time": "toNullable(toFloat64(start_us))",
    "end_time": _unless_running("toFloat64(end_us)", "NULL"),
    "created_at": "toNullable(toFloat64(stored_us))",
    DURATION: _unless_running(DURATION_MS, "NULL"),
}


def _typed(place: ValuePlace, parameters: Parameters) -> str:
    if place.field in SHORTHANDS and place.field not in _COLUMNS:
        [place] = SHORTHANDS[place.field]
    if FIELDS[place.field].kind is Kind.SCORES:
        return typed_score(place, parameters)
    if FIELDS[place.field].kind is not Kind.JSON:
        return _COLUMNS.get(place.field, "''")
    found = json_place(place, parameters)
    return "''" if found is None else found.typed()


def _number(place: ValuePlace, typed: str) -> str:
    if place.field in _NUMBERS:
        return _NUMBERS[place.field]
    if FIELDS[place.field].kind not in _HAS_NUMBERS:
        return _NO_NUMBER
    # Most values are numbers: the regular expression, which takes longer than all else, sees an empty text for these.
    is_number = f"startsWith({typed}, 'n')"
    is_text = f"match(if({is_number}, '', {typed}), '^s{NUMBER_GRAMMAR}$')"
    number = f"toFloat64OrNull(if({is_number} OR {is_text}, substring({typed}, 2), ''))"
    return f"if(isFinite({number}), {number}, NULL)"
