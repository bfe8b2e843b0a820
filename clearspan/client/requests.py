"""From words and options to the members of a request: ``filtering``, ``windowing`` and ``query_ref``.

Filters are words: ``span_type is chat and cost gt 0.01``, with the fields and operators of the query language. A
condition is a field, an operator and one value; ``and`` is between conditions. The explorer reads the same spelling.
Where the operator is a symbol, all three may be one word: ``session=s-1``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from clearspan.client.connection import ApiClient, WrongUsage
from clearspan.client.output import note
from clearspan.options import OrderOptions, SpanOptions, WindowOptions
from query_api.filter.language import (
    ALLOWED_OPERATORS,
    ATTRIBUTES,
    DURATION,
    FIELDS,
    OPERATORS,
    Kind,
    OperandKind,
    Operator,
    did_you_mean,
)

AND: Final = "and"
SYMBOLS: Final[Mapping[str, Operator]] = {
    "=": Operator.IS,
    "!=": Operator.IS_NOT,
    ">": Operator.GT,
    ">=": Operator.GTE,
    "<": Operator.LT,
    "<=": Operator.LTE,
    "~": Operator.MATCHES,
}
ALIASES: Final = {"type": "span_type", "status": "status_code", "name": "span_name", "kind": "span_kind"}
FAILED: Final = "STATUS_CODE_ERROR"
STATUSES: Final = {"error": FAILED, "ok": "STATUS_CODE_OK", "unset": "STATUS_CODE_UNSET"}

MILLISECONDS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
"""The units that a duration may have."""

_JOINED: Final = re.compile(r"([^=!<>~]+)(!=|>=|<=|=|>|<|~)(.+)", re.DOTALL)
"""A condition in one word."""

_TYPED_KINDS: Final = frozenset({Kind.JSON, Kind.ELEMENTS})
_NUMBER_FIELDS: Final = frozenset({DURATION, "tokens", "cost"})
_TIME_UNITS: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|min|h)")
_LISTS: Final = frozenset({OperandKind.LIST, OperandKind.RANGE})


def read_conditions(words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the conditions that the words spell. A single word with spaces is split as a shell does.

    Raises ``WrongUsage``. Operands are checked by the API.
    """
    if len(words) == 1 and " " in words[0].strip():
        try:
            words = shlex.split(words[0])
        except ValueError as exc:
            raise WrongUsage(f"{words[0]!r} cannot be split into words: {exc}.") from exc
    rest = deque(words)
    conditions = []
    while rest:
        conditions.append(_condition(rest))
        if not rest:
            break
        joined = rest.popleft()
        if joined.lower() != AND:
            read = " ".join(list(words)[: len(words) - len(rest) - 1])
            raise WrongUsage(f"expected 'and' after {read!r}, got {joined!r}; quote a value that has spaces.")
        if not rest:
            raise WrongUsage("a condition must follow the last 'and'.")
    return conditions


def read_field(name: str) -> dict[str, str]:
    """Return ``field``, and ``key`` if the name is a path. Raises ``WrongUsage``.

    A dotted name that does not begin with a field is a path in ``attributes``.
    """
    name = ALIASES.get(name, name)
    first, _, path = name.partition(".")
    if name in FIELDS:
        if FIELDS[name].kind is Kind.JSON:
            raise WrongUsage(f"{name!r} needs a path, for example {name}.http.status.")
        return {"field": name}
    if path and first in FIELDS and FIELDS[first].kind is Kind.JSON:
        return {"field": first, "key": path}
    if path and first not in FIELDS:
        return {"field": ATTRIBUTES, "key": name}
    fields = ", ".join(FIELDS)
    raise WrongUsage(
        f"{name!r} is not a field; allowed: {fields}, and paths such as attributes.http.status.{did_you_mean(name)}"
    )


def read_filter(text: str) -> dict[str, Any]:
    """Read a filter that is given as JSON; return a group, also of a single condition. Raises ``WrongUsage``."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise WrongUsage(f"--filter is not JSON: {exc}.") from exc
    if not isinstance(given, dict):
        raise WrongUsage('--filter must be a JSON object, for example {"field": "span_type", "value": "chat"}.')
    return {"conditions": [given]} if "field" in given else given


def _condition(rest: deque[str]) -> dict[str, Any]:
    """Take one condition from the words."""
    name = rest.popleft()
    joined = _JOINED.fullmatch(name) if not rest or rest[0].lower() == AND else None
    if joined:
        name = joined[1]
        rest.extendleft(reversed(joined.groups()[1:]))
    field = read_field(name)
    if not rest:
        raise WrongUsage(f"{name!r} needs an operator and a value, for example: {name} is VALUE.")
    word = rest.popleft()
    operator = SYMBOLS.get(word) or _operator(word, FIELDS[field["field"]].kind)
    if OPERATORS[operator].operand is OperandKind.NOTHING:
        return {**field, "operator": operator.value}
    if not rest:
        raise WrongUsage(f"'{name} {word}' needs a value.")
    return {**field, "operator": operator.value, "value": _value(field["field"], operator, rest.popleft())}


def _operator(word: str, kind: Kind) -> Operator:
    allowed = ALLOWED_OPERATORS[kind]
    if word not in allowed:
        raise WrongUsage(f"{word!r} is not an operator here; allowed: {', '.join(allowed)}.")
    return Operator(word)


def _value(field: str, operator: Operator, text: str) -> Any:
    operand = OPERATORS[operator].operand
    if operand not in _LISTS:
        return _scalar(field, operand, text)
    if not text.startswith("["):
        return [_scalar(field, operand, each) for each in text.split(",")]
    given = _json(text)
    if not isinstance(given, list):
        raise WrongUsage(f"{text!r} begins like a JSON list, but is none.")
    return given


def _scalar(field: str, operand: OperandKind, text: str) -> Any:
    """Return the value that a word means: a number or another JSON value only where the field can hold it."""
    kind = FIELDS[field].kind
    if operand in {OperandKind.LITERAL, OperandKind.PATTERN}:
        return text
    if text == "null":
        return None
    if field == "status_code":
        return STATUSES.get(text.lower(), text)
    if kind is Kind.TIME and text.isascii() and text.isdigit():
        return int(text)
    if field == DURATION and (found := _TIME_UNITS.fullmatch(text)):
        return float(found[1]) * MILLISECONDS[found[2]]
    return _json(text) if kind in _TYPED_KINDS or field in _NUMBER_FIELDS else text


def _json(text: str) -> Any:
    """Return the text as JSON, or as it is if it is not JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> None:
    raise ValueError(name)


PAGE_SIZE: Final = 500
RANKED_MAX: Final = 1_000


def filtering_of(spans: SpanOptions) -> dict[str, Any]:
    """Return ``filtering`` and ``query_ref`` of a request; all conditions must be true. Raises ``WrongUsage``."""
    conditions = [*read_conditions(spans.words), *([{"field": "status_code", "value": FAILED}] if spans.errors else [])]
    given = None if spans.filter is None else read_filter(spans.filter)
    if given is not None and conditions:
        given = {"conditions": [given, *conditions]}
    elif conditions:
        given = {"conditions": conditions}
    body: dict[str, Any] = {} if given is None else {"filtering": given}
    return body if spans.query is None else {**body, "query_ref": {"slug": spans.query}}


def windowing_of(window: WindowOptions, order: OrderOptions | None = None) -> dict[str, Any]:
    """Return the bounds, the order and the ranking of a request. Raises ``WrongUsage``."""
    if window.last is not None and window.oldest is not None:
        raise WrongUsage("--last and --oldest both set the start of the window; give one of them.")
    oldest = window.oldest if window.last is None else f"-{window.last}"
    bounds = {"oldest": oldest, "newest": window.newest}
    windowing: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    if order is not None and order.order is not None and order.sort is None:
        windowing["order"] = order.order
    if order is not None and order.sort is not None:
        windowing["sort"] = {"by": order.sort, **({} if order.order is None else {"order": order.order})}
    return windowing


async def pages(
    api: ApiClient, path: str, body: dict[str, Any], *, member: str, limit: int
) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield at most ``limit`` results of a query route, page by page.

    A page is empty if the budget of its query ended before it found anything; the next one continues from there.
    """
    windowing, left = dict(body.get("windowing", {})), limit
    is_ranking = "sort" in windowing
    while left > 0:
        windowing["limit"] = left if is_ranking else min(left, PAGE_SIZE)
        answer = await api.post(path, {**body, "windowing": windowing})
        found = answer.get(member, [])
        left -= len(found)
        yield found
        if is_ranking and answer.get("complete") is False:
            note("The ranking is not that of the whole window: the time of the query ended. Choose a shorter window.")
        cursor = answer.get("windowing", {}).get("next")
        if cursor is None:
            return
        windowing["next"] = cursor
