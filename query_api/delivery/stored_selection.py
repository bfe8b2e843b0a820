"""What is stored of the spans that a subscription or an alert is about: a filter, or a reference to a saved query.

A reference to a revision is pinned. A reference to a query follows its newest revision (contract §9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from common.errors import NotFound
from query_api.filter.language import Node
from query_api.filter.parse import FilteringModel, parse_filter
from query_api.registry.checks import find_named_revision
from query_api.registry.store import Lineage
from query_api.registry.values import References, Revision
from query_api.request.references import Reference


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
