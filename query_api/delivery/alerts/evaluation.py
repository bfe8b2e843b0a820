"""What an alert sees when it is evaluated: the value of each group, and which are in breach (contract §9).

The groups are those of ``/spans/groups/query``, ordered by the measure, so that the groups in breach come first. An
evaluation that did not examine the whole window fails: a sum over a part of it would end breaches that go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

from common.errors import DeadlineExceeded, InvalidInput
from query_api.analytics.groups import SpanWindow, compute_groups
from query_api.analytics.groups_models import (
    LIMIT_MAX,
    FieldAndKey,
    GroupOrder,
    GroupsQuery,
    MeasureModel,
    OrderByModel,
)
from query_api.analytics.measures import MeasureKind, measured
from query_api.delivery.alerts.schemas import AlertDefinition, AlertMeasure, AlertRatio
from query_api.filter.language import ValuePlace
from query_api.filter.parse import parse_place
from query_api.filter.sql.compile import Compiled
from query_api.spans.project_spans import ProjectSpans

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


def check_definition(definition: AlertDefinition) -> None:
    """Raise ``InvalidInput`` for what cannot be measured, with the path of it."""
    is_ratio = isinstance(definition.measure, AlertRatio)
    if (definition.above is None) == (definition.below is None):
        raise InvalidInput("alert: exactly one of 'above' and 'below' is needed.")
    for index, measure in enumerate(definition.measures):
        at = f"alert.measure.ratio[{index}]" if is_ratio else "alert.measure"
        values = measured(measure.of, f"{at}.of")
        values.check([measure.statistic] if measure.statistic else [], at)
        if values.kind is MeasureKind.TIME and measure.statistic != "uniq":
            raise InvalidInput(f"{at}.as: the '{measure.statistic}' of a time is no number; allowed: uniq.")
    places: list[ValuePlace] = []
    for index, name in enumerate(definition.group_by):
        place = parse_place(name.field, name.key, path=f"alert.group_by[{index}]")
        if place in places:
            raise InvalidInput(f"alert.group_by[{index}]: the same value as alert.group_by[{places.index(place)}].")
        places.append(place)


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
