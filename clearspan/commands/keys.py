"""``clearspan keys``: its actions and options."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from clearspan.commands.options import (
    add_command,
    add_group,
    add_json,
    add_table,
    gather,
    id_text,
    key_name,
    positive_integer,
    positive_number,
    scope,
    short_text,
    time_span,
)
from common.scopes import KeyScope


class KeyOptions(NamedTuple):
    """What a new key may do, for how long, and how much."""

    scopes: Sequence[KeyScope] | None = None
    expires: timedelta | None = None
    requests_per_s: float | None = None
    concurrent_max: int | None = None


DESCRIPTION: Final = """\
Manage API keys. A key belongs to one project, and its scopes say what it may do there: `ingest` sends spans, `read`
reads everything, `write` reads and changes histories, saved queries, subscriptions and alerts, `admin` does all of
these and sets keys, masking and retention. It is shown once: when it is created.
"""

EXAMPLES: Final = """\
examples
  clearspan keys create laptop
  clearspan keys create ci --project checkout --user ci@example.org
  clearspan keys create service --project checkout --scope ingest --expires 90d
  clearspan keys create dashboard --project checkout --scope read --requests-per-s 20 --concurrent-max 4
  clearspan keys list --project checkout
  clearspan keys rotate ID --project checkout --overlap 7d
  clearspan keys revoke ID --project checkout

Send a key in the header:  Authorization: ApiKey KEY
"""


def add(commands: Any) -> None:
    """Add the commands."""
    actions = add_group(
        commands, "keys", "create, list, rotate or revoke API keys", description=DESCRIPTION, epilog=EXAMPLES
    )
    create = add_command(actions, "create", "clearspan.keys:create", "create a key and show it once")
    create.add_argument("name", metavar="NAME", type=key_name, help="what the key is for, for example laptop")
    create.add_argument(
        "--user",
        metavar="EMAIL",
        type=short_text,
        help="the author of changes that are made with the key; created if new (default: no particular user)",
    )
    create.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        type=scope,
        choices=[*KeyScope],
        metavar="SCOPE",
        help="what the key may do: ingest, read, write or admin; may be repeated (default: admin)",
    )
    create.add_argument("--expires", metavar="DURATION", type=time_span, help="stop working after 90d, 12h (s m h d w)")
    create.add_argument(
        "--requests-per-s",
        metavar="N",
        type=positive_number,
        help="requests a second, in each process of the API; beyond that 429",
    )
    create.add_argument(
        "--concurrent-max",
        metavar="N",
        type=positive_integer,
        help="requests at the same time, in each process of the API; beyond that 429",
    )
    gather(create, "limits", KeyOptions)
    summary = "replace a key by a new one like it, which is shown once; the old one works a while longer"
    rotate = add_command(actions, "rotate", "clearspan.keys:rotate", summary)
    rotate.add_argument("key_id", metavar="ID", type=id_text, help="the id that the list shows")
    rotate.add_argument(
        "--overlap",
        metavar="DURATION",
        type=time_span,
        default=timedelta(hours=1),
        help="how long the old key still works (default: 1h)",
    )
    summary = "list the keys of a project, including revoked ones, without the secrets"
    listing = add_command(actions, "list", "clearspan.keys:list_all", summary)
    summary = "revoke a key; every running API rejects it within seconds"
    revoke = add_command(actions, "revoke", "clearspan.keys:revoke", summary)
    revoke.add_argument("key_id", metavar="ID", type=id_text, help="the id that the list shows")
    for action in (create, rotate, listing, revoke):
        action.add_argument(
            "--project", metavar="PROJECT", help="name or id of the project (default: the default project)"
        )
    add_json(create, rotate, listing, revoke)
    add_table(listing)
