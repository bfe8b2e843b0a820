"""``clearspan alerts``: create and edit alerts, and how one is printed.

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
    TableColumn("measure"),
    TableColumn("breaches", "right", is_whole=True),
    TableColumn("waiting", "right", is_whole=True),
    TableColumn("target"),
    TableColumn("last error"),
)
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
    return ALERTS.print_one(await api.post(ALERTS.path, {"alert": body}), as_json=as_json)


@on_api
async def edit(api: ApiClient, /, *, slug: str, as_json: bool, **options: Any) -> int:
    """Change what is given, and print the alert."""
    target = target_in(options)
    changes = {**_definition(options), **selection_in(options), **({} if target is None else {"target": target})}
    if not changes:
        raise WrongUsage("nothing to change is given.")
    return ALERTS.print_one(await api.request("PUT", ALERTS.path_of(slug), body={"alert": changes}), as_json=as_json)


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


def _details(found: Mapping[str, Any]) -> list[tuple[str, object]]:
    messages = found["messages"]
    tries = f", {messages['attempts']} failed tries" if messages["attempts"] else ""
    return [
        ("slug", found["slug"]),
        ("id", found["id"]),
        ("status", status_text(found)),
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


def _row(found: Mapping[str, Any]) -> Sequence[object]:
    return (
        found["slug"],
        status_text(found),
        _measure_text(found),
        f"{found['breaches_count']:,}",
        f"{found['messages']['waiting']:,}",
        target_text(found["target"]),
        failure_text(found),
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


ALERTS: Final = DeliveryKind("alert", "message", _COLUMNS, _row, _details)
