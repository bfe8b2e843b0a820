"""What names of fields mean in a written filter, and what may have been meant by a text that is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from common.span import RUNNING
from query_api.filter.language import ATTRIBUTES, FIELDS, OPERATORS, SCORES, STATE, Kind, Operator

SYMBOLS: Final[Mapping[str, Operator]] = {
    "=": Operator.IS,
    "!=": Operator.IS_NOT,
    ">": Operator.GT,
    ">=": Operator.GTE,
    "<": Operator.LT,
    "<=": Operator.LTE,
    "~": Operator.MATCHES,
    **dict.fromkeys(("==", "==="), Operator.IS),
    **dict.fromkeys(("<>", "!==", "≠"), Operator.IS_NOT),
    **dict.fromkeys(("=>", "≥"), Operator.GTE),
    **dict.fromkeys(("=<", "≤"), Operator.LTE),
    "=~": Operator.MATCHES,
}
NAMES: Final[Mapping[str, str]] = {
    "type": "span_type",
    "status": "status_code",
    "name": "span_name",
    "kind": "span_kind",
    "text": "content",
    "tool": "attributes.ag.meta.tool.name",
    "trace": "trace_id",
    "span": "span_id",
}
"""Short names of fields."""

FIELD_NAMES: Final = (*NAMES, *FIELDS)

MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("failed", "failure", "failures", "error", "errors"), "status = error"),
    **dict.fromkeys(("ok", "success", "successful"), "status = ok"),
    RUNNING: f"{STATE} = {RUNNING}",
}
"""Word that stands alone → the condition that may have been meant."""

_SIMILAR: Final = 0.75
"""``modle`` is similar to ``model``, ``dauer`` is not similar to ``user``."""

JOINT: Final = re.compile(r"(?<![^\s()])((?:and|or)(?=[\s()]|$)|&&|\|\|)", re.IGNORECASE)
"""What joins two conditions."""

_PATH: Final = re.compile(r"[^\W\d][\w-]*(\.[\w-]+)+")
_NEGATED: Final = re.compile(r"(?:not\s+|!\s*)(.+)", re.IGNORECASE | re.DOTALL)
_NAMED: Final = re.compile(r"([^\s:]+)(?:\s*:\s*|\s+)(\S.*)", re.DOTALL)


def read_field(name: str) -> dict[str, str] | None:
    """Return ``field``, and ``key`` if the name is a path; ``None`` if it is neither a field nor a path."""
    full = NAMES.get(name, name)
    first, _, path = full.partition(".")
    if full in FIELDS:
        return {"field": full}
    kind = FIELDS[first].kind if first in FIELDS else None
    if kind is Kind.JSON or kind is Kind.SCORES:
        return {"field": first, "key": path} if path else None
    return {"field": ATTRIBUTES, "key": full} if _PATH.fullmatch(full) and kind is not Kind.ELEMENTS else None


def read_score(name: str) -> dict[str, str] | None:
    """Return ``field`` and ``key`` if the name is that of a score, such as ``scores.Relevance``; else ``None``."""
    field = read_field(name)
    return field if field is not None and field["field"] == SCORES and "key" in field else None


def similar_field(name: str) -> str | None:
    """Return the field whose name is nearly this one, or ``None``."""
    return next(iter(get_close_matches(name.lower(), FIELD_NAMES, n=1, cutoff=_SIMILAR)), None)


def condition_meant(text: str) -> str | None:
    """Return the condition that words may have been meant as: ``session s-1`` as ``session = s-1``; else ``None``."""
    if meant := MEANT.get(text.lower()):
        return meant
    pieces = JOINT.split(text)
    if len(pieces) > 1:
        pieces[::2] = [condition_meant(piece.strip()) or "" for piece in pieces[::2]]
        return " ".join(pieces) if all(pieces) else None
    if negated := _NEGATED.fullmatch(text):
        inner = condition_meant(negated[1])
        return inner and f"not {inner}"
    named = _NAMED.fullmatch(text)
    name = named and (named[1] if read_field(named[1]) else similar_field(named[1]))
    if named is None or name is None:
        return None
    word, _, value = named[2].strip().partition(" ")
    if word in OPERATORS or word in SYMBOLS:
        return f"{name} {word} {value}".strip()
    return f"{name} = {named[2].strip()}"
