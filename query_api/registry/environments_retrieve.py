"""Retrieving a revision directly, or by what is deployed (reference ``applications-api`` §7.2 and §7.3)."""

from __future__ import annotations

from query_api.registry.deployed import find_deployed
from query_api.registry.history import lineage_of
from query_api.registry.names import ENVIRONMENTS
from query_api.registry.revision_handlers import RevisionHandlers, references_of
from query_api.registry.values import References
from query_api.request.route import Request, Response


class DeployableRevisions(RevisionHandlers):
    """Revisions of a kind that is deployed to environments."""

    async def retrieve(self, request: Request) -> Response:
        """The revision that references name: directly, or by what is deployed to an environment.

        An environment or a key in the body asks for the latter.
        """
        environment = references_of(request.body, ENVIRONMENTS)
        if environment == References() and not request.body.key:
            return await super().retrieve(request)
        deployed = await find_deployed(
            lineage_of(request, self._names.kind),
            environment=environment,
            application=references_of(request.body, self._names),
            key=request.body.key,
            word=self._names.artifact,
        )
        return await self.answer_found(request, deployed.revision, info=deployed.info)
