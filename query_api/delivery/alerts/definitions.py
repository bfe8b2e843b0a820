"""The definition of an alert: what it watches, what may be measured, and how responses and messages show it.

A revision of a saved query is pinned, a query is followed. Of a saved query the filter and the rate count; its window
gives way to that of the alert. Relative times in a filter count from each evaluation (contract §9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from common.errors import InvalidInput
from query_api.analytics.measures import MeasureKind, measured
from query_api.delivery.alerts.schemas import AlertDefinition, AlertRatio
from query_api.delivery.selection import find_revision, parse_stored_filter, stored_references
from query_api.filter.language import Node, ValuePlace
from query_api.filter.parse import FilteringModel, parse_filter, parse_place
from query_api.filter.sql.compile import compile_node
from query_api.queries.saved import spans_query_in
from query_api.registry.store import Lineage
from query_api.spans.window import percent_of

TEST: Final = "alert.test"
FILTERING_AT: Final = "alert.filtering"


@dataclass(frozen=True, slots=True)
class WatchedSpans:
    """The spans that an alert watches."""

    filtering: Node
    rate_percent: int = 100


async def check_alert_filter(filtering: FilteringModel, *, now_us: int) -> None:
    """Raise ``InvalidFilter`` for a filter that cannot be run."""
    await compile_node(await parse_filter(filtering, path=FILTERING_AT), now_us=now_us)


async def watched_spans(stored: Mapping[str, Any], lineage: Lineage) -> WatchedSpans:
    """Return what a stored alert watches now. Raises ``NotFound`` if its query is gone."""
    references = stored_references(stored)
    if references is None:
        return WatchedSpans(await parse_stored_filter(stored, path=FILTERING_AT))
    node, windowing = await spans_query_in(await find_revision(lineage, references))
    return WatchedSpans(node, percent_of(windowing.rate))


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


def about_alert(alert_id: UUID, slug: str, definition: AlertDefinition, *, at: datetime) -> dict[str, Any]:
    """Return the members that all messages of an evaluation have: the alert, and the window that was examined."""
    shown = shown_definition(definition)
    window = {"oldest": time_text(at - timedelta(seconds=definition.window_s)), "newest": time_text(at)}
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


def time_text(moment: datetime) -> str:
    """Return a time as messages show it."""
    return moment.isoformat().replace("+00:00", "Z")
