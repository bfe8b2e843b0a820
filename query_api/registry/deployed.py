"""What is deployed in an environment under a key, and how it gets there (reference ``applications-api`` §7.3 and §7.5).

A deployment is a revision of the environment that refers to a revision of an application: environments have a history like
everything else, so what was deployed when can be read from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from common.errors import InvalidInput, NotFound
from query_api.registry.answers import reference_members
from query_api.registry.commits import refuse_grown
from query_api.registry.deployments import deployments_of, with_deployments
from query_api.registry.models import json_text
from query_api.registry.names import APPLICATIONS, ENVIRONMENTS
from query_api.registry.references import find_named_revision, refuse_contradicting
from query_api.registry.store import Lineage
from query_api.registry.values import Content, Header, Kind, References, Revision
from query_api.request.references import Reference, ReferenceIn

KEY_SUFFIX: Final = ".revision"


class Deployed(NamedTuple):
    """What an environment says under a key. ``revision`` is ``None`` where it refers to something that is not there."""

    revision: Revision | None
    environment: Revision
    key: str

    @property
    def info(self) -> dict[str, Any]:
        """What led to the revision, for ``retrieval_info``: the references of the environment, and the key."""
        return {"references": reference_members(ENVIRONMENTS, self.environment), "selector": {"key": self.key}}


async def find_deployed(
    lineage: Lineage, *, environment: References, application: References, key: str | None, word: str
) -> Deployed:
    """What is deployed under ``key``, by default that of the application, which the request calls ``word``.

    Everything that is said of the application has to be true of what is deployed. Raises ``InvalidInput`` where it is not, and where
    environment or key are not said; ``NotFound`` where the environment is not there, or nothing is deployed under the key.
    """
    key = key or await _default_key(lineage.of(Kind.APPLICATION), application, word=word)
    where = await find_named_revision(lineage.of(Kind.ENVIRONMENT), environment)
    if where is None:
        raise NotFound("There is no revision of an environment that these references name.")
    stored = deployments_of(_data(where)).get(key)
    if not stored:
        raise NotFound(f"Nothing is deployed under the key '{key}' in {_told(where)}.")
    revision = await _find_stored(
        lineage.of(Kind.APPLICATION), _stored_references(stored), at=f"'{key}' in {_told(where)}"
    )
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
    """Deploy a revision of an application: a commit on the environment. Returns the deployed revision.

    Raises ``InvalidInput`` where one side is not said, or not enough; ``NotFound`` where it is not there; ``TooLarge`` where all
    that is deployed would be more than ``bytes_max``.
    """
    async with lineage.transaction() as within:
        what = await find_named_revision(within.of(Kind.APPLICATION), application)
        if what is None:
            raise NotFound("There is no revision of an application that these references name.")
        where = await find_named_revision(within.of(Kind.ENVIRONMENT), environment)
        if where is None:
            raise NotFound("There is no revision of an environment that these references name.")
        under = key or f"{what.artifact_slug}{KEY_SUFFIX}"
        environments = within.of(Kind.ENVIRONMENT)
        data = await _deployed_there(environments, where.variant_id, {under: _deployment(what)})
        refuse_grown(data, bytes_max=bytes_max)
        await environments.commit(where.variant_id, Content(Header(), message, data=data))
    return what


async def _deployed_there(environments: Lineage, variant_id: UUID, added: Mapping[str, Any]) -> str | None:
    """What is deployed with what is ``added``. The head is read under the lock of the variant: of two deployments neither is lost."""
    await environments.lock_variant(variant_id)
    head = await environments.revision_of_variant(variant_id)
    return json_text(with_deployments({} if head is None else _data(head), added))


async def _default_key(applications: Lineage, named: References, *, word: str) -> str:
    artifact = named.artifact
    if artifact is None or not artifact.identifies:
        raise InvalidInput(f"Say what is deployed there: give 'key' or {word}_ref.")
    if artifact.slug is not None:
        return f"{artifact.slug}{KEY_SUFFIX}"
    found = await applications.find_artifact(artifact)
    if found is None:
        raise InvalidInput(f"There is no {word} with the id '{artifact.id}'.")
    return f"{found.slug}{KEY_SUFFIX}"


async def _find_stored(applications: Lineage, named: References, *, at: str) -> Revision | None:
    """What an environment refers to ``at`` a key. What is wrong with these references is not the fault of those in the request."""
    if named == References():
        return None
    try:
        return await find_named_revision(applications, named)
    except InvalidInput as exc:
        raise InvalidInput(f"What is stored under the key {at} leads to no revision: {exc.detail}") from exc


def _told(environment: Revision) -> str:
    return f"version {environment.version} of '{environment.artifact_slug}'"


def _deployment(revision: Revision) -> dict[str, dict[str, str]]:
    """As the reference stores it: slugs of application and variant can be looked up, the revision is said in full."""
    return {
        APPLICATIONS.artifact: {"id": str(revision.artifact_id)},
        APPLICATIONS.variant: {"id": str(revision.variant_id)},
        APPLICATIONS.revision: {"id": str(revision.id), "slug": revision.slug, "version": str(revision.version)},
    }


def _stored_references(stored: Mapping[str, Any]) -> References:
    names = (APPLICATIONS.artifact, APPLICATIONS.variant, APPLICATIONS.revision)
    return References(*(_stored_reference(stored[name]) if name in stored else None for name in names))


def _stored_reference(stored: Mapping[str, Any]) -> Reference:
    return ReferenceIn.model_validate(stored).value()


def _data(revision: Revision) -> dict[str, Any]:
    value: dict[str, Any] = {} if revision.data is None else orjson.loads(revision.data)
    return value
