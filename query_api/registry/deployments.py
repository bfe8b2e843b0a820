"""Deploying a revision of an application to an environment, and retrieving what is deployed.

Source: reference ``applications-api`` §7.2, §7.3 and §7.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson
from pydantic import Field

from common.errors import InvalidInput, NotFound
from query_api.registry.commits import refuse_grown
from query_api.registry.environments import deployments_of, with_deployments
from query_api.registry.fields import Loose, LooseReferenceIn, json_text
from query_api.registry.handlers import lineage_of
from query_api.registry.labels import APPLICATIONS, ENVIRONMENTS
from query_api.registry.references import find_named_revision, references_of, refuse_contradicting
from query_api.registry.responses import reference_members, revision_response
from query_api.registry.revision_handlers import RevisionHandlers
from query_api.registry.schemas import RetrieveRevision
from query_api.registry.store import Lineage
from query_api.registry.values import Content, Header, Kind, References, Revision
from query_api.request.references import ReferenceIn, Text
from query_api.request.route import Request, Response

KEY_SUFFIX: Final = ".revision"
_KEY: Final = "The key of the deployment; by default the slug of the artifact, followed by `.revision`."
_NO_ENVIRONMENT: Final = "There is no revision of an environment that these references name."
_NO_APPLICATION: Final = "There is no revision of an application that these references name."


class RetrieveDeployed(RetrieveRevision):
    """References to the revision to retrieve: direct ones, or the environment to which it is deployed."""

    environment_ref: ReferenceIn | None = None
    environment_variant_ref: ReferenceIn | None = None
    environment_revision_ref: ReferenceIn | None = None
    key: Text | None = Field(None, description=_KEY)

    def environment(self) -> References:
        """Return the references to the environment."""
        return references_of(self.environment_ref, self.environment_variant_ref, self.environment_revision_ref)


class DeployApplication(Loose):
    """The revision to deploy, and the environment. Both must exist."""

    environment_ref: LooseReferenceIn | None = None
    environment_variant_ref: LooseReferenceIn | None = None
    environment_revision_ref: LooseReferenceIn | None = None
    application_ref: LooseReferenceIn | None = None
    application_variant_ref: LooseReferenceIn | None = None
    application_revision_ref: LooseReferenceIn | None = None
    key: Text | None = Field(None, description=_KEY.replace("artifact", "application"))
    message: Text | None = Field(None, description="The message of the commit to the environment.")


class Deployed(NamedTuple):
    """What an environment holds under a key. ``revision`` is ``None`` if its references lead to nothing."""

    revision: Revision | None
    environment: Revision
    key: str

    @property
    def info(self) -> dict[str, Any]:
        """Return what led to the revision, for ``retrieval_info``: the references of the environment, and the key."""
        return {"references": reference_members(ENVIRONMENTS, self.environment), "selector": {"key": self.key}}


class DeployableRevisions(RevisionHandlers):
    """Revisions of a kind that can be deployed to environments."""

    async def retrieve(self, request: Request) -> Response:
        """Return the revision that references name, directly or by what is deployed to an environment.

        An environment or a key in the body asks for what is deployed.
        """
        body: RetrieveDeployed = request.body
        environment = body.environment()
        if environment == References() and not body.key:
            return await super().retrieve(request)
        deployed = await find_deployed(
            self._lineage(request),
            environment=environment,
            application=body.references(),
            key=body.key,
            word=self._labels.artifact,
        )
        return await self._retrieved_or_resolved(
            request, deployed.revision, resolve=bool(body.resolve), info=deployed.info
        )


async def deploy_application(request: Request) -> Response:
    """Deploy a revision of an application to an environment, as a commit there. Returns the deployed revision."""
    body: DeployApplication = request.body
    deployed = await deploy(
        lineage_of(request, Kind.ENVIRONMENT),
        environment=references_of(body.environment_ref, body.environment_variant_ref, body.environment_revision_ref),
        application=references_of(body.application_ref, body.application_variant_ref, body.application_revision_ref),
        key=body.key,
        message=body.message,
        bytes_max=request.context.settings.limits.body_bytes_max,
    )
    return revision_response(APPLICATIONS, deployed, with_slugs=True)


async def find_deployed(
    lineage: Lineage, *, environment: References, application: References, key: str | None, word: str
) -> Deployed:
    """Return what is deployed under ``key``, by default the key of the application. ``word`` is the request's word
    for it.

    Raises ``InvalidInput`` if a reference to the application does not match what is deployed, or if environment or
    key are not given; ``NotFound`` if the environment does not exist or has nothing under the key.
    """
    key = key or await _default_key(lineage.of(Kind.APPLICATION), application, word=word)
    where = await find_named_revision(lineage.of(Kind.ENVIRONMENT), environment)
    if where is None:
        raise NotFound(_NO_ENVIRONMENT)
    place = f"version {where.version} of '{where.artifact_slug}'"
    stored = deployments_of(_data(where)).get(key)
    if not stored:
        raise NotFound(f"Nothing is deployed under the key '{key}' in {place}.")
    revision = await _find_stored(lineage.of(Kind.APPLICATION), stored, at=f"'{key}' in {place}")
    if revision is not None:
        refuse_contradicting(word, application, revision)
    return Deployed(revision, where, key)


async def deploy(
    lineage: Lineage,
    *,
    environment: References,
    application: References,
    key: str | None,
    message: str | None,
    bytes_max: int,
) -> Revision:
    """Deploy a revision of an application, as a commit to the environment. Return the deployed revision.

    Raises ``InvalidInput`` if the references do not identify both sides; ``NotFound`` if one side does not exist;
    ``TooLarge`` if all deployments together would be larger than ``bytes_max``.
    """
    async with lineage.transaction() as within:
        revision = await find_named_revision(within.of(Kind.APPLICATION), application)
        if revision is None:
            raise NotFound(_NO_APPLICATION)
        environments = within.of(Kind.ENVIRONMENT)
        where = await find_named_revision(environments, environment)
        if where is None:
            raise NotFound(_NO_ENVIRONMENT)
        added = {key or f"{revision.artifact_slug}{KEY_SUFFIX}": _deployment(revision)}
        await environments.lock_variant(where.variant_id)  # of two deployments at once neither is lost
        newest = await environments.revision_of_variant(where.variant_id)
        data = json_text(with_deployments({} if newest is None else _data(newest), added))
        refuse_grown(data, bytes_max=bytes_max)
        await environments.commit(where.variant_id, Content(Header(), message, data=data))
    return revision


async def _default_key(applications: Lineage, named: References, *, word: str) -> str:
    artifact = named.artifact
    if artifact is None or not artifact.identifies:
        raise InvalidInput(f"Nothing says what is deployed there: give 'key' or {word}_ref.")
    if artifact.slug is not None:
        return f"{artifact.slug}{KEY_SUFFIX}"
    found = await applications.find_artifact(artifact)
    if found is None:
        raise InvalidInput(f"There is no {word} with the id '{artifact.id}'.")
    return f"{found.slug}{KEY_SUFFIX}"


async def _find_stored(applications: Lineage, stored: Mapping[str, Any], *, at: str) -> Revision | None:
    """Find the revision to which an environment refers. An error in these references is not one of the request's."""
    names = (APPLICATIONS.artifact, APPLICATIONS.variant, APPLICATIONS.revision)
    named = References(
        *(ReferenceIn.model_validate(stored[name]).value() if name in stored else None for name in names)
    )
    if named == References():
        return None
    try:
        return await find_named_revision(applications, named)
    except InvalidInput as exc:
        raise InvalidInput(f"What is stored under the key {at} leads to no revision: {exc.detail}") from exc


def _deployment(revision: Revision) -> dict[str, dict[str, str]]:
    """Return references as the reference stores them: the ids of artifact and variant, and the whole revision."""
    return {
        APPLICATIONS.artifact: {"id": str(revision.artifact_id)},
        APPLICATIONS.variant: {"id": str(revision.variant_id)},
        APPLICATIONS.revision: {"id": str(revision.id), "slug": revision.slug, "version": str(revision.version)},
    }


def _data(revision: Revision) -> dict[str, Any]:
    value: dict[str, Any] = {} if revision.data is None else orjson.loads(revision.data)
    return value
