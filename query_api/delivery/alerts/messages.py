"""The messages of an alert: what an evaluation changes, and what a message says (docs/alerts.md). Pure.

A group that is in breach and was not begins; one that was and has data that is not in breach, or no data, ends. If
groups were left out that may be in breach, a group that was not seen stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from common.codec.checks import json_double
from query_api.delivery.alerts.evaluation import AlertEvaluation
from query_api.delivery.alerts.schemas import AlertDefinition
from query_api.delivery.alerts.store import BreachChange

BEGINS: Final = "alert.begins"
ENDS: Final = "alert.ends"
TEST: Final = "alert.test"


def change_of(
    evaluation: AlertEvaluation,
    before: Mapping[bytes, tuple[Mapping[str, Any], datetime]],
    *,
    about: Mapping[str, Any],
    at: datetime,
) -> BreachChange:
    """Return what an evaluation at ``at`` changes. ``before`` are the groups in breach until now, by their keys."""
    seen = {group.key: group for group in evaluation.groups}
    breaching = [group for group in evaluation.groups if group.is_breach]
    messages: list[tuple[str, Mapping[str, Any]]] = [
        (BEGINS, {**about, "by": group.by, "value": json_double(group.value), "since": _text(at)})
        for group in breaching
        if group.key not in before
    ]
    ended = []
    for key, (by, since) in before.items():
        group = seen.get(key)
        if (group is None and evaluation.is_conclusive) or (group is not None and not group.is_breach):
            ended.append(key)
            value = None if group is None else json_double(group.value)
            messages.append((ENDS, {**about, "by": by, "value": value, "since": _text(since), "ended_at": _text(at)}))
    return BreachChange([(group.key, group.by, group.value) for group in breaching], ended, messages)


def about_alert(alert_id: UUID, slug: str, definition: AlertDefinition, *, at: datetime) -> dict[str, Any]:
    """Return the members that all messages of an evaluation have: the alert, and the window that was examined."""
    shown = shown_definition(definition)
    window = {"oldest": _text(at - timedelta(seconds=definition.window_s)), "newest": _text(at)}
    names = ("measure", "above", "below", "window")
    return {
        "alert": slug,
        "alert_id": str(alert_id),
        **{name: shown[name] for name in names if name in shown},
        **window,
    }


def shown_definition(definition: AlertDefinition) -> dict[str, Any]:
    """Return a definition as responses and messages show it: names without a key as texts."""
    shown = definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    measures = shown["measure"]["ratio"] if "ratio" in shown["measure"] else [shown["measure"]]
    for measure in measures:
        measure["of"] = _shown_name(measure["of"])
    shown["group_by"] = list(map(_shown_name, shown["group_by"]))
    return {name: value for name, value in shown.items() if value != []}


def _shown_name(name: Mapping[str, Any]) -> Any:
    return name if "key" in name else name["field"]


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
