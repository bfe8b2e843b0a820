"""Which spans are a revision's, as a filter that anybody may send to ``/spans/query``: a span says so by its ``references``.

Three ways to say it are known (reference §3.2, §4.5): by the revision's id, by its slug, and, as those do who were only told
what to run, by its variant and the version. An id needs no key: no two things share one. A slug does.
"""

from __future__ import annotations

from typing import Any

from query_api.filter.models import FilteringModel
from query_api.registry.names import Names
from query_api.registry.values import Revision


def spans_of(names: Names, revision: Revision) -> FilteringModel:
    """The spans that refer to the revision."""
    by_itself = _refers([{"id": str(revision.id)}, {"slug": revision.slug, "attributes.key": names.revision}])
    to_variant = _refers(
        [{"id": str(revision.variant_id)}, {"slug": revision.variant_slug, "attributes.key": names.variant}]
    )
    to_version = _refers([{"version": str(revision.version), "attributes.key": names.revision}])
    by_version = {"operator": "and", "conditions": [to_variant, to_version]}
    return FilteringModel.model_validate({"operator": "or", "conditions": [by_itself, by_version]})


def _refers(partials: list[dict[str, Any]]) -> dict[str, Any]:
    return {"field": "references", "operator": "in", "value": partials}
