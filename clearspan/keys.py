"""``clearspan keys``: API keys, each of one project. A key is shown once, when it is made; only its hash is kept."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from uuid import UUID

from common.project import DEFAULT_PROJECT_ID

if TYPE_CHECKING:
    from common.postgres.keys import Keys


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add create, list and revoke."""
    create = actions.add_parser("create", help="make a key and show it, this once")
    create.add_argument("name", metavar="NAME", help="what it is for, for example laptop")
    create.add_argument(
        "--project", type=UUID, default=DEFAULT_PROJECT_ID, metavar="ID", help="its project; the default project if absent"
    )
    create.add_argument("--json", action="store_true", help="a JSON object")
    create.set_defaults(command=_create)
    listing = actions.add_parser("list", help="every key: prefix, name, project; never the key itself")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    listing.set_defaults(command=_list)
    revoke = actions.add_parser("revoke", help="a key no longer counts, within seconds")
    revoke.add_argument("prefix", metavar="PREFIX", help="the eight characters before the dot")
    revoke.set_defaults(command=_revoke)
