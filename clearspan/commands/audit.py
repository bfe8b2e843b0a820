"""``clearspan audit``: its options."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from clearspan.commands.options import (
    CommandParser,
    add_command,
    add_json,
    add_server,
    gather,
    limit,
    positive_number,
    time_span,
)

SPANS_MAX: Final = 10_000

NOT_MADE: Final = 4
"""The exit code if the audit could not be made, so that nothing is known."""

DESCRIPTION: Final = """\
Check a running installation. Without --verify it sends marked spans through Kafka or HTTP, and reads them back page by
page. It says how long that took, and which spans are missing, came twice or differ. With --verify it compares every
record that Kafka still holds, up to the stored position of its partition, with what is stored.
"""

EXAMPLES: Final = """\
examples
  clearspan audit
  clearspan audit --through http --spans 100
  clearspan audit --metrics audit.prom --json
  clearspan audit --verify
  clearspan audit --verify --topic otlp_spans --json

in production
  CLEARSPAN_KEY=… clearspan audit --project audit --interval 1m --metrics /var/lib/node_exporter/clearspan.prom

--through kafka and --verify read the address of Kafka from CLEARSPAN_KAFKA__BOOTSTRAP, unless an embedded stack runs;
--verify also needs the key of the administrator. The marked spans stay: their service is `clearspan-audit`. Give them a
project of their own, whose retention deletes them. docs/self-audit.md explains the results.

Exit codes: 0 all is there, 1 something is missing, came twice or differs, 4 the audit could not be made.
"""


class SendOptions(NamedTuple):
    """What is sent, how long it may take to be found, and what is done with the result."""

    through: Literal["kafka", "http"] | None = None
    spans_count: int = 20
    timeout_s: float = 30.0
    metrics: str | None = None
    interval: timedelta | None = None


def add(commands: Any) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "audit",
        "clearspan.client.audit:audit",
        "check that what is sent is stored, and found",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    _add_sending(command)
    verify = command.add_argument_group("verify")
    verify.add_argument("--verify", action="store_true", help="compare what Kafka still holds with what is stored")
    verify.add_argument("--topic", metavar="NAME", help="only this topic (default: all that the worker reads)")
    verify.add_argument("--admin-key", metavar="KEY", help="key of the administrator (default: CLEARSPAN_ADMIN_KEY)")
    add_json(command)
    add_server(command)


def _add_sending(command: CommandParser) -> None:
    command.add_argument(
        "--through",
        choices=("kafka", "http"),
        help="how the spans are sent (default: kafka if its address is known, else http)",
    )
    command.add_argument(
        "--spans", metavar="N", dest="spans_count", type=_spans_count, default=20, help="spans to send (default: 20)"
    )
    command.add_argument(
        "--timeout",
        metavar="SECONDS",
        dest="timeout_s",
        type=positive_number,
        default=30.0,
        help="after this a span that was not found is missing (default: 30)",
    )
    command.add_argument(
        "--metrics", metavar="FILE", help="write the result as metrics of Prometheus, for its textfile collector"
    )
    command.add_argument(
        "--interval", metavar="DURATION", type=time_span, help="audit again and again, such as every 1m, until stopped"
    )
    gather(command, "sending", SendOptions)


def _spans_count(text: str) -> int:
    """Read a number of spans. Raises ``ArgumentTypeError``."""
    count = limit(text)
    if count > SPANS_MAX:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {SPANS_MAX:,}")
    return count
