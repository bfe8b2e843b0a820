"""Values of spans as the API returns them, by the names of the query language: fields, shorthands and paths."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import floor, log10
from typing import Any, Final

from clearspan.client.connection import WrongUsage
from clearspan.client.requests import FAILED, read_field
from common.paths import value_at
from common.span import RUNNING
from query_api.filter.language import ATTRIBUTES, DURATION, SCORES, SHORTHANDS
from query_api.filter.matches import score_value, shorthand_value

Span = Mapping[str, Any]

NS_IN_MS: Final = 1_000_000


def read_columns(text: str) -> list[str]:
    """Return the names in a list with commas. Raises ``WrongUsage`` if one is neither a field nor a path."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in {ATTRIBUTES, "resource", "scope"}:
            read_field(name)
        if name == "content":
            raise WrongUsage("'content' is searched in, but has no value; show attributes or events instead.")
    return names


def value_of(span: Span, name: str) -> Any:
    """Return the value of a field, a shorthand or a path; ``None`` if the span has none."""
    if name == DURATION:
        return duration_ms(span)
    if name in SHORTHANDS:
        value = shorthand_value(name, span)
        return value if isinstance(value, str | int | float) else None
    if name in {ATTRIBUTES, "resource", "scope"}:
        return span.get(name)
    named = read_field(name)
    if "key" not in named:
        return span.get(named["field"])
    if named["field"] == SCORES:
        return score_value(span.get(SCORES) or [], named["key"])
    path = named["key"].split(".")
    if named["field"] == ATTRIBUTES:
        return value_at(span.get(ATTRIBUTES), path)
    holder = span.get(named["field"])
    member = value_at(holder, path)
    return value_at(holder, [ATTRIBUTES, *path]) if member is None else member


def duration_ms(span: Span) -> float | None:
    """Return the milliseconds from start to end; ``None`` while the span is running."""
    start, end = span.get("start_time_unix_nano"), span.get("end_time_unix_nano")
    return (int(end) - int(start)) / NS_IN_MS if start and end else None


def is_error(span: Span) -> bool:
    """Return whether the span has the status ERROR."""
    return span.get("status_code") == FAILED


def local_time(text: object) -> str:
    """Return a time of an answer, which is UTC, to the millisecond: ``2026-05-01 12:00:00.250``."""
    try:
        return datetime.fromisoformat(str(text)).isoformat(sep=" ", timespec="milliseconds")[:23]
    except ValueError:
        return str(text)


def duration_text(milliseconds: float | None) -> str:
    """Return a duration with a unit: ``3.2 ms``, ``1.25 s``, ``2 min 5 s``; ``running`` if there is none."""
    if milliseconds is None:
        return RUNNING
    if milliseconds < 1_000:
        return f"{milliseconds:.3g} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def cost_text(dollars: object) -> str:
    """Return a cost in US dollars, with two significant digits if it is small."""
    if not isinstance(dollars, int | float):
        return ""
    small = 0 < abs(dollars) < 1
    return f"${dollars:,.{min(1 - floor(log10(abs(dollars))), 12) if small else 2}f}"
