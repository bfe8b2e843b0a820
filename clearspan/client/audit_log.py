"""``clearspan audit-log``: who changed what, and who was refused."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from clearspan.client.connection import ApiClient, WrongUsage, run_connected
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.client.span_values import local_time
from clearspan.command import Json, Option, command
from clearspan.console import fail
from clearspan.options import AdminKey, Server, WindowOptions, id_text, limit, short_text
from common.errors import InvalidInput
from common.settings import Settings
from common.times import RelativeTime, format_us, nearest_formattable_us, parse_time_ns

DESCRIPTION: Final = """\
Show who changed what in the project of a key, and which requests were refused, newest first. The key needs the scope
`admin`. Spans that are stored have no entries. docs/audit-log.md explains the entries.
"""

EXAMPLES: Final = """\
examples
  clearspan audit-log
  clearspan audit-log --last 1h --outcome refused
  clearspan audit-log --operation delete_trace --limit 1000 --json
  clearspan audit-log --all-projects --last 1d              the key is CLEARSPAN_ADMIN_KEY

Outcomes: done; failed (it changed nothing); refused (401, 403, 429); unknown (it runs, or may have changed something).
"""
PAGE_MAX: Final = 1_000
OF_PROJECT: Final = "/audit"
OF_ALL: Final = "/admin/audit"
_COLUMNS: Final = (
    TableColumn("time", is_whole=True),
    TableColumn("outcome", is_whole=True),
    TableColumn("status", "right", is_whole=True),
    TableColumn("requests", "right", is_whole=True),
    TableColumn("operation", is_whole=True),
    TableColumn("who"),
    TableColumn("what"),
    TableColumn("address", is_optional=True),
    TableColumn("project", is_optional=True),
)


class _Wanted(NamedTuple):
    """The parameters of a request, and how many entries are wanted."""

    path: str
    parameters: Mapping[str, str]
    limit: int


class EntryOptions(NamedTuple):
    """Which entries are shown; they must fulfil all of it."""

    outcome: Annotated[
        str | None, Option(None, "only this outcome", choices=("done", "failed", "refused", "unknown"))
    ] = None
    operation: Annotated[
        str | None, Option("NAME", "only this operation, such as create_key or delete_trace", type=short_text)
    ] = None
    key_id: Annotated[UUID | None, Option("ID", "only what was done with this key", type=id_text)] = None
    entity: Annotated[str | None, Option("ID", "only changes of the thing with this id", type=short_text)] = None


@command(description=DESCRIPTION, epilog=EXAMPLES, is_table=True)
def audit_log(
    settings: Settings,
    *,
    window: WindowOptions,
    filters: EntryOptions,
    limit: Annotated[int, Option("N", "print at most N entries (default: 100)", type=limit)] = 100,
    all_projects: Annotated[
        bool, Option(None, "of all projects, and requests without a valid key; needs the admin key")
    ] = False,
    admin_key: AdminKey = None,
    as_json: Json = False,
    server: Server,
) -> int:
    """Print the entries that match, newest first; return the exit code."""
    if all_projects and server.project is not None:
        return fail("--all-projects and --project exclude each other.", code=2)
    try:
        wanted = _Wanted(OF_ALL if all_projects else OF_PROJECT, {**_window(window), **_filters(filters)}, limit)
    except WrongUsage as exc:
        return fail(str(exc), code=2)
    if all_projects:
        server = server._replace(key=admin_key)
    return run_connected(settings, server, lambda api: _print(api, wanted, as_json=as_json), is_admin=all_projects)


async def _print(api: ApiClient, wanted: _Wanted, *, as_json: bool) -> int:
    if as_json:
        async for page in _pages(api, wanted):
            print_objects(page)
        return 0
    entries = [entry async for page in _pages(api, wanted) for entry in page]
    if entries:
        with_project = wanted.path == OF_ALL
        columns = _COLUMNS if with_project else _COLUMNS[:-1]
        print_table(columns, [_row(entry, with_project=with_project) for entry in entries])
    else:
        print("There are no entries.")
    return 0


async def _pages(api: ApiClient, wanted: _Wanted) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
    left, parameters = wanted.limit, dict(wanted.parameters)
    while left:
        answer = await api.get(wanted.path, **parameters, limit=str(min(left, PAGE_MAX)))
        yield answer["entries"]
        left -= answer["count"]
        if "windowing" not in answer:
            return
        parameters["next"] = answer["windowing"]["next"]


def _filters(filters: EntryOptions) -> dict[str, str]:
    values = {
        "outcome": filters.outcome,
        "operation": filters.operation,
        "key_id": filters.key_id,
        "entity_id": filters.entity,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _window(window: WindowOptions) -> dict[str, str]:
    if window.last is not None and window.oldest is not None:
        raise WrongUsage("--last and --oldest exclude each other; give one.")
    oldest = f"-{window.last}" if window.last is not None else window.oldest
    bounds = {"oldest": oldest, "newest": window.newest}
    return {name: _absolute(text, name) for name, text in bounds.items() if text is not None}


def _absolute(text: str, name: str) -> str:
    now_us = time.time_ns() // 1_000
    try:
        relative = RelativeTime.read(text)
        time_us = parse_time_ns(text) // 1_000 if relative is None else relative.at_us(now_us)
    except (ValueError, InvalidInput) as exc:
        raise WrongUsage(f"--{name}: {exc}") from None
    return format_us(nearest_formattable_us(time_us))


def _row(entry: Mapping[str, Any], *, with_project: bool) -> Sequence[object]:
    return (
        local_time(entry["at"]),
        entry["outcome"],
        entry.get("status"),
        entry["requests_count"],
        entry["operation"],
        _who(entry),
        ", ".join(entity.get("slug", entity["id"]) for entity in entry["entities"]),
        entry.get("address"),
        *([entry.get("project_id")] if with_project else []),
    )


def _who(entry: Mapping[str, Any]) -> str:
    name = entry.get("actor_name") or entry.get("key_id")
    actor = str(entry["actor"]).replace("_", " ")
    return actor if name is None else f"{actor} {name}"
