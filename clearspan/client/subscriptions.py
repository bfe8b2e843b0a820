"""``clearspan subscriptions``: create, edit and replay subscriptions, and how one is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from clearspan.client.connection import ApiClient, WrongUsage, api_command
from clearspan.client.delivery_kind import (
    DeliveryKind,
    Name,
    NewSlug,
    Selection,
    SpansTarget,
    Status,
    Target,
    error_text,
    failure_text,
    selection_text,
    status_text,
    target_text,
)
from clearspan.client.output import TableColumn
from clearspan.client.span_values import local_time
from clearspan.command import Group, Json, Option, Titled

DESCRIPTION: Final = """\
Manage subscriptions. A subscription delivers every span that matches to a webhook, a Kafka topic, an OTLP endpoint or
Parquet files, as soon as it is stored: at least once, and in order within a partition. With `--on settled_traces` it
delivers whole traces instead, once for each time they settle. `clearspan deliver` delivers them; the embedded stack
does, too.
"""
EXAMPLES: Final = """\
examples
  clearspan subscriptions create failed --webhook https://hooks.example.org/spans --errors
  clearspan subscriptions create costly --webhook https://hooks.example.org/spans --where cost gt 0.1
  clearspan subscriptions create whole --webhook https://hooks.example.org/traces --on settled_traces
  clearspan subscriptions create copy --kafka kafka.example.org:9092 --topic spans-copy --from beginning
  clearspan subscriptions create traces --otlp https://otlp.example.org --header "Authorization: Bearer TOKEN"
  clearspan subscriptions create files --parquet s3://bucket/spans --from beginning
  clearspan subscriptions list
  clearspan subscriptions show failed
  clearspan subscriptions test failed
  clearspan subscriptions edit failed --webhook https://hooks.example.org/other
  clearspan subscriptions pause failed
  clearspan subscriptions resume failed
  clearspan subscriptions replay failed --from 2026-05-01T12:00:00Z
  clearspan subscriptions skip failed
  clearspan subscriptions delete failed
"""
_FROM: Final = "now, beginning, a time (ISO 8601, or relative such as -1h), or the position of a subscription"
_COLUMNS: Final = (
    TableColumn("slug", is_whole=True, style="cyan"),
    TableColumn("status", is_whole=True),
    TableColumn("target"),
    TableColumn("delivered", "right", is_whole=True),
    TableColumn("expired", "right", is_whole=True),
    TableColumn("lag", "right", is_whole=True),
    TableColumn("last error"),
)


def _details(subscription: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        ("slug", subscription["slug"]),
        ("id", subscription["id"]),
        ("status", status_text(subscription)),
        ("reason", subscription.get("reason")),
        ("target", target_text(subscription["target"])),
        ("secret", subscription["target"].get("secret")),
        ("on", subscription["on"]),
        ("spans", selection_text(subscription)),
        ("delivered", _delivered_text(subscription["delivered"])),
        ("lag", f"{subscription['lag_s']:g} s"),
        ("under way", _pending_text(subscription.get("pending"))),
        ("rejected", _rejected_text(subscription.get("rejected"))),
        ("expired", _expired_text(subscription["expired"])),
        ("last error", error_text(subscription.get("last_error"))),
        ("skipped", _skipped_text(subscription.get("skipped", []))),
    ]


def _row(subscription: Mapping[str, Any]) -> Sequence[object]:
    return (
        subscription["slug"],
        status_text(subscription),
        target_text(subscription["target"]),
        f"{subscription['delivered']['spans']:,}",
        f"{subscription['expired']['spans']:,}",
        f"{subscription['lag_s']:.1f} s",
        failure_text(subscription),
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


class FeedOptions(NamedTuple):
    """What a new subscription delivers, and where it begins."""

    on: Annotated[str, Option(None, "what is delivered (default: spans)", choices=("spans", "settled_traces"))] = (
        "spans"
    )
    begins_at: Annotated[str, Option("WHERE", f"{_FROM} (default: now)", flag="--from")] = "now"


Feed: TypeAlias = Annotated[FeedOptions, Titled("feed")]

SUBSCRIPTIONS: Final = DeliveryKind("subscription", "span", _COLUMNS, _row, _details)


@api_command("create a subscription")
async def create(
    api: ApiClient,
    *,
    slug: NewSlug,
    name: Name = None,
    feed: Feed,
    target: Target,
    spans_target: SpansTarget,
    spans: Selection,
    as_json: Json = False,
) -> int:
    """Create a subscription and print it, with the secret if one was made."""
    named = target.request(spans_target)
    if not named:
        raise WrongUsage(
            "a subscription needs a target: give --webhook, --kafka with --topic, --otlp, --parquet, or --target."
        )
    members = {"slug": slug, **named, "on": feed.on, "from": feed.begins_at, **await spans.request(api), "name": name}
    return await SUBSCRIPTIONS.create(api, members, as_json=as_json)


@api_command("list subscriptions and what they do", is_table=True)
async def list_all(api: ApiClient, *, status: Status = None, as_json: Json = False) -> int:
    """Print those in a state."""
    return await SUBSCRIPTIONS.list_all(api, {"status": status}, as_json=as_json)


@SUBSCRIPTIONS.action("change a subscription; its position stays")
async def edit(
    api: ApiClient,
    *,
    slug: str,
    name: Name = None,
    target: Target,
    spans_target: SpansTarget,
    spans: Selection,
    as_json: Json = False,
) -> int:
    """Change what is given, and print the subscription."""
    changes = {**await spans.request(api), "name": name, **target.request(spans_target)}
    return await SUBSCRIPTIONS.edit(api, slug, changes, as_json=as_json)


@SUBSCRIPTIONS.action("deliver again from a time or a position")
async def replay(
    api: ApiClient,
    *,
    slug: str,
    begins_at: Annotated[str, Option("WHERE", _FROM, flag="--from")],
    as_json: Json = False,
) -> int:
    """Deliver again from somewhere."""
    answer = await api.post(SUBSCRIPTIONS.path_of(slug, "/replay"), {"from": begins_at})
    return SUBSCRIPTIONS.print_one(answer, as_json=as_json)


subscriptions: Final = Group(
    {
        "create": create,
        "list": list_all,
        **SUBSCRIPTIONS.actions({"show": "show a subscription with its position, lag and last error"}),
        "edit": edit,
        **SUBSCRIPTIONS.actions(
            {
                "pause": "stop delivery and keep the position",
                "resume": "continue delivery, at once if it waits for its next try",
            }
        ),
        "replay": replay,
        **SUBSCRIPTIONS.actions(
            {
                "skip": "pass the batch that cannot be delivered, and record it",
                "test": "send one made-up span to the target; exit code 1 if it does not take it",
                "delete": "delete a subscription",
            }
        ),
    },
    description=DESCRIPTION,
    epilog=EXAMPLES,
)
