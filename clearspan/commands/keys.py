"""``clearspan keys``: its actions and options."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from clearspan.commands.options import add_command, add_group, add_json, key_name, short_text

DESCRIPTION: Final = """\
Manage API keys. A key belongs to one project and decides which data a request sees. It is shown once: when it is
created.
"""

EXAMPLES: Final = """\
examples
  clearspan keys create laptop
  clearspan keys create ci --project checkout --user ci@example.org
  clearspan keys list --project checkout
  clearspan keys revoke ID --project checkout

Send a key in the header:  Authorization: ApiKey KEY
"""


def add(commands: Any) -> None:
    """Add the commands."""
    actions = add_group(commands, "keys", "create, list or revoke API keys", description=DESCRIPTION, epilog=EXAMPLES)
    create = add_command(actions, "create", "clearspan.keys:create", "create a key and show it once")
    create.add_argument("name", metavar="NAME", type=key_name, help="what the key is for, for example laptop")
    create.add_argument(
        "--user",
        metavar="EMAIL",
        type=short_text,
        help="the author of changes that are made with the key; created if new (default: no particular user)",
    )
    summary = "list the keys of a project, including revoked ones, without the secrets"
    listing = add_command(actions, "list", "clearspan.keys:list_all", summary)
    summary = "revoke a key; every running API rejects it within seconds"
    revoke = add_command(actions, "revoke", "clearspan.keys:revoke", summary)
    revoke.add_argument("key_id", metavar="ID", type=UUID, help="the id that the list shows")
    for action in (create, listing, revoke):
        action.add_argument(
            "--project", metavar="PROJECT", help="name or id of the project (default: the default project)"
        )
    add_json(create, listing, revoke)
