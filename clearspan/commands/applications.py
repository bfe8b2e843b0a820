"""``clearspan applications``: its actions and options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_group, add_json, add_server, add_table, limit

DESCRIPTION: Final = """\
Read the history of applications: their prompts and configurations, versioned like code. An application is named by its
slug. Each has variants, which are like branches; without --variant it is the first one. Exit code 3 if there is no such
application or version.
"""
EXAMPLES: Final = """\
examples
  clearspan applications list
  clearspan applications log faq-bot
  clearspan applications show faq-bot --version 0
  clearspan applications diff faq-bot 0 1
"""
LIST_EXAMPLES: Final = """\
examples
  clearspan applications list
  clearspan applications list --json
"""
LOG_EXAMPLES: Final = """\
examples
  clearspan applications log faq-bot
  clearspan applications log faq-bot --variant faq-bot.concise --limit 5
"""
SHOW_EXAMPLES: Final = """\
examples
  clearspan applications show faq-bot
  clearspan applications show faq-bot --version 0 --json
"""
DIFF_EXAMPLES: Final = """\
examples
  clearspan applications diff faq-bot             what the last commit changed
  clearspan applications diff faq-bot 0           version 0 and the head
  clearspan applications diff faq-bot 0 1 --json
"""


def add(commands: Any) -> None:
    """Add the commands."""
    summary = "read the history of applications"
    actions = add_group(commands, "applications", summary, description=DESCRIPTION, epilog=EXAMPLES)
    of_client = "clearspan.client.applications"
    summary = "list the applications, latest first"
    listing = add_command(actions, "list", f"{of_client}:list_all", summary, epilog=LIST_EXAMPLES)
    summary = "list the commits of a variant, latest first"
    log = add_command(actions, "log", f"{of_client}:log", summary, epilog=LOG_EXAMPLES)
    summary = "show what a revision contains"
    show = add_command(actions, "show", f"{of_client}:show", summary, epilog=SHOW_EXAMPLES)
    summary = "show what changed between two revisions of a variant"
    diff = add_command(actions, "diff", f"{of_client}:diff", summary, epilog=DIFF_EXAMPLES)
    for action in (log, show, diff):
        action.add_argument("application", metavar="APPLICATION", help="the slug of an application")
        action.add_argument("--variant", metavar="SLUG", help="the slug of a variant (default: the first variant)")
    for action in (listing, log):
        action.add_argument("--limit", metavar="N", type=limit, default=50, help="at most N lines (default: 50)")
    show.add_argument("--version", metavar="VERSION", help="a version, for example 0 (default: the head)")
    diff.add_argument("old", metavar="OLD", nargs="?", help="a version (default: the one before NEW)")
    diff.add_argument("new", metavar="NEW", nargs="?", help="a version (default: the head)")
    for action in (listing, log, show, diff):
        add_json(action)
        add_server(action)
    add_table(listing, log)
