"""``clearspan projects masking``: the masking rules of the project of a key."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from clearspan.client.connection import ApiClient, WrongUsage, api_command
from clearspan.client.output import TableColumn, print_table
from clearspan.command import Group, Json, Operand, Option
from clearspan.console import confirm, fail, print_json
from common.printable import printable

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
PATH: Final = "/masking"
_COLUMNS: Final = (TableColumn("ACTION"), TableColumn("KEY"), TableColumn("VALUE"), TableColumn("PLACES"))


@api_command("show the rules, and how many values they have masked", is_table=True)
async def show(api: ApiClient, *, as_json: Json = False) -> int:
    """Show the rules, and how many values they have masked."""
    return _shown(await api.get(PATH), as_json=as_json)


@api_command("add a rule after the others", is_table=True)
async def append(
    api: ApiClient,
    *,
    path: Annotated[str | None, Option("PATTERN", "dotted path of attributes; * stands for any characters")] = None,
    value: Annotated[str | None, Option("REGEX", "regular expression of RE2 for texts, numbers and names")] = None,
    places: Annotated[
        Sequence[str] | None,
        Option("PLACE", "only this part of a span; may be repeated", flag="--place", action="append"),
    ] = None,
    action: Annotated[str, Option(None, "default: redact", choices=("redact", "hash", "drop"))] = "redact",
    as_json: Json = False,
) -> int:
    """Add a rule after the others."""
    if path is None and value is None:
        raise WrongUsage("a rule needs --path, --value or both.")
    rule = {"action": action, "key": path, "value": value, "places": places or []}
    rules = (await api.get(PATH))["masking"]["rules"]
    added = {name: member for name, member in rule.items() if member is not None}
    return _shown(await _put(api, [*rules, added]), as_json=as_json)


@api_command("replace all rules by those of a file", is_table=True)
async def replace(
    api: ApiClient,
    *,
    file: Annotated[str, Operand("FILE", "JSON as `show --json` prints it, or - for standard input")],
    as_json: Json = False,
) -> int:
    """Replace all rules by those of a file."""
    return _shown(await _put(api, _rules_in(file)), as_json=as_json)


@api_command("remove all rules", is_table=True)
async def clear(
    api: ApiClient, *, yes: Annotated[bool, Option(None, "do not ask")] = False, as_json: Json = False
) -> int:
    """Remove all rules."""
    if not yes and not confirm("Store everything as it is sent from now on? [y/N] "):
        return fail("nothing was changed.")
    return _shown(await api.request("DELETE", PATH), as_json=as_json)


masking: Final = Group(
    {"show": show, "add": append, "set": replace, "clear": clear},
    DESCRIPTION,
    EXAMPLES,
    "replace or remove content before it is stored",
)


async def _put(api: ApiClient, rules: Sequence[Any]) -> dict[str, Any]:
    return await api.request("PUT", PATH, body={"masking": {"rules": rules}})


def _rules_in(file: str) -> list[Any]:
    """Return the rules of a file. Raises ``WrongUsage``."""
    try:
        document = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text("utf-8"))
    except OSError as exc:
        raise WrongUsage(f"{printable(file)} cannot be read: {exc.strerror}.") from exc
    except ValueError as exc:
        raise WrongUsage(f"{printable(file)} is not JSON: {exc}.") from exc
    rules = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(rules, list):
        raise WrongUsage(f"{printable(file)} has no list `rules`.")
    return rules


def _shown(answer: Mapping[str, Any], *, as_json: bool) -> int:
    state = answer["masking"]
    if as_json:
        print_json(state)
        return 0
    if not state["rules"]:
        print("No rules: spans are stored as they are sent.")
    else:
        rows = [
            (rule["action"], rule.get("key", ""), rule.get("value", ""), ", ".join(rule["places"]) or "all")
            for rule in state["rules"]
        ]
        print_table(_COLUMNS, rows)
    print(f"{state['masked']['values']} values were masked so far.")
    return 0
