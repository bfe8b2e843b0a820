"""Which spans an alert watches: all, those of a filter, or those of a saved query (contract §9).

A revision is pinned, a query is followed. Of a saved query the filter and the rate count; its window gives way to that
of the alert. Relative times in a filter count from each evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from common.errors import NotFound
from query_api.filter.language import Node
from query_api.filter.parse import FilteringModel, parse_filter
from query_api.filter.sql.compile import compile_node
from query_api.registry.checks import find_named_revision, references_of
from query_api.registry.store import Lineage
from query_api.registry.values import References, Revision
from query_api.request.references import Reference, ReferenceIn
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


async def reference_to_store(
    lineage: Lineage, query: ReferenceIn | None, revision: ReferenceIn | None
) -> dict[str, dict[str, str]]:
    """Return the reference to store: of the query, which is followed, or of the revision, which is pinned.

    Raises ``NotFound`` if they name nothing, ``InvalidInput`` if they are insufficient, ``Conflict`` if the query is
    about traces.
    """
    found = await _revision(lineage, references_of(query, None, revision))
    await spans_query_in(found)
    if revision is None:
        return {"query_ref": {"id": str(found.artifact_id), "slug": found.artifact_slug}}
    return {"query_revision_ref": {"id": str(found.id), "slug": found.slug, "version": str(found.version)}}


async def watched_spans(stored: Mapping[str, Any], lineage: Lineage) -> WatchedSpans:
    """Return what a stored alert watches now. Raises ``NotFound`` if its query is gone."""
    if "query_ref" in stored:
        references = References(Reference(UUID(stored["query_ref"]["id"])), None, None)
    elif "query_revision_ref" in stored:
        references = References(None, None, Reference(UUID(stored["query_revision_ref"]["id"])))
    else:
        filtering = FilteringModel.model_validate(stored["filtering"]) if "filtering" in stored else None
        return WatchedSpans(await parse_filter(filtering, path=FILTERING_AT))
    node, windowing = await spans_query_in(await _revision(lineage, references))
    return WatchedSpans(node, percent_of(windowing.rate))


async def _revision(lineage: Lineage, references: References) -> Revision:
    found = await find_named_revision(lineage, references)
    if found is None:
        raise NotFound("There is no revision of a saved query that query_ref or query_revision_ref names.")
    return found
