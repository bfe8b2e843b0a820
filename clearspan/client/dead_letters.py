"""``clearspan dead-letters``: what was rejected, as tables for people and JSON for programs."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Concatenate, Final, NamedTuple, ParamSpec, TypeAlias, cast
from urllib.parse import quote

from clearspan.client.connection import ApiClient, run_connected
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.command import Group, Json, Operand, Option, Titled, command
from clearspan.console import confirm, fail, print_json, print_result
from clearspan.options import AdminKey, ServerOptions
from common.printable import printable
from common.settings import Settings

PATH: Final = "/admin/dead-letters"
PAGE: Final = 1_000
LISTED_MAX: Final = 100_000
"""Dead letters that the list holds in memory."""

DESCRIPTION: Final = """\
Manage dead letters: the records and spans that were rejected, with their original bytes. A replay publishes them to the
topic from which they came.
"""

EXAMPLES: Final = """\
examples
  clearspan dead-letters list
  clearspan dead-letters show 0-17-5f2e9a60c3d41b7e --raw > record.bin
  clearspan dead-letters replay 0-17-5f2e9a60c3d41b7e 0-18-90d1b2a7e8c4f365
  clearspan dead-letters drop 0-17-5f2e9a60c3d41b7e
"""

Options = ParamSpec("Options")

Ids: TypeAlias = Annotated[Sequence[str], Operand("ID", "an id that the list shows", nargs="+")]

_COLUMNS: Final = (
    TableColumn("id", is_whole=True),
    TableColumn("from", is_whole=True),
    TableColumn("span", "right", is_whole=True),
    TableColumn("code", is_whole=True),
    TableColumn("bytes", "right", is_whole=True),
    TableColumn("reason"),
)
_ALWAYS: Final = ("id", "topic", "partition", "offset", "span_index", "code", "reason", "created_at", "bytes_count")
_OF_SHARED: Final = ("span_count", "codes")


class AdminServer(NamedTuple):
    """Which API a command of the administrator speaks to. ``None``: what the environment says."""

    url: Annotated[
        str | None, Option("URL", "address of the API (default: CLEARSPAN_URL, else the running embedded stack)")
    ] = None
    admin_key: AdminKey = None


_SERVER: Final = {"server": Annotated[AdminServer, Titled("server")]}


def as_administrator(
    function: Callable[Concatenate[ApiClient, Options], Awaitable[int]],
) -> Callable[Concatenate[Settings, Options], int]:
    """Give a function a connection with the key of the administrator; return its exit code."""

    def run(settings: Settings, /, *args: Options.args, **options: Options.kwargs) -> int:
        server = ServerOptions(*cast("AdminServer", options.pop("server")))
        return run_connected(settings, server, lambda api: function(api, *args, **options), is_admin=True)

    return run


@command(
    "list the dead letters that are neither replayed nor dropped, oldest first",
    is_table=True,
    via=as_administrator,
    more=_SERVER,
)
async def list_open(api: ApiClient, *, as_json: Json = False) -> int:
    """List the dead letters that are neither replayed nor dropped, oldest first."""
    newest_first: list[dict[str, Any]] = []
    parameters = {"limit": str(PAGE)}
    while True:
        page = await api.get(PATH, **parameters)
        newest_first += page["dead_letters"]
        if "windowing" not in page or len(newest_first) >= LISTED_MAX:
            break
        parameters["next"] = page["windowing"]["next"]
    if as_json:
        print_objects(map(_members, reversed(newest_first)))
    elif newest_first:
        print_table(_COLUMNS, map(_row, reversed(newest_first)))
    else:
        print("There are no dead letters.")
    if "windowing" in page:
        print("There are older ones: replay or drop some of these first.", file=sys.stderr)
    return 0


@command("show one dead letter with its original bytes", via=as_administrator, more=_SERVER)
async def show(
    api: ApiClient,
    *,
    dead_letter_id: Annotated[str, Operand("ID", "the id that the list shows")],
    as_json: Annotated[
        bool, Option(None, "print a JSON object, with the bytes in value_base64", flag="--json", one_of="output")
    ] = False,
    raw: Annotated[bool, Option(None, "write only the bytes", one_of="output")] = False,
) -> int:
    """Show one dead letter with its original bytes."""
    dead_letter = (await api.get(f"{PATH}/{quote(dead_letter_id, safe='')}")).get("dead_letter")
    if dead_letter is None:
        return fail(f"{dead_letter_id} is not an open dead letter: it was replayed or dropped, or never existed.")
    value = base64.b64decode(dead_letter["value_base64"])
    if raw:
        sys.stdout.buffer.write(value)
    elif as_json:
        print_json({**_members(dead_letter), "value_base64": dead_letter["value_base64"]})
    else:
        for name, member in _members(dead_letter).items():
            if member is not None:
                text = json.dumps(member) if isinstance(member, dict) else str(member)
                print(f"{name:<12} {printable(text)}")
        print(f"{'value':<12} {_readable(value)}")
    return 0


@command("publish dead letters again to the topics from which they came", via=as_administrator, more=_SERVER)
async def replay(api: ApiClient, *, dead_letter_ids: Ids, as_json: Json = False) -> int:
    """Publish dead letters again to the topics from which they came; none if one of them cannot be replayed."""
    paths = {each: f"{PATH}/{quote(each, safe='')}/replay" for each in dead_letter_ids}
    for path in paths.values():
        await api.post(path, {"dry_run": True})
    for dead_letter_id, path in paths.items():
        where = (await api.post(path, {}))["dead_letter"]["went_to"]
        text = f"{dead_letter_id} went to {where['topic']}, partition {where['partition']}, offset {where['offset']}."
        print_result({"id": dead_letter_id, **where}, text, as_json=as_json)
    return 0


@command(
    "mark dead letters as done without replaying them; their bytes are deleted", via=as_administrator, more=_SERVER
)
async def drop(
    api: ApiClient,
    *,
    yes: Annotated[bool, Option(None, "drop without asking")] = False,
    dead_letter_ids: Ids,
    as_json: Json = False,
) -> int:
    """Ask, then mark dead letters as done without replaying them; none if one of them is not open."""
    paths = {each: f"{PATH}/{quote(each, safe='')}" for each in dead_letter_ids}
    if not yes and not confirm(f"Drop {', '.join(paths)}? [y/N] "):
        print("Nothing was dropped.", file=sys.stderr)
        return 1
    for path in paths.values():
        await api.request("DELETE", path, query={"dry_run": "true"})
    for dead_letter_id, path in paths.items():
        await api.request("DELETE", path)
        print_result({"id": dead_letter_id, "is_dropped": True}, f"{dead_letter_id} is dropped.", as_json=as_json)
    return 0


dead_letters: Final = Group(
    {"list": list_open, "show": show, "replay": replay, "drop": drop}, description=DESCRIPTION, epilog=EXAMPLES
)


def _members(dead_letter: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of contract §7; ``span_count`` and ``codes`` only if several spans share the dead letter."""
    shared = {name: dead_letter[name] for name in _OF_SHARED if name in dead_letter}
    return {**{name: dead_letter.get(name) for name in _ALWAYS}, **shared}


def _row(dead_letter: Mapping[str, Any]) -> Sequence[object]:
    source = f"{dead_letter['topic']}/{dead_letter['partition']}/{dead_letter['offset']}"
    span = dead_letter.get("span_index", "all")
    if "span_count" in dead_letter:
        span = f"×{dead_letter['span_count']}"
    return dead_letter["id"], source, str(span), *(dead_letter[name] for name in ("code", "bytes_count", "reason"))


def _readable(value: bytes) -> str:
    try:
        return printable(value.decode(), keep="\n\t")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode() + "   (base64; --raw writes the bytes)"
