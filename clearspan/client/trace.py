"""``clearspan trace``: one trace as a tree with bars, from its outline; or the conversation of its model calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote

from rich.text import Text

from clearspan.client.connection import ApiClient, api_command
from clearspan.client.messages import print_conversation
from clearspan.client.output import (
    TableColumn,
    bar_width,
    console,
    note,
    place_bar,
    print_objects,
    print_table,
    safe,
)
from clearspan.client.requests import FAILED
from clearspan.client.span_values import NS_IN_MS, cost_text, duration_text, local_time
from clearspan.command import Json, Operand, Option
from clearspan.console import NOTHING_FOUND
from clearspan.options import limit

DESCRIPTION: Final = """\
Show one trace as a tree: when each span ran, its tokens, cost and errors. With --messages, show the conversation of its
model calls instead. Exit code 3 if there is no such trace.
"""
EXAMPLES: Final = """\
examples
  clearspan trace 3e62f5b20306a7b90576815eceddda07
  clearspan trace 3e62f5b20306a7b90576815eceddda07 --messages
  clearspan trace 3e62f5b20306a7b90576815eceddda07 --json | grep STATUS_CODE_ERROR

Agents repeat the usage of their model calls, so the numbers of single spans do not add up; those of the trace count
each model call once.
"""
BAR_WIDTH: Final = 24
LEVELS_SHOWN_MAX: Final = 24
"""Levels of the tree that are drawn; deeper spans are drawn on the last one."""

_COLUMNS: Final = (
    TableColumn("span"),
    TableColumn("type"),
    TableColumn("duration", "right", is_whole=True),
    TableColumn("", is_whole=True),
    TableColumn("tokens", "right", is_whole=True),
    TableColumn("cost", "right", is_whole=True),
    TableColumn("model"),
)


@dataclass(frozen=True, slots=True)
class OutlineSpan:
    """A span of an outline; times in nanoseconds, ``start_ns`` from the start of the trace."""

    span_id: str
    parent_id: str | None
    span_name: str
    span_type: str
    status_code: str
    service: str
    model: str
    start_ns: int
    duration_ns: int | None
    tokens: float | None
    cost: float | None

    @property
    def duration_ms(self) -> float | None:
        """The milliseconds from start to end; ``None`` while it is running."""
        return None if self.duration_ns is None else self.duration_ns / NS_IN_MS

    @property
    def end_ns(self) -> int:
        """Its end; its start while it is running."""
        return self.start_ns + (self.duration_ns or 0)


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A span, its level (0: at the top), and whether it is the last child, for each level from the top."""

    span: OutlineSpan
    last_of: tuple[bool, ...]


@api_command(description=DESCRIPTION, epilog=EXAMPLES, is_table=True)
async def trace(
    api: ApiClient,
    *,
    trace_id: Annotated[str, Operand("ID", "the trace_id, which `clearspan query` shows")],
    messages: Annotated[bool, Option(None, "show what models were sent and answered")] = False,
    full: Annotated[bool, Option(None, "do not shorten long messages")] = False,
    limit: Annotated[int, Option("N", "show at most N spans (default: 1000)", type=limit)] = 1_000,
    as_json: Json = False,
) -> int:
    """Print a trace; return 3 if there is none."""
    answer = await api.get(f"/traces/{quote(trace_id, safe='')}/outline")
    if not answer.get("count"):
        note(f"There is no trace {trace_id}.")
        return NOTHING_FOUND
    outline = answer["outline"]
    if messages:
        return await print_conversation(api, outline["trace_id"], limit=limit, is_full=full, as_json=as_json)
    spans = spans_of(outline)
    rows = list(tree_of(spans))
    if as_json:
        print_objects({**asdict(row.span), "level": len(row.last_of)} for row in rows[:limit])
    else:
        await _print_tree(api, outline, rows[:limit])
    if len(rows) > limit:
        note(f"{len(rows) - limit:,} more spans; --limit shows more.")
    return 0


def spans_of(outline: Mapping[str, Any]) -> list[OutlineSpan]:
    """Return the spans of an outline, in its order."""
    columns = outline["spans"]
    plain = {name: column for name, column in columns.items() if isinstance(column, list)}
    named = {
        name: [column["values"][place] for place in column["index"]]
        for name, column in columns.items()
        if isinstance(column, dict)
    }
    values = {**plain, **named}
    names = OutlineSpan.__slots__
    return [OutlineSpan(*row) for row in zip(*(values[name] for name in names), strict=True)]


def tree_of(spans: Sequence[OutlineSpan]) -> Iterator[TreeRow]:
    """Yield every span once, parents before their children, siblings by their start.

    A span whose parent is not in the trace is at the top, and so is the first span of a cycle of parents.
    """
    ids = {span.span_id for span in spans}
    children: dict[str | None, list[OutlineSpan]] = {}
    for span in spans:
        parent = span.parent_id if span.parent_id in ids and span.parent_id != span.span_id else None
        children.setdefault(parent, []).append(span)
    seen: set[str] = set()
    tops = children.pop(None, [])
    yield from _below(tops, children, seen)
    for span in spans:  # what is left are cycles
        if span.span_id not in seen:
            yield from _below([span], children, seen)


def _below(
    tops: Sequence[OutlineSpan], children: Mapping[str | None, Sequence[OutlineSpan]], seen: set[str]
) -> Iterator[TreeRow]:
    waiting = [TreeRow(span, ()) for span in reversed(tops)]
    while waiting:
        row = waiting.pop()
        if row.span.span_id in seen:
            continue
        seen.add(row.span.span_id)
        yield row
        below = [child for child in children.get(row.span.span_id, ()) if child.span_id not in seen]
        for place, child in enumerate(reversed(below)):
            waiting.append(TreeRow(child, (*row.last_of[-LEVELS_SHOWN_MAX:], place == 0)))


async def _print_tree(api: ApiClient, outline: Mapping[str, Any], rows: Sequence[TreeRow]) -> None:
    total_ns = max(row.span.end_ns for row in rows) or 1
    await _print_summary(api, outline)
    width = bar_width(BAR_WIDTH)
    print_table(_COLUMNS, (_cells(row, total_ns, width) for row in rows))


async def _print_summary(api: ApiClient, outline: Mapping[str, Any]) -> None:
    """Print what a list would show of the trace: its sums count each model call once."""
    condition = {"field": "trace_id", "value": outline["trace_id"]}
    answer = await api.post("/traces/summaries/query", {"filtering": {"conditions": [condition]}})
    summary: Mapping[str, Any] = next(iter(answer.get("summaries", [])), {})
    errors_count = summary.get("errors_count", 0)
    tokens = summary.get("tokens")
    parts = [
        safe(summary.get("span_name", ""), "bold"),
        safe(summary.get("service"), "cyan"),
        Text(f"{local_time(outline['start_time'])} UTC", "dim"),
        Text(duration_text(summary.get("duration", 0))),
        Text(summary.get("state", "")),
        Text(f"{outline['spans_count']:,} spans"),
        Text(f"{tokens:,} tokens" if tokens is not None else ""),
        Text(cost_text(summary.get("cost"))),
        Text(f"{errors_count:,} failed" if errors_count else "", "red"),
        safe(f"session {summary['session_id']}" if "session_id" in summary else None, "dim"),
    ]
    console().print(Text("   ").join(part for part in parts if part.plain), soft_wrap=True)
    print()


def _cells(row: TreeRow, total_ns: int, width: int) -> list[object]:
    span = row.span
    is_failed = span.status_code == FAILED
    name = Text.assemble(
        (_guides(row.last_of), "dim"), safe(f"{'✗ ' if is_failed else ''}{span.span_name}", "red" if is_failed else "")
    )
    shown_ns = total_ns - span.start_ns if span.duration_ns is None else span.duration_ns
    bar = place_bar(span.start_ns / total_ns, shown_ns / total_ns, width)
    return [
        name,
        span.span_type,
        duration_text(span.duration_ms),
        Text(bar, "red" if is_failed else "cyan"),
        span.tokens,
        cost_text(span.cost),
        span.model,
    ]


def _guides(last_of: Sequence[bool]) -> str:
    """Return the lines that lead from the parents of a span to it."""
    if not last_of:
        return ""
    return "".join("   " if is_last else "│  " for is_last in last_of[:-1]) + ("└─ " if last_of[-1] else "├─ ")
