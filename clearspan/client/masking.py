"""``clearspan projects masking``: the masking rules of the project of a key."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clearspan.client.connection import ApiClient, WrongUsage, on_api
from clearspan.client.output import TableColumn, print_table
from clearspan.console import confirm, fail, print_json
from common.printable import printable

PATH: Final = "/masking"
_COLUMNS: Final = (TableColumn("ACTION"), TableColumn("KEY"), TableColumn("VALUE"), TableColumn("PLACES"))


@on_api
async def show(api: ApiClient, *, as_json: bool) -> int:
    """Show the rules, and how many values they have masked."""
    return _shown(await api.get(PATH), as_json=as_json)


@on_api
async def append(
    api: ApiClient, *, path: str | None, value: str | None, places: Sequence[str] | None, action: str, as_json: bool
) -> int:
    """Add a rule after the others."""
    if path is None and value is None:
        raise WrongUsage("a rule needs --path, --value or both.")
    rule = {"action": action, "key": path, "value": value, "places": places or []}
    rules = (await api.get(PATH))["masking"]["rules"]
    added = {name: member for name, member in rule.items() if member is not None}
    return _shown(await _put(api, [*rules, added]), as_json=as_json)


@on_api
async def replace(api: ApiClient, *, file: str, as_json: bool) -> int:
    """Replace all rules by those of a file."""
    return _shown(await _put(api, _rules_in(file)), as_json=as_json)


@on_api
async def clear(api: ApiClient, *, yes: bool, as_json: bool) -> int:
    """Remove all rules."""
    if not yes and not confirm("Store everything as it is sent from now on? [y/N] "):
        return fail("nothing was changed.")
    return _shown(await api.request("DELETE", PATH), as_json=as_json)


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
    masking = answer["masking"]
    if as_json:
        print_json(masking)
        return 0
    if not masking["rules"]:
        print("No rules: spans are stored as they are sent.")
    else:
        rows = [
            (rule["action"], rule.get("key", ""), rule.get("value", ""), ", ".join(rule["places"]) or "all")
            for rule in masking["rules"]
        ]
        print_table(_COLUMNS, rows)
    print(f"{masking['masked']['values']} values were masked so far.")
    return 0
