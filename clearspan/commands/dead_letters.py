"""``clearspan dead-letters``: its actions and options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_group, add_json, add_table

DESCRIPTION: Final = """\
Manage dead letters: the records and spans that were rejected, with their original bytes. A replay publishes them to the
topic from which they came.
"""

EXAMPLES: Final = """\
examples
  clearspan dead-letters list
  clearspan dead-letters show 0-17 --raw > record.bin
  clearspan dead-letters replay 0-17 0-18
  clearspan dead-letters drop 0-17
"""


def add(commands: Any) -> None:
    """Add the commands."""
    summary = "list, show, replay or drop rejected records and spans"
    actions = add_group(commands, "dead-letters", summary, description=DESCRIPTION, epilog=EXAMPLES)
    summary = "list the dead letters that are neither replayed nor dropped, oldest first"
    listing = add_command(actions, "list", "clearspan.dead_letters:list_open", summary)
    show = add_command(actions, "show", "clearspan.dead_letters:show", "show one dead letter with its original bytes")
    show.add_argument("dead_letter_id", metavar="ID", help="the id that the list shows, for example 0-17")
    output = show.add_mutually_exclusive_group()
    output.add_argument(
        "--json", dest="as_json", action="store_true", help="print a JSON object, with the bytes in value_base64"
    )
    output.add_argument("--raw", action="store_true", help="write only the bytes")
    summary = "publish dead letters again to the topics from which they came"
    replay = add_command(actions, "replay", "clearspan.dead_letters:replay", summary)
    summary = "mark dead letters as done without replaying them; their bytes stay in the topic"
    drop = add_command(actions, "drop", "clearspan.dead_letters:drop", summary)
    drop.add_argument("--yes", action="store_true", help="drop without asking")
    for action in (replay, drop):
        action.add_argument(
            "dead_letter_ids", metavar="ID", nargs="+", help="an id that the list shows, for example 0-17"
        )
    add_json(listing, replay, drop)
    add_table(listing)
