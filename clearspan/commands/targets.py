"""What the commands about subscriptions and alerts share: their common actions, options of targets and of spans."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import CommandParser, add_command, short_text

_SHARED: Final = {
    "list": "list_all",
    "show": "show",
    "pause": "control",
    "resume": "control",
    "skip": "control",
    "test": "test",
    "delete": "delete",
}
"""The actions of which ``delivery_actions`` has the function."""


def add_create(actions: Any, noun: str, summary: str) -> CommandParser:
    """Add the action that creates a subscription or an alert, with its slug."""
    create = _add(actions, noun, "create", summary)
    create.add_argument(
        "slug", metavar="SLUG", type=short_text, help="a name in URLs and commands, unique in a project"
    )
    return create


def add_list(actions: Any, noun: str) -> CommandParser:
    """Add the action that lists subscriptions or alerts."""
    listing = _add(actions, noun, "list", f"list {noun}s and what they do")
    listing.add_argument("--status", choices=("active", "retrying", "paused"), help="only those in this state")
    return listing


def add_named(actions: Any, noun: str, name: str, summary: str) -> CommandParser:
    """Add an action on one subscription or alert, with its slug."""
    action = _add(actions, noun, name, summary)
    action.add_argument("slug", metavar="SLUG", help=f"slug or id of the {noun}")
    return action


def add_delete(actions: Any, noun: str, summary: str) -> CommandParser:
    """Add the action that deletes a subscription or an alert."""
    delete = add_named(actions, noun, "delete", summary)
    delete.add_argument("--yes", action="store_true", help="delete without asking")
    return delete


def _add(actions: Any, noun: str, name: str, summary: str) -> CommandParser:
    function = _SHARED.get(name)
    if function is None:
        return add_command(actions, name, f"clearspan.client.{noun}s:{name}", summary)
    action = add_command(actions, name, f"clearspan.client.delivery_actions:{function}", summary)
    action.set_defaults(noun=noun, **({"action": name} if function == "control" else {}))
    return action


def add_target(action: CommandParser) -> Any:
    """Add the targets that take spans and messages, and return their group."""
    target = action.add_argument_group("target")
    target.add_argument("--webhook", metavar="URL", help="POST there, signed as Standard Webhooks")
    target.add_argument(
        "--secret", metavar="SECRET", help="signs what is sent (whsec_…; default: a new one, which is shown once)"
    )
    target.add_argument("--kafka", metavar="SERVERS", help="publish to this cluster: host:port, separated by commas")
    target.add_argument("--topic", metavar="TOPIC", help="the topic, with --kafka")
    target.add_argument("--target", metavar="JSON", help="any target as JSON, as in the member `target` of a request")
    return target


def add_spans_target(target: Any) -> None:
    """Add the targets that take only spans."""
    target.add_argument("--otlp", metavar="URL", help="send to this OTLP/HTTP endpoint; /v1/traces for a host alone")
    target.add_argument(
        "--header",
        metavar="HEADER",
        action="append",
        default=[],
        help="a header `Name: value`, with --otlp; repeatable",
    )
    target.add_argument("--ag", action="store_true", help="also send the attributes below `ag`, with --otlp")
    target.add_argument(
        "--parquet",
        metavar="URL",
        help="write files there, below the folder of the project: file:///folder or s3://bucket/prefix",
    )


def add_selection(action: CommandParser) -> None:
    """Add the options that choose spans."""
    selection = action.add_argument_group("spans (all by default)")
    selection.add_argument(
        "--where", metavar="WORD", nargs="+", default=(), help="field operator value, further ones after the word `and`"
    )
    selection.add_argument("--filter", metavar="JSON", help="a filter as JSON")
    selection.add_argument("--query", metavar="SLUG", help="the slug of a saved query; its newest revision counts")
    selection.add_argument("--errors", action="store_true", help="only spans with the status STATUS_CODE_ERROR")
