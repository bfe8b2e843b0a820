"""``clearspan subscriptions``: create, show and control subscriptions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from rich.text import Text

from clearspan.client.connection import ApiClient, WrongUsage, on_api
from clearspan.client.output import TableColumn, console, note, print_objects, print_table, safe
from clearspan.client.requests import filtering_of
from clearspan.client.span_values import local_time
from clearspan.commands.options import SpanOptions
from clearspan.console import fail, printable

_COLUMNS: Final = (
    TableColumn("slug", is_whole=True, style="cyan"),
    TableColumn("status", is_whole=True),
    TableColumn("target"),
    TableColumn("delivered", "right", is_whole=True),
    TableColumn("lag", "right", is_whole=True),
    TableColumn("last error"),
)
_STYLES: Final = {"active": "green", "retrying": "yellow", "paused": "red"}


@on_api
async def create(
    api: ApiClient, /, *, slug: str, name: str | None, begins_at: str, as_json: bool, **options: Any
) -> int:
    """Create a subscription and print it, with the secret if one was made."""
    target = _target(options)
    if target is None:
        raise WrongUsage("a subscription needs a target: give --webhook, --kafka with --topic, or --target.")
    body = {"slug": slug, "target": target, "from": begins_at, **_selection(options)}
    if name is not None:
        body["name"] = name
    return _print_one(await api.post("/subscriptions/", {"subscription": body}), as_json=as_json)


@on_api
async def list_(api: ApiClient, *, status: str | None, as_json: bool) -> int:
    """Print the subscriptions."""
    wanted = {} if status is None else {"subscription": {"status": status}}
    found = (await api.post("/subscriptions/query", wanted))["subscriptions"]
    if as_json:
        print_objects(found)
    elif found:
        print_table(_COLUMNS, map(_row, found))
    else:
        note("There is no subscription.")
    return 0


@on_api
async def show(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Print a subscription and its state."""
    return _print_one(await api.get(_path(slug)), as_json=as_json)


@on_api
async def edit(api: ApiClient, /, *, slug: str, name: str | None, as_json: bool, **options: Any) -> int:
    """Change what is given, and print the subscription."""
    target = _target(options)
    changes = {
        **_selection(options),
        **({} if name is None else {"name": name}),
        **({} if target is None else {"target": target}),
    }
    if not changes:
        raise WrongUsage("nothing to change is given.")
    return _print_one(await api.request("PUT", _path(slug), body={"subscription": changes}), as_json=as_json)


@on_api
async def pause(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Pause a subscription."""
    return _print_one(await api.post(_path(slug, "/pause"), {}), as_json=as_json)


@on_api
async def resume(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Resume a subscription."""
    return _print_one(await api.post(_path(slug, "/resume"), {}), as_json=as_json)


@on_api
async def replay(api: ApiClient, *, slug: str, begins_at: str, as_json: bool) -> int:
    """Deliver again from somewhere."""
    return _print_one(await api.post(_path(slug, "/replay"), {"from": begins_at}), as_json=as_json)


@on_api
async def skip(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Pass a batch."""
    return _print_one(await api.post(_path(slug, "/skip"), {}), as_json=as_json)


@on_api
async def test(api: ApiClient, *, slug: str, as_json: bool) -> int:
    """Send a test span; return 1 if the target does not take it."""
    result = (await api.post(_path(slug, "/test"), {}))["delivery"]
    if as_json:
        print_objects([result])
    elif result["delivered"]:
        console().print(safe(f"The target took the test span in {result['duration_ms']:.0f} ms."))
    if result["delivered"]:
        return 0
    return 1 if as_json else fail(f"the target did not take the test span: {result['reason']}")


@on_api
async def delete(api: ApiClient, *, slug: str, yes: bool, as_json: bool) -> int:
    """Delete a subscription, after asking."""
    if not yes and not await asyncio.to_thread(_confirmed, f"Delete the subscription {slug}?"):
        return fail("nothing was deleted.")
    answer = await api.request("DELETE", _path(slug))
    if as_json:
        print_objects([answer["subscription"]])
    return 0


def _confirmed(question: str) -> bool:
    try:
        return input(f"{printable(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _path(slug: str, action: str = "") -> str:
    return f"/subscriptions/{quote(slug, safe='')}{action}"


def _target(options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the target that options name. Raises ``WrongUsage``."""
    given = [name for name in ("webhook", "kafka", "target") if options[name] is not None]
    if len(given) > 1:
        raise WrongUsage(f"--{given[0]} and --{given[1]} name two targets; give one.")
    if (options["topic"] is not None) != (options["kafka"] is not None):
        raise WrongUsage("--kafka and --topic belong together.")
    if options["secret"] is not None and options["webhook"] is None:
        raise WrongUsage("--secret is for --webhook.")
    if options["webhook"] is not None:
        secret = {} if options["secret"] is None else {"secret": options["secret"]}
        return {"kind": "webhook", "url": options["webhook"], **secret}
    if options["kafka"] is not None:
        return {"kind": "kafka", "bootstrap": options["kafka"], "topic": options["topic"]}
    return None if options["target"] is None else _json_object(options["target"])


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise WrongUsage("--target is not a JSON object.")
    return value


def _selection(options: Mapping[str, Any]) -> dict[str, Any]:
    spans = SpanOptions(options["where"], options["filter"], options["query"], errors=options["errors"])
    return filtering_of(spans)


def _print_one(answer: Mapping[str, Any], *, as_json: bool) -> int:
    found = answer["subscription"]
    if warning := answer.get("warning"):
        note(warning)
    if as_json:
        print_objects([found])
        return 0
    rows: list[tuple[str, object]] = [
        ("slug", found["slug"]),
        ("id", found["id"]),
        ("status", safe(found["status"], _STYLES.get(found["status"], ""))),
        ("reason", found.get("reason")),
        ("target", _target_text(found["target"])),
        ("secret", found["target"].get("secret")),
        ("spans", _selection_text(found)),
        ("delivered", _delivered_text(found["delivered"])),
        ("lag", f"{found['lag_s']:g} s"),
        ("under way", _pending_text(found.get("pending"))),
        ("last error", _error_text(found.get("last_error"))),
        ("skipped", _skipped_text(found.get("skipped", []))),
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
        _target_text(found["target"]),
        f"{found['delivered']['spans']:,}",
        f"{found['lag_s']:.1f} s",
        (found.get("last_error") or {}).get("reason") if found["status"] != "active" else None,
    )


def _target_text(target: Mapping[str, Any]) -> str:
    rest = " ".join(str(value) for name, value in target.items() if name not in ("kind", "secret"))
    return f"{target['kind']} {rest}"


def _selection_text(found: Mapping[str, Any]) -> str:
    for name in ("query_ref", "query_revision_ref", "filtering"):
        if name in found:
            return f"{name} {json.dumps(found[name], ensure_ascii=False)}"
    return "all"


def _delivered_text(delivered: Mapping[str, Any]) -> str:
    at = f", last at {local_time(delivered['at'])}" if "at" in delivered else ""
    return f"{delivered['spans']:,} spans in {delivered['batches']:,} batches{at}"


def _pending_text(pending: Mapping[str, Any] | None) -> str | None:
    if pending is None:
        return None
    tries = f", {pending['attempts']} failed tries" if pending["attempts"] else ""
    again = f", next at {local_time(pending['retry_at'])}" if "retry_at" in pending else ""
    return f"batch {pending['batch_id']} with {pending['spans']:,} spans{tries}{again}"


def _error_text(error: Mapping[str, Any] | None) -> str | None:
    return None if error is None else f"{local_time(error['at'])} {error['reason']}"


def _skipped_text(skipped: Sequence[Mapping[str, Any]]) -> str | None:
    if not skipped:
        return None
    return f"{len(skipped)} batches, the last one {skipped[-1]['batch_id']} with {skipped[-1]['spans']:,} spans"
