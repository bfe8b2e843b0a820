"""Which spans an alert watches: all, those of a filter, or those of a saved query (contract §9).

A revision is pinned, a query is followed. Of a saved query the filter and the rate count; its window gives way to that
of the alert. Relative times in a filter count from each evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from query_api.delivery.stored_selection import find_revision, parse_stored_filter, stored_references
from query_api.filter.language import Node
from query_api.filter.parse import FilteringModel, parse_filter
from query_api.filter.sql.compile import compile_node
from query_api.registry.store import Lineage
from query_api.saved.queries import spans_query_in
from query_api.spans.windowing import percent_of

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
