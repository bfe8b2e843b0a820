"""The routes of applications (reference ``applications-api`` §4–§8.5): those of every history, and resolving."""

from __future__ import annotations

from typing import Final

from query_api.registry.applications_handlers import HANDLERS
from query_api.registry.applications_models import RESOLVED, SHAPES, ResolveRevision
from query_api.registry.names import APPLICATIONS
from query_api.registry.routes import Words, history_routes
from query_api.request.route import Route

WORDS: Final = Words(one="an application", several="applications", tag="Application", tags="Applications")

# fmt: off
RESOLVING: Final = (
    Route("POST", "/applications/revisions/resolve", HANDLERS.revisions.resolve, "Resolve embedded references",
          "Application revisions", RESOLVED, body=ResolveRevision),
)
# fmt: on

APPLICATION_ROUTES: Final = (*history_routes(APPLICATIONS, WORDS, handlers=HANDLERS, shapes=SHAPES), *RESOLVING)
