"""``clearspan subscriptions``: create, show and control subscriptions."""

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
    target = target_in(options)
    if target is None:
        raise WrongUsage(
            "a subscription needs a target: give --webhook, --kafka with --topic, --otlp, --parquet, or --target."
        )
    body = {"slug": slug, "target": target, "from": begins_at, **selection_in(options)}
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
    target = target_in(options)
    changes = {
        **selection_in(options),
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
    if not yes and not await asyncio.to_thread(confirmed, f"Delete the subscription {slug}?"):
        return fail("nothing was deleted.")
    answer = await api.request("DELETE", _path(slug))
    if as_json:
        print_objects([answer["subscription"]])
    return 0


def _path(slug: str, action: str = "") -> str:
    return f"/subscriptions/{quote(slug, safe='')}{action}"


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
        ("target", target_text(found["target"])),
        ("secret", found["target"].get("secret")),
        ("spans", selection_text(found)),
        ("delivered", _delivered_text(found["delivered"])),
        ("lag", f"{found['lag_s']:g} s"),
        ("under way", _pending_text(found.get("pending"))),
        ("rejected", _rejected_text(found.get("rejected"))),
        ("last error", error_text(found.get("last_error"))),
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
        target_text(found["target"]),
        f"{found['delivered']['spans']:,}",
        f"{found['lag_s']:.1f} s",
        (found.get("last_error") or {}).get("reason") if found["status"] != "active" else None,
    )


def _delivered_text(delivered: Mapping[str, Any]) -> str:
    at = f", last at {local_time(delivered['at'])}" if "at" in delivered else ""
    return f"{delivered['spans']:,} spans in {delivered['batches']:,} batches{at}"


def _pending_text(pending: Mapping[str, Any] | None) -> str | None:
    if pending is None:
        return None
    tries = f", {pending['attempts']} failed tries" if pending["attempts"] else ""
    again = f", next at {local_time(pending['retry_at'])}" if "retry_at" in pending else ""
    return f"batch {pending['batch_id']} with {pending['spans']:,} spans{tries}{again}"


def _rejected_text(rejected: Mapping[str, Any] | None) -> str | None:
    if rejected is None:
        return None
    return f"{rejected['spans']:,} spans, the last at {local_time(rejected['at'])}: {rejected['reason']}"


def _skipped_text(skipped: Sequence[Mapping[str, Any]]) -> str | None:
    if not skipped:
        return None
    return f"{len(skipped)} batches, the last one {skipped[-1]['batch_id']} with {skipped[-1]['spans']:,} spans"
