"""``clearspan groups``: its options."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from clearspan.commands.options import (
    add_command,
    add_filter,
    add_json,
    add_server,
    add_table,
    add_window,
    gather,
    limit,
)

INTERVALS: Final = ("1m", "5m", "15m", "30m", "1h", "3h", "6h", "12h", "1d")
DESCRIPTION: Final = """\
Group spans by up to three values and measure each group: how many spans, what they cost, how long they took. With
--interval, show how the groups developed.
"""
EXAMPLES: Final = """\
examples
  clearspan groups --by model
  clearspan groups --by service,span_type --measures count,errors,duration.p95 --last 1d
  clearspan groups --by user --measures cost.sum,tokens.sum,session.uniq --sort cost.sum --limit 10
  clearspan groups --interval 1h --last 7d span_type is chat
  clearspan groups --by model --measures cost.sum --interval 1d --json

A measure is count, errors, or a value and a statistic: sum avg min max p50 p90 p95 p99 uniq. The value is duration (in
milliseconds), tokens, cost, the path of an attribute, or for uniq any field. Groups are sorted by the first measure.
"""


class GroupOptions(NamedTuple):
    """How spans are grouped and measured; lists are separated by commas."""

    measures: str
    order: str
    limit: int
    by: str | None = None
    sort: str | None = None
    interval: str | None = None


def add(commands: Any) -> None:
    """Add the command."""
    texts = {"description": DESCRIPTION, "epilog": EXAMPLES}
    groups = add_command(commands, "groups", "clearspan.client.groups:groups", "group spans and measure them", **texts)
    add_filter(groups)
    add_window(groups)
    groups.add_argument("--by", metavar="A,B", help="up to three fields or paths, such as model,attributes.customer")
    groups.add_argument(
        "--measures",
        metavar="A,B",
        default="count,errors,duration.p50,duration.p95,tokens.sum,cost.sum",
        help="what to compute (default: %(default)s)",
    )
    groups.add_argument("--sort", metavar="MEASURE", help="which groups come first (default: the first measure)")
    groups.add_argument(
        "--order",
        choices=("ascending", "descending"),
        default="descending",
        help="order of --sort (default: descending)",
    )
    groups.add_argument("--interval", choices=INTERVALS, help="divide the window into buckets of this length")
    groups.add_argument("--limit", metavar="N", type=limit, default=20, help="at most N groups (default: 20)")
    gather(groups, "grouping", GroupOptions)
    add_json(groups)
    add_table(groups)
    add_server(groups)
