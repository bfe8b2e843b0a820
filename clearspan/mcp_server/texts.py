"""What a language model reads: spans as short objects, and a trace as an indented tree with its messages.

Every text has a limit of characters, and says what it left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from clearspan.client.messages import message_key, turns_of
from clearspan.client.requests import FAILED
from clearspan.client.span_values import (
    Span,
    cost_text,
    duration_ms,
    duration_text,
    value_of,
)
from clearspan.client.trace import TreeRow, spans_of, tree_of
from query_api.filter.language import SCORES
from query_api.filter.matches import score_value

TEXT_CHARACTERS_MAX: Final = 1_000
"""Of one message, or of one text in a span."""

SCORES_MAX: Final = 20
"""Names of scores of a span in a list."""

LEVELS_MAX: Final = 24
"""Levels that are indented."""


def short_span(span: Span) -> dict[str, Any]:
    """Return what identifies and describes a span in a list; absent values are left out."""
    values = {
        "trace_id": span["trace_id"],
        "span_id": span["span_id"],
        "parent_id": span.get("parent_id"),
        "span_name": span.get("span_name"),
        "span_type": span.get("span_type"),
        "service": value_of(span, "service"),
        "model": value_of(span, "model"),
        "status": "error" if span.get("status_code") == FAILED else None,
        "status_message": _shortened(span.get("status_message")),
        "start_time": span.get("start_time"),
        "state": span.get("state"),
        "duration_ms": None if (lasted := duration_ms(span)) is None else round(lasted, 3),
        "tokens": value_of(span, "tokens"),
        "cost": value_of(span, "cost"),
        "session": value_of(span, "session"),
        "user": value_of(span, "user"),
        "scores": _scores(span.get(SCORES) or []),
    }
    return {name: value for name, value in values.items() if value not in (None, "", {})}


def _scores(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the newest value of each name, or its label if it has no value."""
    names = list(dict.fromkeys(score["name"] for score in scores))[:SCORES_MAX]
    return {_shortened(name): _shortened(score_value(scores, name)) for name in names}


def shortened_json(value: Any, characters_max: int) -> str:
    """Return JSON whose texts are shortened first to ``TEXT_CHARACTERS_MAX``, then cut to a length."""
    text = json.dumps(_shortened(value), ensure_ascii=False)
    return text if len(text) <= characters_max else f"{text[:characters_max]} … {len(text) - characters_max} more"


def trace_text(
    outline: Mapping[str, Any], summary: Mapping[str, Any], calls: Sequence[Span], characters_max: int
) -> str:
    """Return a trace: a line of totals, the tree of its spans, and the messages of ``calls``.

    At most half of the characters are for the tree if there are messages.
    """
    rows = list(tree_of(spans_of(outline)))
    lines = [_totals(outline, summary)]
    tree_max = characters_max // 2 if calls else characters_max
    lines += _fitting(map(_tree_line, rows), tree_max, f"more spans of {len(rows)}")
    if calls:
        lines.append("\nMessages of model calls; those of an earlier call are left out:")
        used = sum(map(len, lines))
        lines += _fitting(_message_lines(calls), characters_max - used, "more lines of messages")
    return "\n".join(lines)


def _totals(outline: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    tokens, cost = summary.get("tokens"), summary.get("cost")
    parts = [
        f"trace {outline['trace_id']}",
        summary.get("service"),
        f"starts {outline['start_time']}",
        duration_text(summary.get("duration", 0)),
        summary.get("state"),
        f"{outline['spans_count']} spans",
        f"{summary.get('errors_count', 0)} failed",
        f"{tokens} tokens" if tokens is not None else None,
        cost_text(cost) if cost is not None else None,
        f"session {summary['session_id']}" if "session_id" in summary else None,
    ]
    return ", ".join(str(part) for part in parts if part)


def _tree_line(row: TreeRow) -> str:
    span = row.span
    parts = [
        f"{'  ' * min(len(row.last_of), LEVELS_MAX)}- {_one_line(span.span_name)}",
        f"[{span.span_type}]" if span.span_type else "",
        "FAILED" if span.status_code == FAILED else "",
        duration_text(span.duration_ms),
        span.model,
        f"{span.tokens} tokens" if span.tokens is not None else "",
        cost_text(span.cost),
        f"span_id={span.span_id}",
    ]
    return " ".join(part for part in parts if part)


def _message_lines(calls: Iterable[Span]) -> Iterator[str]:
    """Yield each message once, under the first call that got or returned it."""
    seen: set[str] = set()
    for span in calls:
        yield f"{_one_line(str(span.get('span_name')))} span_id={span['span_id']}"
        for side, message in turns_of(span):
            key = message_key(message)
            if key not in seen:
                seen.add(key)
                yield f"  {side}: {shortened_json(message, 2 * TEXT_CHARACTERS_MAX)}"


def _fitting(lines: Iterable[str], characters_max: int, what: str) -> Iterator[str]:
    """Yield lines while they fit, then how many did not."""
    left, missing_count = characters_max, 0
    for line in lines:
        left -= len(line) + 1
        if left < 0 or missing_count:
            missing_count += 1
        else:
            yield line
    if missing_count:
        yield f"… {missing_count} {what}; raise characters_max, or read one span"


def _shortened(value: Any) -> Any:
    """Return the value with long texts cut, in objects and arrays too."""
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS_MAX:
        return f"{value[:TEXT_CHARACTERS_MAX]}… {len(value) - TEXT_CHARACTERS_MAX} more characters"
    if isinstance(value, Mapping):
        return {name: _shortened(member) for name, member in value.items()}
    return [_shortened(member) for member in value] if isinstance(value, list) else value


def _one_line(text: str) -> str:
    return " ".join(text.split())
