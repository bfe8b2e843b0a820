"""``clearspan audit-log``: its options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import (
    add_command,
    add_json,
    add_server,
    add_table,
    add_window,
    id_text,
    limit,
    short_text,
)

DESCRIPTION: Final = """\
Show who changed what in the project of a key, and which requests were refused, newest first. The key needs the scope
`admin`. Spans that are stored have no entries. docs/audit-log.md explains the entries.
"""

EXAMPLES: Final = """\
examples
  clearspan audit-log
  clearspan audit-log --last 1h --outcome refused
  clearspan audit-log --operation delete_trace --limit 1000 --json
  clearspan audit-log --all-projects --last 1d              the key is CLEARSPAN_ADMIN_KEY

Outcomes: done; failed (it changed nothing); refused (401, 403, 429); unknown (it runs, or may have changed something).
"""


def add(commands: Any) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "audit-log",
        "clearspan.client.audit_log:show",
        "show who changed what, and who was refused",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add_window(command, "entries")
    command.add_argument("--outcome", choices=("done", "failed", "refused", "unknown"), help="only this outcome")
    command.add_argument(
        "--operation", metavar="NAME", type=short_text, help="only this operation, such as create_key or delete_trace"
    )
    command.add_argument("--key-id", metavar="ID", type=id_text, help="only what was done with this key")
    command.add_argument("--entity", metavar="ID", type=short_text, help="only changes of the thing with this id")
    command.add_argument("--limit", metavar="N", type=limit, default=100, help="print at most N entries (default: 100)")
    command.add_argument(
        "--all-projects",
        action="store_true",
        help="of all projects, and requests without a valid key; needs the admin key",
    )
    command.add_argument("--admin-key", metavar="KEY", help="key of the administrator (default: CLEARSPAN_ADMIN_KEY)")
    add_json(command)
    add_table(command)
    add_server(command)
