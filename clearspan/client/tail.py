"""``clearspan tail``: follow the feed of new spans, one line each, and reconnect if the API is away."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from rich.text import Text

from clearspan.client.connection import ApiClient, RequestFailed, api_command
from clearspan.client.output import console, note, print_objects, safe
from clearspan.client.requests import filtering_of
from clearspan.client.span_values import Span, cost_text, duration_ms, duration_text, is_error, local_time, value_of
from clearspan.command import Json, Option
from clearspan.options import SpanOptions, duration, limit

DESCRIPTION: Final = """\
Print spans as they become queryable, one line each, until it is interrupted. It begins now, or earlier with --last.
Late and updated spans are printed too. If the API is away, it reconnects and misses nothing.
"""
EXAMPLES: Final = """\
examples
  clearspan tail
  clearspan tail --errors
  clearspan tail --last 15m span_type is chat and cost gt 0.01
  clearspan tail --json --limit 10
"""
WAIT_S: Final = 25
PAGE_SPANS: Final = 500
RETRY_S: Final = 0.5
RETRY_MAX_S: Final = 30.0

_STYLES: Final = {"agent": "magenta", "chat": "cyan", "llm": "cyan", "completion": "cyan", "tool": "yellow"}


@api_command(description=DESCRIPTION, epilog=EXAMPLES)
async def tail(
    api: ApiClient,
    *,
    spans: SpanOptions,
    last: Annotated[
        str | None, Option("DURATION", "begin with spans stored in the last 15m, 1h, 7d (s m h d w)", type=duration)
    ] = None,
    limit: Annotated[int | None, Option("N", "end after N spans (default: do not end)", type=limit)] = None,
    as_json: Json = False,
) -> int:
    """Print new spans until ``limit`` of them were printed, or until interrupted."""
    body = await filtering_of(api, spans)
    left = limit
    async for page in _feed(api, body, begin="now" if last is None else f"-{last}"):
        shown = page if left is None else page[:left]
        if as_json:
            print_objects(shown)
        else:
            out = console()
            for span in shown:
                out.print(_line(span), soft_wrap=True)
        sys.stdout.flush()
        if left is not None:
            left -= len(shown)
            if left == 0:
                break
    return 0


async def _feed(api: ApiClient, body: dict[str, Any], *, begin: str) -> AsyncIterator[list[Span]]:
    """Yield pages of the feed forever. A failure before the first page is raised; later ones are retried.

    The cursor of the last page is kept, so nothing is missed and nothing comes twice.
    """
    windowing: dict[str, Any] = {"by": "created_at", "limit": PAGE_SPANS, "from": begin}
    retry_s = RETRY_S
    while True:
        try:
            answer = await api.post("/spans/query", {**body, "windowing": windowing})
        except RequestFailed as exc:
            if "next" not in windowing or not exc.is_transient:
                raise
            wait_s = max(exc.retry_after_s or 0.0, retry_s)
            note(f"{exc} Reconnecting in {wait_s:g} s …")
            await asyncio.sleep(wait_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)
            continue
        retry_s = RETRY_S
        if answer.get("spans"):
            yield answer["spans"]
        windowing = {
            "by": "created_at", "limit": PAGE_SPANS, "wait_s": WAIT_S, "next": answer["windowing"]["next"],
        }  # fmt: skip


def _line(span: Span) -> Text:
    """Return what a list would show of a span, on one line."""
    is_failed = is_error(span)
    span_type = span.get("span_type")
    tokens = value_of(span, "tokens")
    message = span.get("status_message") or value_of(span, "attributes.ag.exception.message")
    parts = [
        Text(local_time(span.get("start_time"))[11:], "dim"),
        safe(f"{'✗' if is_failed else '·'} {span.get('span_name')}", "bold red" if is_failed else "bold"),
        safe(span_type, _STYLES.get(str(span_type), "blue")),
        safe(value_of(span, "service"), "green"),
        Text(duration_text(duration_ms(span))),
        safe(value_of(span, "model")),
        safe(f"{tokens} tokens" if tokens is not None else None),
        Text(cost_text(value_of(span, "cost"))),
        safe(message if is_failed else None, "red"),
        safe(span.get("trace_id"), "dim"),
    ]
    return Text("  ").join(part for part in parts if part.plain)
