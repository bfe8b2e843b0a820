"""What the commands about subscriptions and alerts share: targets and selections of spans in options and in texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clearspan.client.connection import WrongUsage
from clearspan.client.requests import filtering_of
from clearspan.client.span_values import local_time
from clearspan.commands.options import SpanOptions
from common.printable import printable

_KINDS: Final = ("webhook", "kafka", "otlp", "parquet", "target")


def target_in(options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the target that options name. Raises ``WrongUsage``."""
    given = [name for name in _KINDS if options.get(name) is not None]
    if len(given) > 1:
        raise WrongUsage(f"--{given[0]} and --{given[1]} name two targets; give one.")
    if (options["topic"] is not None) != (options["kafka"] is not None):
        raise WrongUsage("--kafka and --topic belong together.")
    if options["secret"] is not None and options["webhook"] is None:
        raise WrongUsage("--secret is for --webhook.")
    if (options.get("header") or options.get("ag")) and options.get("otlp") is None:
        raise WrongUsage("--header and --ag are for --otlp.")
    return _target(given[0], options) if given else None


def _target(kind: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    match kind:
        case "webhook":
            secret = {} if options["secret"] is None else {"secret": options["secret"]}
            return {"kind": kind, "url": options[kind], **secret}
        case "kafka":
            return {"kind": kind, "bootstrap": options[kind], "topic": options["topic"]}
        case "otlp":
            headers = _headers(options["header"])
            return {
                "kind": kind,
                "endpoint": options[kind],
                **({"headers": headers} if headers else {}),
                **({"ag": True} if options["ag"] else {}),
            }
        case "parquet":
            return {"kind": kind, "url": options[kind]}
        case _:
            return _json_object(options[kind])


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise WrongUsage(f"--header '{printable(text)}' is not of the form 'Name: value'.")
        headers[name.strip()] = value.strip()
    return headers


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise WrongUsage("--target is not a JSON object.")
    return value


def selection_in(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a request that choose spans. Raises ``WrongUsage``."""
    spans = SpanOptions(options["where"], options["filter"], options["query"], errors=options["errors"])
    return filtering_of(spans)


def target_text(target: Mapping[str, Any]) -> str:
    """Return a target in one line."""
    rest = " ".join(str(value) for name, value in target.items() if name not in ("kind", "secret", "ag", "ca"))
    return f"{target['kind']} {rest}"


def selection_text(found: Mapping[str, Any]) -> str:
    """Return in one line which spans a subscription or an alert is about."""
    for name in ("query_ref", "query_revision_ref", "filtering"):
        if name in found:
            return f"{name} {json.dumps(found[name], ensure_ascii=False)}"
    return "all"


def error_text(error: Mapping[str, Any] | None) -> str | None:
    """Return the last error with its time."""
    return None if error is None else f"{local_time(error['at'])} {error['reason']}"
