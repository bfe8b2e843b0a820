"""The options of commands that name a target or choose spans: subscriptions and alerts."""

from __future__ import annotations

from typing import Any

from clearspan.commands.options import CommandParser


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
    target.add_argument("--parquet", metavar="URL", help="write files there: file:///directory or s3://bucket/prefix")


def add_selection(action: CommandParser) -> None:
    """Add the options that choose spans."""
    selection = action.add_argument_group("spans (all by default)")
    selection.add_argument(
        "--where", metavar="WORD", nargs="+", default=(), help="field operator value, further ones after the word `and`"
    )
    selection.add_argument("--filter", metavar="JSON", help="a filter as JSON")
    selection.add_argument("--query", metavar="SLUG", help="the slug of a saved query; its newest revision counts")
    selection.add_argument("--errors", action="store_true", help="only spans with the status STATUS_CODE_ERROR")
