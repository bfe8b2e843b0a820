"""``clearspan subscriptions``: create, edit and replay subscriptions, and how one is printed.

The other actions are in ``delivery_actions``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clearspan.client.connection import ApiClient, WrongUsage, on_api
from clearspan.client.delivery_kind import DeliveryKind, failure_text, status_text
from clearspan.client.output import TableColumn
from clearspan.client.span_values import local_time
from clearspan.client.targets import error_text, selection_in, selection_text, target_in, target_text

_COLUMNS: Final = (
    TableColumn("slug", is_whole=True, style="cyan"),
    TableColumn("status", is_whole=True),
    TableColumn("target"),
    TableColumn("delivered", "right", is_whole=True),
    TableColumn("expired", "right", is_whole=True),
    TableColumn("lag", "right", is_whole=True),
    TableColumn("last error"),
)


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
    return SUBSCRIPTIONS.print_one(await api.post(SUBSCRIPTIONS.path, {"subscription": body}), as_json=as_json)


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
    answer = await api.request("PUT", SUBSCRIPTIONS.path_of(slug), body={"subscription": changes})
    return SUBSCRIPTIONS.print_one(answer, as_json=as_json)


@on_api
async def replay(api: ApiClient, *, slug: str, begins_at: str, as_json: bool) -> int:
    """Deliver again from somewhere."""
    answer = await api.post(SUBSCRIPTIONS.path_of(slug, "/replay"), {"from": begins_at})
    return SUBSCRIPTIONS.print_one(answer, as_json=as_json)


def _details(found: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        ("slug", found["slug"]),
        ("id", found["id"]),
        ("status", status_text(found)),
        ("reason", found.get("reason")),
        ("target", target_text(found["target"])),
        ("secret", found["target"].get("secret")),
        ("spans", selection_text(found)),
        ("delivered", _delivered_text(found["delivered"])),
        ("lag", f"{found['lag_s']:g} s"),
        ("under way", _pending_text(found.get("pending"))),
        ("rejected", _rejected_text(found.get("rejected"))),
        ("expired", _expired_text(found["expired"])),
        ("last error", error_text(found.get("last_error"))),
        ("skipped", _skipped_text(found.get("skipped", []))),
    ]


def _row(found: Mapping[str, Any]) -> Sequence[object]:
    return (
        found["slug"],
        status_text(found),
        target_text(found["target"]),
        f"{found['delivered']['spans']:,}",
        f"{found['expired']['spans']:,}",
        f"{found['lag_s']:.1f} s",
        failure_text(found),
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


def _expired_text(expired: Mapping[str, Any]) -> str | None:
    if not expired["spans"]:
        return None
    return (
        f"{expired['spans']:,} spans were deleted before their delivery, the last passed at {local_time(expired['at'])}"
    )


def _skipped_text(skipped: Sequence[Mapping[str, Any]]) -> str | None:
    if not skipped:
        return None
    return f"{len(skipped)} batches, the last one {skipped[-1]['batch_id']} with {skipped[-1]['spans']:,} spans"


SUBSCRIPTIONS: Final = DeliveryKind("subscription", "span", _COLUMNS, _row, _details)
