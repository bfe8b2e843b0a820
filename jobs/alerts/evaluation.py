"""What an alert sees when it is evaluated, and what that changes: groups in breach, and messages (contract §9).

The groups are those of ``/spans/groups/query``, ordered by the measure, so that the groups in breach come first. An
evaluation that did not examine the whole window fails: a sum over a part of it would end breaches that go on.

A group that is in breach and was not begins; one that was and has data that is not in breach, or no data, ends. If
groups were left out that may be in breach, a group that was not seen stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import orjson

from common.codec.checks import json_double
from common.errors import DeadlineExceeded
from jobs.alerts.store import BreachChange
from query_api.analytics.groups import SpanWindow, compute_groups
from query_api.analytics.groups_models import (
    LIMIT_MAX,
    FieldAndKey,
    GroupOrder,
    GroupsQuery,
    MeasureModel,
    OrderByModel,
)
from query_api.delivery.alerts.definitions import time_text
from query_api.delivery.alerts.schemas import AlertDefinition, AlertMeasure, AlertRatio
from query_api.filter.sql.compile import Compiled
from query_api.spans.project_spans import ProjectSpans

BEGINS: Final = "alert.begins"
ENDS: Final = "alert.ends"

GROUPS_MAX: Final = LIMIT_MAX
"""Groups of an alert that are examined."""

TEXT_LENGTH_MAX: Final = 1_000
"""Characters of a value by which spans are grouped, in messages and in the state."""


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group with data. ``key`` identifies it."""

    key: bytes
    by: Mapping[str, Any]
    value: float
    is_breach: bool


@dataclass(frozen=True, slots=True)
class AlertEvaluation:
    """What one evaluation saw. ``is_conclusive``: no group that was left out can be in breach."""

    groups: Sequence[GroupSeen]
    left_out_count: int
    is_conclusive: bool


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
        (BEGINS, {**about, "by": group.by, "value": json_double(group.value), "since": time_text(at)})
        for group in breaching
        if group.key not in before
    ]
    ended = []
    for key, (by, since) in before.items():
        group = seen.get(key)
        if (group is None and evaluation.is_conclusive) or (group is not None and not group.is_breach):
            ended.append(key)
            value = None if group is None else json_double(group.value)
            messages.append(
                (ENDS, {**about, "by": by, "value": value, "since": time_text(since), "ended_at": time_text(at)})
            )
    return BreachChange([(group.key, group.by, group.value) for group in breaching], ended, messages)


async def evaluate(
    spans: ProjectSpans, definition: AlertDefinition, matching: Compiled, *, now_us: int, rate_percent: int
) -> AlertEvaluation:
    """Return the groups over the window that ends now. Raises ``DeadlineExceeded`` if it was not examined whole."""
    window = SpanWindow(now_us - definition.window_s * 1_000_000, now_us, rate_percent)
    found = await compute_groups(spans, groups_query_of(definition), matching, window)
    if not found["complete"]:
        raise DeadlineExceeded(f"The window of {definition.window} could not be examined within the query budget.")
    seen = [group for each in found["groups"] if (group := _seen(definition, each)) is not None]
    left_out = found.get("others", {}).get("groups_count", 0)
    is_ordered = not isinstance(definition.measure, AlertRatio)
    is_conclusive = not left_out or (is_ordered and not all(group.is_breach for group in seen))
    return AlertEvaluation(seen, left_out, is_conclusive)


def groups_query_of(definition: AlertDefinition) -> GroupsQuery:
    """Return the query of the groups of an alert."""
    by_name: dict[FieldAndKey, list[AlertMeasure]] = {}
    for measure in definition.measures:
        by_name.setdefault(measure.of, []).append(measure)
    measures = [
        MeasureModel(of=name, statistics=[each.statistic for each in same if each.statistic] or None)
        for name, same in by_name.items()
    ]
    order_by = None
    if not isinstance(definition.measure, AlertRatio):
        order = GroupOrder.DESCENDING if definition.above is not None else GroupOrder.ASCENDING
        order_by = OrderByModel(of=definition.measure.of, statistic=definition.measure.statistic, order=order)
    return GroupsQuery(group_by=definition.group_by, measures=measures, order_by=order_by, limit=GROUPS_MAX)


def _seen(definition: AlertDefinition, group: Mapping[str, Any]) -> GroupSeen | None:
    """Return a group; ``None`` if it has no value."""
    names = list(dict.fromkeys(measure.of for measure in definition.measures))
    by_name = dict(zip(names, group["values"].values(), strict=True))
    numbers = [_number(by_name[measure.of], measure) for measure in definition.measures]
    value = numbers[0]
    if len(numbers) == 2 and value is not None:
        value = value / numbers[1] if numbers[1] else None
    if value is None or value != value:  # noqa: PLR0124 - NaN: infinite by infinite
        return None
    by = group["by"]
    key = sha256(orjson.dumps(by, option=orjson.OPT_SORT_KEYS)).digest()
    return GroupSeen(key, {name: _shortened(each) for name, each in by.items()}, value, is_breach(definition, value))


def is_breach(definition: AlertDefinition, value: float) -> bool:
    """Return whether a value is past the bound; the bound itself is not."""
    if definition.above is not None:
        return value > definition.above
    return definition.below is not None and value < definition.below


def _number(values: Any, measure: AlertMeasure) -> float | None:
    found = values if measure.statistic is None else values.get(measure.statistic)
    return None if found is None else float(found)


def _shortened(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= TEXT_LENGTH_MAX else f"{value[: TEXT_LENGTH_MAX - 1]}…"
