"""What a written value means: its type follows from the field, and units and short names from what people write."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from query_api.filter.language import DURATION, FIELDS, OPERATORS, Kind, OperandKind, Operator

SHORT_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "status_code": {
        "error": "STATUS_CODE_ERROR",
        "failed": "STATUS_CODE_ERROR",
        "ok": "STATUS_CODE_OK",
        "unset": "STATUS_CODE_UNSET",
    },
    "span_kind": {name.removeprefix("SPAN_KIND_").lower(): name for name in FIELDS["span_kind"].values},
}
"""Field → short name → the value as responses spell it. Capitals do not matter."""

UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    DURATION: {"": 1, "ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000},
    "cost": {"": 1, "$": 1},
    "tokens": {"": 1, "k": 1_000, "m": 1_000_000},
}
"""Field that is a number → unit → what one of it is."""

_TYPED: Final = frozenset({Kind.JSON, Kind.SCORES, Kind.ELEMENTS})
_LISTS: Final = frozenset({OperandKind.LIST, OperandKind.RANGE})
_TEXTS: Final = frozenset({OperandKind.LITERAL, OperandKind.PATTERN})
_QUANTITY: Final = re.compile(r"(\$?)\s*(-?[0-9]+(?:\.[0-9]+)?)\s*([a-z$]*)", re.IGNORECASE)
CLOSING_BRACKETS: Final[Mapping[str, str]] = {"[": "]", "(": ")"}
_TIME_DIGITS_MAX: Final = 20
_THOUSANDS: Final = re.compile(r"(?<!\b0),(?=[0-9]{3}(?![0-9]))")
OPENING_QUOTES: Final = "\"'“”„«»‘’‚"
CLOSING_QUOTES: Final[Mapping[str, str]] = {"“": "”", "„": "“", "«": "»", "»": "«", "‘": "’", "‚": "‘"}
"""Of those that are not the same."""

DOUBLE_QUOTED: Final = r'"(?:\\.|[^"\\])*"|[“”„][^“”„]*[“”]|[«»][^«»]*[«»]'
SINGLE_QUOTED: Final = "'[^']*'|[‘’‚][^‘’‚]*[‘’]"
QUOTED: Final = re.compile(f"{DOUBLE_QUOTED}|{SINGLE_QUOTED}", re.DOTALL)
_ELEMENT: Final = re.compile(rf"\s*({QUOTED.pattern}|(?![\s{OPENING_QUOTES}])[^,]*)\s*(?:,|$)", re.DOTALL)
_SPACED: Final = re.compile(rf"[^\s,{OPENING_QUOTES}]+\s[^,]*")
"""What brackets hold if the commas are missing."""


class WrongValue(ValueError):
    """The value means nothing for its field. The message says what does; ``allowed`` are all that do, if few."""

    def __init__(self, message: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


def read_value(field: str, operator: Operator, written: str) -> Any:
    """Return the value of a condition, as its JSON has it. Raises ``WrongValue``."""
    operand = OPERATORS[operator].operand
    if operand not in _LISTS:
        return _read_one(field, operand, written)
    elements = _json(written)
    if isinstance(elements, list):
        return elements
    return [_read_one(field, operand, element) for element in _elements(written)]


def unquoted(written: str) -> str | None:
    """Return the text inside of quotes; ``None`` if the whole is not in quotes. Raises ``WrongValue``."""
    if QUOTED.fullmatch(written) is None:
        return None
    if written[0] != '"':
        return written[1:-1]
    try:
        text: str = json.loads(written, strict=False)
    except ValueError as exc:
        raise WrongValue(f"{written} is no text in quotes: {exc}.") from exc
    return text


def _elements(written: str) -> Iterator[str]:
    closing = CLOSING_BRACKETS.get(written[0])
    if closing and not written.endswith(closing):
        raise WrongValue("This list is not closed.", [closing])
    inner = written[1:-1].strip() if closing else written
    at = 0
    while at < len(inner):
        element = _ELEMENT.match(inner, at)
        if element is None or (closing and _SPACED.fullmatch(inner)):
            raise WrongValue(
                f"Commas must be between the values of a list; got “{inner[at:]}”. If it is one value, it needs quotes."
            )
        yield element[1].strip()
        at = element.end()


def _read_one(field: str, operand: OperandKind, written: str) -> Any:
    text = unquoted(written)
    if text is not None:
        return text
    if operand in _TEXTS:
        return written
    if written == "null":
        return None
    kind = FIELDS[field].kind
    if kind is Kind.ENUM:
        return _one_of(field, written)
    if field in UNITS or (kind in _TYPED and operand is OperandKind.COMPARABLE):
        _refuse_commas(written)
    if field in UNITS:
        return _quantity(field, written)
    if kind is Kind.TIME and written.isascii() and written.isdigit() and len(written) <= _TIME_DIGITS_MAX:
        return int(written)
    return _json(written) if kind in _TYPED else written


def _one_of(field: str, written: str) -> str:
    """Return a value of a field that has few, also by its short name. Capitals do not matter."""
    values = FIELDS[field].values
    meanings = {**{value.lower(): value for value in values}, **SHORT_VALUES.get(field, {})}
    if value := meanings.get(written.lower()):
        return value
    names = list(SHORT_VALUES.get(field, values))
    close = get_close_matches(written.lower(), names, n=1)
    meant = f" Did you mean “{close[0]}”?" if close else ""
    raise WrongValue(f"“{written}” is no value of {field}: {', '.join(names)}.{meant}", names)


def _quantity(field: str, written: str) -> float:
    units = UNITS[field]
    quantity = _QUANTITY.fullmatch(written)
    factor = None if quantity is None else units.get((quantity[3] or quantity[1]).lower())
    if quantity is None or factor is None:
        shown = ", ".join(f"{unit}1" if unit == "$" else f"1{unit}" for unit in units if unit)
        raise WrongValue(f"“{written}” is no value of {field}: it needs a number, without a unit or as in {shown}.")
    amount = float(quantity[2]) * factor
    if not math.isfinite(amount):
        raise WrongValue(f"This number is too large for {field}.")
    return int(amount) if amount.is_integer() else float(f"{amount:.12g}")


def _refuse_commas(written: str) -> None:
    plain = _THOUSANDS.sub("", written).replace(",", ".")
    if plain != written and _QUANTITY.fullmatch(plain):
        raise WrongValue(f"A number is written without commas: {plain}.")


def _json(written: str) -> Any:
    """Return the value of JSON, or the text as it is if it is not JSON."""
    try:
        return json.loads(written, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return written


def _refuse(name: str) -> None:
    raise ValueError(name)
