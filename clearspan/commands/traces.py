"""``clearspan trace`` and ``clearspan tail``: their options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_filter, add_json, add_server, add_table, duration, limit

TRACE_DESCRIPTION: Final = """\
Show one trace as a tree: when each span ran, its tokens, cost and errors. With --messages, show the conversation of its
model calls instead. Exit code 3 if there is no such trace.
"""
TRACE_EXAMPLES: Final = """\
examples
  clearspan trace 3e62f5b20306a7b90576815eceddda07
  clearspan trace 3e62f5b20306a7b90576815eceddda07 --messages
  clearspan trace 3e62f5b20306a7b90576815eceddda07 --json | grep STATUS_CODE_ERROR

Agents repeat the usage of their model calls, so the numbers of single spans do not add up; those of the trace count
each model call once.
"""
TAIL_DESCRIPTION: Final = """\
Print spans as they become queryable, one line each, until it is interrupted. It begins now, or earlier with --last.
Late and updated spans are printed too. If the API is away, it reconnects and misses nothing.
"""
TAIL_EXAMPLES: Final = """\
examples
  clearspan tail
  clearspan tail --errors
  clearspan tail --last 15m span_type is chat and cost gt 0.01
  clearspan tail --json --limit 10
"""


def add(commands: Any) -> None:
    """Add the commands."""
    _add_trace(commands)
    _add_tail(commands)


def _add_trace(commands: Any) -> None:
    texts = {"description": TRACE_DESCRIPTION, "epilog": TRACE_EXAMPLES}
    trace = add_command(commands, "trace", "clearspan.client.trace:trace", "show one trace", **texts)
    trace.add_argument("trace_id", metavar="ID", help="the trace_id, which `clearspan query` shows")
    trace.add_argument("--messages", action="store_true", help="show what models were sent and answered")
    trace.add_argument("--full", action="store_true", help="do not shorten long messages")
    trace.add_argument("--limit", metavar="N", type=limit, default=1_000, help="show at most N spans (default: 1000)")
    add_json(trace)
    add_table(trace)
    add_server(trace)


def _add_tail(commands: Any) -> None:
    texts = {"description": TAIL_DESCRIPTION, "epilog": TAIL_EXAMPLES}
    tail = add_command(commands, "tail", "clearspan.client.tail:tail", "print new spans as they arrive", **texts)
    add_filter(tail)
    tail.add_argument(
        "--last", metavar="DURATION", type=duration, help="begin with spans stored in the last 15m, 1h, 7d (s m h d w)"
    )
    tail.add_argument("--limit", metavar="N", type=limit, help="end after N spans (default: do not end)")
    add_json(tail)
    add_server(tail)
