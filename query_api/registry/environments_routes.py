"""The routes of environments (reference ``applications-api`` §7.5 and §7.6): those of every history, and deploying."""

from __future__ import annotations

from typing import Final

from query_api.registry.applications_models import SHAPES as APPLICATION_SHAPES
from query_api.registry.environments_handlers import HANDLERS, deploy_application, guard, unguard
from query_api.registry.environments_models import RESOLVED, SHAPES, DeployApplication, ResolveEnvironmentRevision
from query_api.registry.names import ENVIRONMENTS
from query_api.registry.routes import Words, history_routes
from query_api.request.route import Route

WORDS: Final = Words(one="an environment", several="environments", tag="Environment", tags="Environments")

# fmt: off
DEPLOYING: Final = (
    Route("POST", "/applications/revisions/deploy", deploy_application, "Deploy a revision to an environment", "Environments",
          APPLICATION_SHAPES.revisions.one, body=DeployApplication, ignores_unknown=True),
)
RESOLVING: Final = (
    Route("POST", "/environments/revisions/resolve", HANDLERS.revisions.resolve, "Resolve embedded references",
          "Environment revisions", RESOLVED, body=ResolveEnvironmentRevision),
)
GUARDING: Final = (
    Route("POST", "/simple/environments/{environment_id}/guard", guard, "Mark an environment as guarded", "Simple environments",
          SHAPES.simple.one),
    Route("POST", "/simple/environments/{environment_id}/unguard", unguard, "Mark an environment as not guarded",
          "Simple environments", SHAPES.simple.one),
)
# fmt: on

ENVIRONMENT_ROUTES: Final = (
    *history_routes(ENVIRONMENTS, WORDS, handlers=HANDLERS, shapes=SHAPES),
    *RESOLVING,
    *GUARDING,
    *DEPLOYING,
)
