"""``clearspan projects masking``: its actions and options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_group, add_json, add_server, add_table

DESCRIPTION: Final = """\
Show and change the masking rules of the project of a key. Workers apply them before they store a span or dead-letter
it; what is stored already stays as it is, and so do the records in Kafka.
"""

EXAMPLES: Final = """\
examples
  clearspan projects masking add --value '\\bsk-[A-Za-z0-9]{20,}'
  clearspan projects masking add --path user.email --action hash
  clearspan projects masking add --path 'http.request.header.*' --place attributes --action drop
  clearspan projects masking show
  clearspan projects masking show --json > rules.json
  clearspan projects masking set rules.json
  clearspan projects masking clear

Places: attributes, resource, scope, events, links, span_name, status_message. docs/masking.md explains the rules.
"""


def add(projects: Any) -> None:
    """Add the actions to those of projects."""
    texts = {"description": DESCRIPTION, "epilog": EXAMPLES}
    actions = add_group(projects, "masking", "replace or remove content before it is stored", **texts)
    module = "clearspan.client.masking"
    show = add_command(actions, "show", f"{module}:show", "show the rules, and how many values they have masked")
    append = add_command(actions, "add", f"{module}:append", "add a rule after the others")
    append.add_argument("--path", metavar="PATTERN", help="dotted path of attributes; * stands for any characters")
    append.add_argument("--value", metavar="REGEX", help="regular expression of RE2 for texts, numbers and names")
    append.add_argument(
        "--place", metavar="PLACE", action="append", dest="places", help="only this part of a span; may be repeated"
    )
    append.add_argument("--action", choices=("redact", "hash", "drop"), default="redact", help="default: redact")
    replace = add_command(actions, "set", f"{module}:replace", "replace all rules by those of a file")
    replace.add_argument("file", metavar="FILE", help="JSON as `show --json` prints it, or - for standard input")
    clear = add_command(actions, "clear", f"{module}:clear", "remove all rules")
    clear.add_argument("--yes", action="store_true", help="do not ask")
    add_json(show, append, replace, clear)
    add_table(show, append, replace, clear)
    add_server(show, append, replace, clear)
