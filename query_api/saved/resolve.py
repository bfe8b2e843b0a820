"""From the references of a question to what it asks together with the saved query that they name.

Source: contract §3.4, reference ``spans-api`` §8. Requests without references never reach Postgres.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from common.errors import Conflict, InvalidFilter, InvalidInput, NotFound
from query_api.filter.ast import GroupOperator, Node
from query_api.filter.models import ConditionModel, FilteringModel
from query_api.filter.parse import parse_filter
from query_api.pages import spans, traces
from query_api.pages.spans import SpansQuery
from query_api.registry.handlers import lineage_of
from query_api.registry.labels import QUERIES
from query_api.registry.references import find_named_revision, references_of
from query_api.registry.values import References, Revision
from query_api.request.route import Request, Response
from query_api.saved.queries import SAVED_AT, QueryData
from query_api.spans.windowing import Focus, Windowing


async def query_spans(request: Request) -> Response:
    """Return spans that match, page by page."""
    return await spans.query_spans(request, *await asked_of(request, request.body, focus=Focus.SPAN))


async def query_traces(request: Request) -> Response:
    """Return traces of which a span matches, page by page, latest match first."""
    return await traces.query_traces(request, *await asked_of(request, request.body, focus=Focus.TRACE))


class Asked(NamedTuple):
    """Which spans, and which page of them."""

    filtering: Node
    windowing: Windowing


async def asked_of(request: Request, query: SpansQuery, *, focus: Focus) -> Asked:
    """What ``query`` asks on a route about ``focus``: its own conditions and those saved, its own page over the saved one.

    Raises ``NotFound`` where the references name nothing; ``InvalidInput`` where they say too little, contradict each other, lead to
    a revision without data, or both filters are too much together; ``Conflict`` where the saved query is about the other focus.
    """
    own = Asked(await parse_filter(query.filtering), query.windowing or Windowing())
    references = references_of(query.query_ref, query.query_variant_ref, query.query_revision_ref)
    if references == References():
        return own
    saved = saved_in(await _named(request, references))
    _refuse_other_focus(saved, focus)
    if query.filtering is None:
        filtering = await parse_filter(saved.filtering, path=SAVED_AT)
    else:
        filtering = own.filtering if saved.filtering is None else await _both(saved.filtering, query.filtering)
    return Asked(filtering, overridden(saved.windowing, own.windowing))


def saved_in(revision: Revision) -> QueryData:
    """What a revision saves. Raises ``InvalidInput`` where that is nothing: it would be a question about everything."""
    if revision.data is None:
        raise InvalidInput(
            f"Version {revision.version} of the variant '{revision.variant_slug}' stores no data: there is no query to run."
        )
    return QueryData.model_validate_json(revision.data)


def overridden(saved: Windowing | None, own: Windowing | None) -> Windowing:
    """The saved page, member by member replaced by what the request says of it."""
    said = {name: value for name in Windowing.model_fields if (value := getattr(own, name, None)) is not None}
    return (saved or Windowing()).model_copy(update=said)


async def _named(request: Request, references: References) -> Revision:
    found = await find_named_revision(lineage_of(request, QUERIES.kind), references)
    if found is not None:
        return found
    if not any(each is not None and each.identifies for each in references):
        raise InvalidInput("query_ref, query_variant_ref and query_revision_ref name nothing: give an id or a slug.")
    raise NotFound("There is no revision of a saved query that these references name.")


def _refuse_other_focus(saved: QueryData, focus: Focus) -> None:
    kept = saved.formatting.focus if saved.formatting is not None else None
    if kept not in (None, focus):
        raise Conflict(f"Query revision formatting.focus={kept}. Use /{kept}s/query for this query revision.")


async def _both(saved: FilteringModel, own: FilteringModel) -> Node:
    """All conditions of both. Each is legal for itself: what can be wrong is that they are too many together."""
    members = [*_members(saved), *_members(own)]
    match members:
        case [FilteringModel() as group]:  # one alone needs no group around it, which would nest it deeper
            both = group
        case _:
            both = FilteringModel.model_construct(operator=GroupOperator.AND, conditions=members)
    try:
        return await parse_filter(both)
    except InvalidFilter as exc:
        reason = exc.detail.removeprefix(f"{exc.path}: ")
        raise InvalidFilter("filtering", f"together with the saved query's: {reason}") from exc


def _members(filtering: FilteringModel) -> Sequence[FilteringModel | ConditionModel]:
    """What has to be true all at once."""
    return filtering.conditions if filtering.operator is GroupOperator.AND else [filtering]
