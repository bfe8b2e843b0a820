"""``clearspan alerts``: create, show and control alerts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from rich.text import Text

from clearspan.client.connection import ApiClient, WrongUsage, on_api
from clearspan.client.output import TableColumn, console, note, print_objects, print_table, safe
from clearspan.client.span_values import local_time
from clearspan.client.targets import confirmed, error_text, selection_in, selection_text, target_in, target_text
from clearspan.console import fail

_COLUMNS: Final = (
    TableColumn("slug", is_whole=True, style="cyan"),
    TableColumn("status", is_whole=True),
    TableColumn("measure"),
    TableColumn("breaches", "right", is_whole=True),
    TableColumn("waiting", "right", is_whole=True),
    TableColumn("target"),
    TableColumn("last error"),
)
_STYLES: Final = {"active": "green", "retrying": "yellow", "paused": "red"}
_IN_JSON: Final = ("attributes", "resource", "scope")


@on_api
async def create(api: ApiClient, /, *, slug: str, as_json: bool, **options: Any) -> int:
    """Create an alert and print it, with the secret if one was made."""
    definition, target = _definition(options), target_in(options)
    if "measure" not in definition:
        raise WrongUsage("an alert needs a measure: give --measure or --ratio.")
    if "window" not in definition:
        raise WrongUsage("an alert needs a window: give --window.")
    if target is None:
        raise WrongUsage("an alert needs a target: give --webhook, --kafka with --topic, or --target.")
    body = {"slug": slug, "target": target, **definition, **selection_in(options)}
    return _print_one(await api.post("/alerts/", {"alert": body}), as_json=as_json)


@on_api
async def list_(api: ApiClient, *, status: str | None, breaching: bool, as_json: bool) -> int:
    """Print the alerts."""
    wanted = {**({} if status is None else {"status": status}), **({"breaching": True} if breaching else {})}
    found = (await api.post("/alerts/query", {"alert": wanted}))["alerts"]
    if as_json:
        print_objects(found)
    elif found:
        print_table(_COLUMNS, map(_row, found))
    else:
        note("There is no alert.")
    return 0


@on_api
async def show(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Print an alert and its state."""
    return _print_one(await api.get(_path(slug)), as_json=as_json)


@on_api
async def edit(api: ApiClient, /, *, slug: str, as_json: bool, **options: Any) -> int:
    """Change what is given, and print the alert."""
    target = target_in(options)
    changes = {**_definition(options), **selection_in(options), **({} if target is None else {"target": target})}
    if not changes:
        raise WrongUsage("nothing to change is given.")
    return _print_one(await api.request("PUT", _path(slug), body={"alert": changes}), as_json=as_json)


@on_api
async def pause(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Pause an alert."""
    return _print_one(await api.post(_path(slug, "/pause"), {}), as_json=as_json)


@on_api
async def resume(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Resume an alert."""
    return _print_one(await api.post(_path(slug, "/resume"), {}), as_json=as_json)


@on_api
async def skip(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Drop a message."""
    return _print_one(await api.post(_path(slug, "/skip"), {}), as_json=as_json)


@on_api
async def test(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Send a test message; return 1 if the target does not take it."""
    result = (await api.post(_path(slug, "/test"), {}))["delivery"]
    if as_json:
        print_objects([result])
    elif result["delivered"]:
        console().print(safe(f"The target took the test message in {result['duration_ms']:.0f} ms."))
    if result["delivered"]:
        return 0
    return 1 if as_json else fail(f"the target did not take the test message: {result['reason']}")


@on_api
async def delete(api: ApiClient, *, slug: str, yes: bool, as_json: bool) -> int:
    """Delete an alert, after asking."""
    if not yes and not await asyncio.to_thread(confirmed, f"Delete the alert {slug}?"):
        return fail("nothing was deleted.")
    answer = await api.request("DELETE", _path(slug))
    if as_json:
        print_objects([answer["alert"]])
    return 0


def _path(slug: str, action: str = "") -> str:
    return f"/alerts/{quote(slug, safe='')}{action}"


def _definition(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that options set. Raises ``WrongUsage``."""
    for one, other in (("measure", "ratio"), ("above", "below")):
        if options[one] is not None and options[other] is not None:
            raise WrongUsage(f"--{one} and --{other} exclude each other; give one.")
    names = ("name", "above", "below", "window", "every")
    members = {name: options[name] for name in names if options[name] is not None}
    if options["measure"] is not None:
        members["measure"] = _measure(options["measure"])
    if options["ratio"] is not None:
        members["measure"] = {"ratio": list(map(_measure, options["ratio"]))}
    if options["by"] is not None:
        members["group_by"] = list(map(_group, options["by"]))
    return members


def _measure(text: str) -> Mapping[str, Any]:
    of, colon, statistic = text.rpartition(":")
    return {"of": of, "as": statistic} if colon else {"of": text}


def _group(text: str) -> Any:
    field, dot, key = text.partition(".")
    return {"field": field, "key": key} if dot and field in _IN_JSON else text


def _print_one(answer: Mapping[str, Any], *, as_json: bool) -> int:
    found = answer["alert"]
    if warning := answer.get("warning"):
        note(warning)
    if as_json:
        print_objects([found])
        return 0
    messages = found["messages"]
    tries = f", {messages['attempts']} failed tries" if messages["attempts"] else ""
    rows: list[tuple[str, object]] = [
        ("slug", found["slug"]),
        ("id", found["id"]),
        ("status", safe(found["status"], _STYLES.get(found["status"], ""))),
        ("reason", found.get("reason")),
        ("measure", _measure_text(found)),
        ("spans", selection_text(found)),
        ("target", target_text(found["target"])),
        ("secret", found["target"].get("secret")),
        ("evaluated", _evaluated_text(found.get("evaluated"))),
        ("messages", f"{messages['delivered']:,} delivered, {messages['waiting']:,} waiting{tries}"),
        ("last error", error_text(found.get("last_error"))),
        ("breaches", f"{found['breaches_count']:,}"),
        *(
            ("", f"{_by_text(breach['by'])} {breach['value']} since {local_time(breach['since'])}")
            for breach in found["breaches"]
        ),
    ]
    out = console()
    for name, value in rows:
        if value is not None:
            line = safe(f"{name:<11}", "dim")
            out.print(line.append_text(value if isinstance(value, Text) else safe(value)), soft_wrap=True)
    if "secret" in found["target"]:
        note("The secret signs what is sent. It is not shown again.")
    return 0


def _row(found: Mapping[str, Any]) -> Sequence[object]:
    return (
        found["slug"],
        safe(found["status"], _STYLES.get(found["status"], "")),
        _measure_text(found),
        f"{found['breaches_count']:,}",
        f"{found['messages']['waiting']:,}",
        target_text(found["target"]),
        (found.get("last_error") or {}).get("reason") if found["status"] != "active" else None,
    )


def _measure_text(found: Mapping[str, Any]) -> str:
    measures = found["measure"].get("ratio") or [found["measure"]]
    texts = [f"{_name_text(each['of'])}:{each['as']}" if "as" in each else _name_text(each["of"]) for each in measures]
    bound = f"above {found['above']:g}" if "above" in found else f"below {found['below']:g}"
    by = f" by {', '.join(map(_name_text, found['group_by']))}" if found.get("group_by") else ""
    return f"{' / '.join(texts)} {bound} in {found['window']}, every {found['every']}{by}"


def _name_text(name: Any) -> str:
    return name if isinstance(name, str) else f"{name['field']}.{name['key']}"


def _by_text(by: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in by.items()) or "all spans"


def _evaluated_text(evaluated: Mapping[str, Any] | None) -> str | None:
    if evaluated is None:
        return None
    left_out = f", {evaluated['left_out']:,} left out" if "left_out" in evaluated else ""
    return f"{local_time(evaluated['at'])}, {evaluated['groups']:,} groups{left_out}"
