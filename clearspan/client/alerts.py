"""``clearspan alerts``: create and edit alerts, and how one is printed."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from clearspan.client.connection import ApiClient, WrongUsage, api_command
from clearspan.client.delivery_kind import (
    DeliveryKind,
    Name,
    NewSlug,
    Selection,
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
from query_api.filter.notation.names import read_score

DESCRIPTION: Final = """\
Manage alerts. An alert computes a measure of the spans of the last minutes, again and again, and sends a message to a
webhook or a Kafka topic when the value passes a bound and when it is back: one message each, for each group.
"""
EXAMPLES: Final = """\
examples
  clearspan alerts create failing --ratio errors count --above 0.05 --window 10m --by model \\
    --webhook https://hooks.example.org/alerts
  clearspan alerts create slow --measure duration:p95 --above 5000 --window 15m --where span_type is chat \\
    --webhook https://hooks.example.org/alerts
  clearspan alerts create costly --measure cost:sum --above 20 --window 1h --kafka kafka.example.org:9092 --topic alerts
  clearspan alerts list
  clearspan alerts show failing
  clearspan alerts test failing
  clearspan alerts edit failing --above 0.1
  clearspan alerts pause failing
  clearspan alerts resume failing
  clearspan alerts skip failing
  clearspan alerts delete failing
"""
_OF: Final = "count, errors, or a value with a statistic, such as duration:p95 or cost:sum"
_COLUMNS: Final = (
    TableColumn("slug", is_whole=True, style="cyan"),
    TableColumn("status", is_whole=True),
    TableColumn("measure"),
    TableColumn("breaches", "right", is_whole=True),
    TableColumn("waiting", "right", is_whole=True),
    TableColumn("target"),
    TableColumn("last error"),
)
_WITH_KEYS: Final = ("attributes", "resource", "scope", "scores")


def _measure(text: str) -> Mapping[str, Any]:
    of, colon, statistic = text.rpartition(":")
    return {"of": read_score(of) or of, "as": statistic} if colon else {"of": text}


def _group(text: str) -> Any:
    field, dot, key = text.partition(".")
    return {"field": field, "key": key} if dot and field in _WITH_KEYS else text


def _details(alert: Mapping[str, Any]) -> list[tuple[str, object]]:
    messages = alert["messages"]
    tries = f", {messages['attempts']} failed tries" if messages["attempts"] else ""
    return [
        ("slug", alert["slug"]),
        ("id", alert["id"]),
        ("status", status_text(alert)),
        ("reason", alert.get("reason")),
        ("measure", _measure_text(alert)),
        ("spans", selection_text(alert)),
        ("target", target_text(alert["target"])),
        ("secret", alert["target"].get("secret")),
        ("evaluated", _evaluated_text(alert.get("evaluated"))),
        ("messages", f"{messages['delivered']:,} delivered, {messages['waiting']:,} waiting{tries}"),
        ("last error", error_text(alert.get("last_error"))),
        ("breaches", f"{alert['breaches_count']:,}"),
        *(
            ("", f"{_by_text(breach['by'])} {breach['value']} since {local_time(breach['since'])}")
            for breach in alert["breaches"]
        ),
    ]


def _row(alert: Mapping[str, Any]) -> Sequence[object]:
    return (
        alert["slug"],
        status_text(alert),
        _measure_text(alert),
        f"{alert['breaches_count']:,}",
        f"{alert['messages']['waiting']:,}",
        target_text(alert["target"]),
        failure_text(alert),
    )


def _measure_text(alert: Mapping[str, Any]) -> str:
    measures = alert["measure"].get("ratio") or [alert["measure"]]
    texts = [f"{_name_text(each['of'])}:{each['as']}" if "as" in each else _name_text(each["of"]) for each in measures]
    bound = f"above {alert['above']:g}" if "above" in alert else f"below {alert['below']:g}"
    by = f" by {', '.join(map(_name_text, alert['group_by']))}" if alert.get("group_by") else ""
    return f"{' / '.join(texts)} {bound} in {alert['window']}, every {alert['every']}{by}"


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


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"'{text}' is not a number")
    return value


class MeasureOptions(NamedTuple):
    """What an alert watches."""

    measure: Annotated[str | None, Option("OF", f"what is measured: {_OF}")] = None
    ratio: Annotated[Sequence[str] | None, Option("OF", "one measure divided by another: errors count", nargs=2)] = None
    above: Annotated[float | None, Option("NUMBER", "a value above it is a breach", type=_number)] = None
    below: Annotated[float | None, Option("NUMBER", "a value below it is a breach; no data is not", type=_number)] = (
        None
    )
    window: Annotated[str | None, Option("DURATION", "spans that started in this time count: 10m, 1h")] = None
    every: Annotated[str | None, Option("DURATION", "the time between two evaluations (default: 1m)")] = None
    by: Annotated[
        Sequence[str] | None,
        Option("FIELD", "watch each group on its own: fields, attributes.PATH or scores.NAME; at most 3", nargs="+"),
    ] = None

    def request(self) -> dict[str, Any]:
        """Return the members of a request that options set. Raises ``WrongUsage``."""
        if self.measure is not None and self.ratio is not None:
            raise WrongUsage("--measure and --ratio exclude each other; give one.")
        if self.above is not None and self.below is not None:
            raise WrongUsage("--above and --below exclude each other; give one.")
        members = {
            "above": self.above,
            "below": self.below,
            "window": self.window,
            "every": self.every,
            "measure": None if self.measure is None else _measure(self.measure),
            "group_by": None if self.by is None else list(map(_group, self.by)),
        }
        if self.ratio is not None:
            members["measure"] = {"ratio": list(map(_measure, self.ratio))}
        return {name: member for name, member in members.items() if member is not None}


Measure: TypeAlias = Annotated[MeasureOptions, Titled("measure")]


@api_command("create an alert")
async def create(
    api: ApiClient,
    *,
    slug: NewSlug,
    name: Name = None,
    measure: Measure,
    target: Target,
    spans: Selection,
    as_json: Json = False,
) -> int:
    """Create an alert and print it, with the secret if one was made."""
    definition, named = measure.request(), target.request()
    if "measure" not in definition:
        raise WrongUsage("an alert needs a measure: give --measure or --ratio.")
    if "window" not in definition:
        raise WrongUsage("an alert needs a window: give --window.")
    if not named:
        raise WrongUsage("an alert needs a target: give --webhook, --kafka with --topic, or --target.")
    members = {"slug": slug, **named, "name": name, **definition, **await spans.request(api)}
    return await ALERTS.create(api, members, as_json=as_json)


@api_command("list alerts and what they do", is_table=True)
async def list_all(
    api: ApiClient,
    *,
    status: Status = None,
    breaching: Annotated[bool, Option(None, "only those with a group in breach now")] = False,
    as_json: Json = False,
) -> int:
    """Print those in a state."""
    return await ALERTS.list_all(api, {"status": status, "breaching": breaching}, as_json=as_json)


@ALERTS.action("change an alert")
async def edit(
    api: ApiClient,
    *,
    slug: str,
    name: Name = None,
    measure: Measure,
    target: Target,
    spans: Selection,
    as_json: Json = False,
) -> int:
    """Change what is given, and print the alert."""
    changes = {"name": name, **measure.request(), **await spans.request(api), **target.request()}
    return await ALERTS.edit(api, slug, changes, as_json=as_json)


alerts: Final = Group(
    {
        "create": create,
        "list": list_all,
        **ALERTS.actions({"show": "show an alert with its breaches, messages and last error"}),
        "edit": edit,
        **ALERTS.actions(
            {
                "pause": "stop evaluating and sending",
                "resume": "evaluate and send again, at once",
                "skip": "drop the first message that waits to be delivered",
                "test": "send a test message to the target; exit code 1 if it does not take it",
                "delete": "delete an alert with its messages",
            }
        ),
    },
    description=DESCRIPTION,
    epilog=EXAMPLES,
)
