"""From words and options to the members of a request: ``filtering``, ``windowing`` and ``query_ref``.

What conditions mean is asked of the API (``POST /filters/parse``), so that the command line, the tools of MCP and the
explorer read them alike.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from clearspan.client.connection import ApiClient, WrongUsage
from clearspan.client.output import note
from clearspan.options import OrderOptions, SpanOptions, WindowOptions
from query_api.filter.language import FIELDS, OPERATORS, Kind, did_you_mean
from query_api.filter.notation import names as notation
from query_api.filter.notation.values import OPENING_QUOTES

FAILED: Final = "STATUS_CODE_ERROR"
PARSE: Final = "/filters/parse"

_OPERATORS: Final = frozenset({*notation.SYMBOLS, *(operator.value for operator in OPERATORS)})
_QUOTES: Final = (*OPENING_QUOTES, "[")
"""What a value begins with that is written as a text in quotes or as a list."""


def text_of(words: Sequence[str]) -> str:
    """Return the words of a command line as one text. The shell took the quotes of a value with spaces: it gets them
    back after an operator.
    """
    if len(words) == 1:
        return words[0]
    return " ".join(
        json.dumps(word, ensure_ascii=False) if before in _OPERATORS and _needs_quotes(word) else word
        for before, word in zip(["", *words], words, strict=False)
    )


def _needs_quotes(word: str) -> bool:
    return not word.startswith(_QUOTES) and any(character.isspace() or character in "()" for character in word)


class ReadConditions(NamedTuple):
    """What written conditions mean. ``warning`` is a sentence if it may not be what was meant."""

    conditions: list[dict[str, Any]]
    warning: str | None = None


async def read_conditions(api: ApiClient, text: str) -> ReadConditions:
    """Return what a text means. Raises ``WrongUsage`` with the place where it is wrong."""
    if not text.strip():
        return ReadConditions([])
    answer = await api.post(PARSE, {"text": text})
    if problem := answer.get("problem"):
        raise WrongUsage(_shown(text, problem))
    hint = f" Did you mean: {answer['hint']}" if answer.get("hint") else ""
    warning = f"This is no condition: its words are searched for.{hint}" if answer.get("searched") else None
    return ReadConditions([part["filtering"] for part in answer["parts"]], warning)


def _shown(text: str, problem: dict[str, Any]) -> str:
    """Return the message, and where in the text it applies."""
    marks = "^" * max(1, problem["end"] - problem["begin"])
    allowed = f"\n  allowed: {', '.join(problem['allowed'])}" if problem["allowed"] else ""
    return f"{problem['message']}\n  {text}\n  {' ' * problem['begin']}{marks}{allowed}"


def read_field(name: str) -> dict[str, str]:
    """Return ``field``, and ``key`` if the name is a path. Raises ``WrongUsage``.

    A dotted name that does not begin with a field is a path in ``attributes``.
    """
    field = notation.read_field(name)
    if field is None:
        raise WrongUsage(
            f"{name!r} is not a field; allowed: {', '.join(FIELDS)}, and paths such as attributes.http.status."
            f"{did_you_mean(name)}"
        )
    if "key" not in field and FIELDS[field["field"]].kind is Kind.JSON:
        raise WrongUsage(f"{name!r} needs a path, for example {name}.http.status.")
    return field


def read_filter(text: str) -> dict[str, Any]:
    """Read a filter that is given as JSON; return a group, also of a single condition. Raises ``WrongUsage``."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise WrongUsage(f"--filter is not JSON: {exc}.") from exc
    if not isinstance(given, dict):
        raise WrongUsage('--filter must be a JSON object, for example {"field": "span_type", "value": "chat"}.')
    return {"conditions": [given]} if "field" in given else given


PAGE_SIZE: Final = 500
RANKED_MAX: Final = 1_000
_IS_FAILED: Final = {"field": "status_code", "value": FAILED}


async def filtering_of(api: ApiClient, spans: SpanOptions) -> dict[str, Any]:
    """Return ``filtering`` and ``query_ref`` of a request; all conditions must be true. Raises ``WrongUsage``."""
    written = await read_conditions(api, text_of(spans.words))
    if written.warning is not None:
        note(written.warning)
    conditions = [*written.conditions, *([_IS_FAILED] if spans.errors else [])]
    filtering = {"conditions": conditions} if conditions else None
    if spans.filter is not None:
        given = read_filter(spans.filter)
        filtering = {"conditions": [given, *conditions]} if conditions else given
    body: dict[str, Any] = {} if filtering is None else {"filtering": filtering}
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
        score = notation.read_score(order.sort)
        windowing["sort"] = {"by": score or order.sort, **({} if order.order is None else {"order": order.order})}
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
