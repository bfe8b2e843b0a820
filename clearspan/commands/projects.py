"""``clearspan projects``: its actions and options."""

from __future__ import annotations

import argparse
import re
from typing import Any, Final

from clearspan.commands import masking
from clearspan.commands.options import (
    CommandParser,
    add_command,
    add_group,
    add_json,
    add_server,
    add_table,
    id_text,
    project_name,
)

DAYS_MAX: Final = 36_500
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([KMGT]?B)?")

DESCRIPTION: Final = """\
Manage projects. Spans, applications, saved queries and keys belong to one project each, and no project sees the data of
another. Spans that name no project belong to the default project.
"""

EXAMPLES: Final = """\
a project for a team, and a key for it
  clearspan projects create checkout
  clearspan keys create laptop --project checkout

limit what the project of the key keeps
  clearspan projects retention                              show the rules, and what is deleted and when
  clearspan projects retention --max-age-days 30 --max-bytes 50GB
  clearspan projects retention --remove                     keep everything

delete a project with everything that belongs to it
  clearspan projects delete ID                              the key is CLEARSPAN_ADMIN_KEY

Over HTTP, the key decides the project of spans. In Kafka, the record header `project-id` does, else the resource
attribute `project.id`, else the project that is configured for the topic. Both hold the id, which `list` shows.
"""

RETENTION_DESCRIPTION: Final = """\
Show or set how long the project of the key keeps its traces, and how much they may take. Without options it shows what
is stored, and what is deleted and when. New rules replace all earlier ones; the next run applies them.
"""

RETENTION_EXAMPLES: Final = """\
examples
  clearspan projects retention
  clearspan projects retention --max-age-days 30
  clearspan projects retention --max-age-days 90 --max-bytes 50GB --json
"""


def add(commands: Any) -> None:
    """Add the commands."""
    actions = add_group(
        commands, "projects", "create, list, limit, mask or delete projects", description=DESCRIPTION, epilog=EXAMPLES
    )
    create = add_command(actions, "create", "clearspan.projects:create", "create a project")
    create.add_argument(
        "name", metavar="NAME", type=project_name, help="a name for people; commands accept it instead of the id"
    )
    listing = add_command(actions, "list", "clearspan.projects:list_all", "list all projects, oldest first")
    retention = add_command(
        actions,
        "retention",
        "clearspan.client.retention:retention",
        "show or set what the project of the key keeps",
        description=RETENTION_DESCRIPTION,
        epilog=RETENTION_EXAMPLES,
    )
    _add_rules(retention)
    delete = add_command(
        actions, "delete", "clearspan.client.retention:delete", "delete a project with everything that belongs to it"
    )
    delete.add_argument("project_id", metavar="ID", type=id_text, help="the id that the list shows")
    delete.add_argument(
        "--url", metavar="URL", help="address of the API (default: CLEARSPAN_URL, else the running embedded stack)"
    )
    delete.add_argument("--admin-key", metavar="KEY", help="key of the administrator (default: CLEARSPAN_ADMIN_KEY)")
    delete.add_argument("--yes", action="store_true", help="delete without asking")
    add_json(create, listing, retention)
    add_table(listing)
    masking.add(actions)


def _add_rules(command: CommandParser) -> None:
    command.add_argument(
        "--max-age-days",
        metavar="DAYS",
        type=_days,
        help="delete a trace when its last span started this many days ago; 0 deletes everything and asks",
    )
    command.add_argument(
        "--max-bytes",
        metavar="SIZE",
        type=_size,
        help="delete the oldest traces until the others have this size, such as 500MB or 50GB; 0 asks",
    )
    command.add_argument("--remove", action="store_true", help="remove the rules: keep everything")
    command.add_argument("--yes", action="store_true", help="set a rule of 0 without asking")
    add_server(command)


def _days(text: str) -> float:
    """Read a number of days. Raises ``ArgumentTypeError``."""
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"must be a number of days from 0 to {DAYS_MAX:,}")
    return days


def _size(text: str) -> int:
    """Read a size in bytes. Raises ``ArgumentTypeError``."""
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None:
        raise argparse.ArgumentTypeError("must be a number of bytes, with kB, MB, GB or TB if you like, such as 50GB")
    return int(float(match[1]) * 1_000.0 ** _UNITS.index(match[2] or "B"))
