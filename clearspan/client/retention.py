"""``clearspan projects retention`` and ``clearspan projects delete``: over HTTP, so for any deployment."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from clearspan.client.connection import ApiClient, WrongUsage, api_command, run_connected
from clearspan.command import Json, Operand, Option, command
from clearspan.console import confirm, fail, print_result
from clearspan.options import AdminKey, ServerOptions, id_text
from common.printable import printable
from common.settings import Settings

DESCRIPTION: Final = """\
Show or set how long the project of the key keeps its traces, and how much they may take. Without options it shows what
is stored, and what is deleted and when. New rules replace all earlier ones; the next run applies them.
"""

EXAMPLES: Final = """\
examples
  clearspan projects retention
  clearspan projects retention --max-age-days 30
  clearspan projects retention --max-age-days 90 --max-bytes 50GB --json
"""
DAYS_MAX: Final = 36_500
_SIZES: Final = ("B", "KB", "MB", "GB", "TB")
_SIZE_TEXT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([KMGT]?B)?")
RETENTION: Final = "/retention"
ALL_GOES: Final = "A rule of 0 deletes every trace of the project at the next run. Set it? [y/N] "


def _days(text: str) -> float:
    """Read a number of days. Raises ``ArgumentTypeError``."""
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"must be a number of days from 0 to {DAYS_MAX:,}")
    return days


def _bytes(text: str) -> int:
    """Read a size in bytes. Raises ``ArgumentTypeError``."""
    match = _SIZE_TEXT.fullmatch(text.strip().upper())
    if match is None:
        raise argparse.ArgumentTypeError("must be a number of bytes, with kB, MB, GB or TB if you like, such as 50GB")
    return int(float(match[1]) * 1_000.0 ** _SIZES.index(match[2] or "B"))


@api_command("show or set what the project of the key keeps", description=DESCRIPTION, epilog=EXAMPLES)
async def retention(
    api: ApiClient,
    *,
    max_age_days: Annotated[
        float | None,
        Option(
            "DAYS",
            "delete a trace when its last span started this many days ago; 0 deletes everything and asks",
            type=_days,
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        Option(
            "SIZE",
            "delete the oldest traces until the others have this size, such as 500MB or 50GB; 0 asks",
            type=_bytes,
        ),
    ] = None,
    remove: Annotated[bool, Option(None, "remove the rules: keep everything")] = False,
    yes: Annotated[bool, Option(None, "set a rule of 0 without asking")] = False,
    as_json: Json = False,
) -> int:
    """Show or set what the project of the key keeps; return 1 if a rule of 0 is not confirmed."""
    rules = {"max_age_days": max_age_days, "max_bytes": max_bytes}
    given = {name: value for name, value in rules.items() if value is not None}
    if remove and given:
        raise WrongUsage("--remove removes all rules; it does not go with --max-age-days and --max-bytes.")
    if not given:
        answer = await api.request("DELETE" if remove else "GET", RETENTION)
    else:
        is_zero = 0 in given.values()
        if is_zero and not yes and not confirm(ALL_GOES):
            return fail("Nothing was changed.")
        answer = await api.request("PUT", RETENTION, body={"retention": given, "confirm": is_zero})
    state = answer["retention"]
    print_result(state, "\n".join(described(state)), as_json=as_json)
    return 0


@command("delete a project with everything that belongs to it")
def delete(
    settings: Settings,
    *,
    project_id: Annotated[UUID, Operand("ID", "the id that the list shows", type=id_text)],
    url: Annotated[
        str | None, Option("URL", "address of the API (default: CLEARSPAN_URL, else the running embedded stack)")
    ] = None,
    admin_key: AdminKey = None,
    yes: Annotated[bool, Option(None, "delete without asking")] = False,
) -> int:
    """Delete a project; return the exit code."""
    question = f"Delete the project {project_id} with its spans, applications, saved queries and keys? [y/N] "
    if not yes and not confirm(question):
        return fail("Nothing was changed.")

    async def send(api: ApiClient) -> int:
        answer = await api.request("DELETE", f"/admin/projects/{project_id}")
        print(f"Deleted the project {printable(answer['project']['name'])}.")
        return 0

    return run_connected(settings, ServerOptions(url, admin_key), send, is_admin=True)


def described(state: Mapping[str, Any]) -> list[str]:
    """Return the state as lines for people."""
    rules = []
    if "max_age_days" in state:
        rules.append(f"at most {state['max_age_days']:g} days")
    if "max_bytes" in state:
        rules.append(f"at most {_size(state['max_bytes'])}")
    lines = [f"keeps     {' and '.join(rules) or 'everything'}"]
    lines.append(f"stored    {_figures(state['stored']) if 'stored' in state else state.get('reason', '')}")
    if "next_run" in state:
        next_run = state["next_run"]
        goes = next_run.get("deletes")
        lines.append(f"next run  {next_run['at']}" + (", running now" if next_run.get("running") else ""))
        if goes is not None:
            because = f", because of {next_run['because']}" if goes["traces"] and "because" in next_run else ""
            lines.append(f"deletes   {_figures(goes)}{because}")
    if "last_run" in state:
        last_run = state["last_run"]
        lines.append(f"last run  {last_run['started_at']}, deleted {_figures(last_run['deleted'])}")
        if "failure" in last_run:
            lines.append(f"          {printable(last_run['failure'])}")
    lines.append(f"deleted   {_figures(state['deleted'])} in all")
    return lines


def _figures(figures: Mapping[str, Any]) -> str:
    if not figures["traces"]:
        return "nothing"
    oldest = f", the oldest of {figures['oldest']}" if "oldest" in figures else ""
    counts = f"{_count(figures['traces'], 'trace')}, {_count(figures['spans'], 'span')}"
    return f"{counts}, {_size(figures['bytes'])}{oldest}"


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:,.4g} {unit}"
        count /= 1_000
    return f"{count:,.4g} TB"
