"""From a request to the spans that it may see: whose they are, what it may use, and whether it is explained."""

from __future__ import annotations

from query_api.request.route import Request
from query_api.spans.project_spans import ProjectSpans


def project_spans(request: Request, *, explain: bool | None = None) -> ProjectSpans:
    """The spans that a request may see, with the budget of a query; what is run is recorded where it is to be explained.

    ``explain``: whether it is, where its body does not say that alone.
    """
    context = request.context
    settings = context.settings.query
    return ProjectSpans(
        context.store,
        request.project_id,
        clock=context.clock,
        budget_s=settings.budget_s,
        budget_rows=settings.budget_rows,
        has_neighbours=context.keys is not None,
        is_recorded=(getattr(request.body, "explain", None) if explain is None else explain) is True,
    )
