"""What revisions of applications can tell besides what every history tells: where they are deployed, and what their spans took."""

from __future__ import annotations

from query_api.analytics.buckets import buckets_of
from query_api.freshness.data_through import with_freshness
from query_api.registry.answers import one_answer, revision_members
from query_api.registry.applications_models import RevisionParameters
from query_api.registry.environments_retrieve import DeployableRevisions
from query_api.registry.history import lineage_of
from query_api.registry.names import APPLICATIONS
from query_api.registry.requests import path_id
from query_api.request.references import Reference
from query_api.request.route import Request, Response
from query_api.saved.revision_counts import Counted, counts_of
from query_api.saved.revision_spans import spans_of
from query_api.spans.project_spans import project_spans


class ApplicationRevisions(DeployableRevisions):
    """The routes of revisions, for applications."""

    async def get(self, request: Request) -> Response:
        """One revision, archived or not. With `include_counts` also what its spans took; then the answer says how fresh it is."""
        asked: RevisionParameters = request.query
        return await (with_freshness(request, _with_counts) if asked.include_counts else super().get(request))


async def _with_counts(request: Request) -> Response:
    revision = await lineage_of(request, APPLICATIONS.kind).find_revision(Reference(path_id(request)))
    if revision is None:
        return one_answer(APPLICATIONS.revision, None)
    asked: RevisionParameters = request.query
    window = buckets_of(
        oldest_us=asked.oldest,
        newest_us=asked.newest,
        interval_min=None,
        now_us=request.context.clock.now_ns() // 1000,
    )
    counts = await counts_of(project_spans(request), Counted(spans_of(APPLICATIONS, revision), window))
    members = revision_members(APPLICATIONS, revision, with_slugs=True)
    return one_answer(APPLICATIONS.revision, members, counts=counts)
