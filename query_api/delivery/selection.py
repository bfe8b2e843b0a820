"""Which spans a subscription delivers: a filter, or a saved query (contract §9).

A revision is pinned. A query follows its newest revision, and so may change while the subscription delivers: each
batch remembers its revision, so that a retry delivers the same spans. Of a saved query the filter, the bounds of
start_time and the rate count; its page does not.

A filter with a relative time means something else at each moment, so no position could say what was delivered: it is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from common.errors import InvalidFilter, InvalidInput, NotFound
from common.times import RelativeTime
from query_api.filter.language import Node
from query_api.filter.parse import FilteringModel, has_relative_time, parse_filter
from query_api.filter.sql.compile import Compiled, compile_node
from query_api.queries.saved import spans_query_in
from query_api.registry.checks import find_named_revision
from query_api.registry.store import Lineage
from query_api.registry.values import References, Revision
from query_api.request.references import Reference
from query_api.spans.window import Window
from query_api.spans.windowing import Order, Windowing


def reference_to_store(found: Revision, *, is_pinned: bool) -> dict[str, dict[str, str]]:
    """Return the reference to a revision, or to its query."""
    if is_pinned:
        return {"query_revision_ref": {"id": str(found.id), "slug": found.slug, "version": str(found.version)}}
    return {"query_ref": {"id": str(found.artifact_id), "slug": found.artifact_slug}}


def stored_references(stored: Mapping[str, Any]) -> References | None:
    """Return the reference that is stored; ``None`` if there is none."""
    if "query_ref" in stored:
        return References(Reference(UUID(stored["query_ref"]["id"])), None, None)
    if "query_revision_ref" in stored:
        return pinned(UUID(stored["query_revision_ref"]["id"]))
    return None


def pinned(revision_id: UUID) -> References:
    """Return the reference to a revision."""
    return References(None, None, Reference(revision_id))


async def parse_stored_filter(stored: Mapping[str, Any], *, path: str) -> Node:
    """Return the tree of the filter that is stored. Raises ``InvalidFilter``."""
    filtering = FilteringModel.model_validate(stored["filtering"]) if "filtering" in stored else None
    return await parse_filter(filtering, path=path)


async def find_revision(lineage: Lineage, references: References) -> Revision:
    """Return the revision of a saved query. Raises ``NotFound``."""
    found = await find_named_revision(lineage, references)
    if found is None:
        raise NotFound("There is no revision of a saved query that query_ref or query_revision_ref names.")
    return found


FILTERING_AT: Final = "subscription.filtering"


@dataclass(frozen=True, slots=True)
class Selection:
    """The spans that a subscription delivers. ``revision_id`` is that of the saved query, if it is one."""

    matching: Compiled
    window: Window
    revision_id: UUID | None = None


async def check_filter(filtering: FilteringModel) -> None:
    """Raise ``InvalidFilter`` for a filter that cannot be delivered."""
    node = await parse_filter(filtering, path=FILTERING_AT)
    _refuse_relative(node, at=FILTERING_AT)
    await compile_node(node, now_us=0)


async def selection_of(stored: Mapping[str, Any], lineage: Lineage, *, revision_id: UUID | None = None) -> Selection:
    """Return what a stored subscription selects now, or at the revision ``revision_id`` of its query.

    Raises ``NotFound`` if its query is gone, and what ``selection_of_revision`` raises.
    """
    references = stored_references(stored) if revision_id is None else pinned(revision_id)
    if references is None:
        node = await parse_stored_filter(stored, path=FILTERING_AT)
        return Selection(await compile_node(node, now_us=0), Window.of(_ascending(Windowing()), now_us=0))
    return await selection_of_revision(await find_revision(lineage, references))


async def selection_of_revision(revision: Revision) -> Selection:
    """Return what a revision of a saved query selects.

    Raises ``InvalidInput`` if it has relative times, ``Conflict`` if it is about traces.
    """
    filtering, windowing = await spans_query_in(revision)
    _refuse_relative(filtering, at="The filter of the saved query")
    for name in ("oldest", "newest"):
        if isinstance(getattr(windowing, name), RelativeTime):
            raise InvalidInput(
                f"windowing.{name} of the saved query is a relative time, which a subscription cannot have; allowed:"
                " an absolute time."
            )
    window = Window.of(_ascending(windowing), now_us=0)
    return Selection(await compile_node(filtering, now_us=0), window, revision.id)


def _refuse_relative(node: Node, *, at: str) -> None:
    if has_relative_time(node):
        raise InvalidFilter(
            at, "a subscription cannot have relative times such as '-15m' in its filter; allowed: absolute times."
        )


def _ascending(windowing: Windowing) -> Windowing:
    return windowing.model_copy(update={"order": Order.ASCENDING})
