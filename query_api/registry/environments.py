"""Environments as a kind of history: what is deployed under which key, deploying it, and retrieving it.

A deployment is a revision of the environment that refers to a revision of an application. So environments have a
history like everything else, which says what was deployed when. Source: reference ``applications-api`` §7.2, §7.3,
§7.5 and §7.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import orjson
from pydantic import Field

from common.errors import InvalidInput, NotFound
from query_api.registry.checks import find_named_revision, lineage_of, path_id, references_of, refuse_contradicting
from query_api.registry.kinds import (
    ENVIRONMENTS,
    FAMILIES,
    Delta,
    FlagsFilter,
    History,
    Labels,
    Loose,
    LooseReferenceIn,
    PerKind,
    RevisionData,
    RevisionFlags,
    Sample,
    json_text,
)
from query_api.registry.responses import one_response, reference_members, revision_response, simple_members
from query_api.registry.revision_handlers import RevisionHandlers, refuse_grown
from query_api.registry.schemas import ResolveOptions, RetrieveRevision
from query_api.registry.store import Lineage
from query_api.registry.values import Artifact, CommitTarget, Content, Header, Kind, References, Revision
from query_api.request.json_body import Listed, Named
from query_api.request.references import ReferenceIn, Text
from query_api.request.route import Request, Response

KEY_SUFFIX: Final = ".revision"
_KEY: Final = "The key of the deployment; by default the slug of the artifact, followed by `.revision`."
_NO_ENVIRONMENT: Final = "There is no revision of an environment that these references name."

Data: TypeAlias = Mapping[str, Any]

Deployment: TypeAlias = Named[Text, ReferenceIn]
"""References to one deployed revision: ``application``, ``application_variant``, ``application_revision``."""

Deployments: TypeAlias = Named[Annotated[Text, Field(min_length=1)], Deployment]
"""What is deployed, by key. The default key is the slug of the application, followed by ``.revision``."""


class EnvironmentData(RevisionData):
    """The data of an environment revision."""

    references: Deployments | None = None


class EnvironmentDelta(Delta):
    """A change of the newest references, key by key."""

    set: Deployments | None = Field(None, description="References to deploy under these keys; they replace older ones.")
    remove: Listed[Text] | None = Field(None, description="Keys to remove.")

    def applied_to(self, data: Data) -> dict[str, Any]:
        """Return the data with the change. Keys may hold dots, so they are not paths."""
        sent = self.model_dump(mode="json", exclude_none=True)
        return with_deployments(data, sent.get("set", {}), removed=sent.get("remove", ()))


class EnvironmentFlags(RevisionFlags):
    """Flags of an environment."""

    is_guarded: bool | None = Field(
        None, description="Set by `guard` and `unguard`. A mark for people, which prevents no change."
    )


class EnvironmentFlagsFilter(EnvironmentFlags, FlagsFilter):
    """Flags in a query: an unknown one is rejected."""


def deployments_of(data: Data) -> Mapping[str, Any]:
    """Return the references by key."""
    references: Mapping[str, Any] = data.get("references") or {}
    return references


def with_deployments(data: Data, added: Mapping[str, Any], *, removed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the data with ``added`` under its keys, and without the keys ``removed``."""
    gone = frozenset(removed)
    references = {key: value for key, value in {**deployments_of(data), **added}.items() if key not in gone}
    return {**data, "references": references}


ENVIRONMENT: Final = History(
    labels=ENVIRONMENTS,
    sample=Sample(
        slug="production",
        name="Production",
        data={
            "references": {
                "faq-bot.revision": {"application": {"slug": "faq-bot"}, "application_revision": {"version": "1"}}
            }
        },
    ),
    data=EnvironmentData,
    delta=EnvironmentDelta,
    role_flags=EnvironmentFlags,
    revision_flags=EnvironmentFlags,
    flags_filter=EnvironmentFlagsFilter,
)


async def guard(request: Request) -> Response:
    """Mark an environment as guarded. The mark is for people: it prevents no change."""
    return await _mark(request, is_guarded=True)


async def unguard(request: Request) -> Response:
    """Mark an environment as not guarded."""
    return await _mark(request, is_guarded=False)


async def _mark(request: Request, *, is_guarded: bool) -> Response:
    flags = EnvironmentFlags(is_guarded=is_guarded).stored()
    async with lineage_of(request, ENVIRONMENTS.kind).transaction() as lineage:
        marked = await lineage.edit_artifact(path_id(request), header=Header(), flags=flags, folder_id=None)
        simple = None if marked is None else await lineage.find_simple(marked.id)
    return one_response(ENVIRONMENTS.artifact, None if simple is None else simple_members(simple))


class RetrieveDeployed(RetrieveRevision):
    """References to the revision to retrieve: direct ones, or the environment to which it is deployed."""

    environment_ref: ReferenceIn | None = None
    environment_variant_ref: ReferenceIn | None = None
    environment_revision_ref: ReferenceIn | None = None
    key: Text | None = Field(None, description=_KEY)

    def environment(self) -> References:
        """Return the references to the environment."""
        return references_of(self.environment_ref, self.environment_variant_ref, self.environment_revision_ref)


class DeployRevision(Loose, PerKind):
    """The revision to deploy, and the environment. Both must exist."""

    environment_ref: LooseReferenceIn | None = None
    environment_variant_ref: LooseReferenceIn | None = None
    environment_revision_ref: LooseReferenceIn | None = None
    artifact_ref: LooseReferenceIn | None = None
    variant_ref: LooseReferenceIn | None = None
    revision_ref: LooseReferenceIn | None = None
    key: Text | None = Field(None, description=_KEY)
    message: Text | None = Field(None, description="The message of the commit to the environment.")


class DeployableRevisions(RevisionHandlers):
    """Revisions of a kind that can be deployed to environments."""

    async def retrieve(self, request: Request) -> Response:
        """Return the revision that references name, directly or by what is deployed to an environment.

        With an environment or a key in the body, it is the deployed revision.
        """
        body: RetrieveDeployed = request.body
        if body.environment() == References() and not body.key:
            return await super().retrieve(request)
        revision, info = await self.find_deployed(self._lineage(request), body)
        options = ResolveOptions() if body.resolve else None
        return await self._retrieved(request, revision, options, info=info)

    async def deploy(self, request: Request) -> Response:
        """Deploy a revision of an artifact to an environment, as a commit there. Returns the deployed revision."""
        body: DeployRevision = request.body
        named = references_of(body.artifact_ref, body.variant_ref, body.revision_ref)
        environment = references_of(body.environment_ref, body.environment_variant_ref, body.environment_revision_ref)
        async with lineage_of(request, Kind.ENVIRONMENT).transaction() as environments:
            revision = await find_named_revision(environments.of(self._labels.kind), named, word=self._labels.artifact)
            if revision is None:
                raise NotFound(f"There is no revision of {self._labels.one} that these references name.")
            where = await find_named_revision(environments, environment)
            if where is None:
                raise NotFound(_NO_ENVIRONMENT)
            added = {body.key or f"{revision.artifact_slug}{KEY_SUFFIX}": _deployment(self._labels, revision)}
            newest = await environments.lock_head(where.variant_id)  # of two deployments at once neither is lost
            data = json_text(with_deployments({} if newest is None else _data(newest), added))
            refuse_grown(data, bytes_max=request.context.settings.limits.body_bytes_max)
            await environments.commit(CommitTarget(where.variant_id), Content(Header(), body.message, data=data))
        return revision_response(self._labels, revision, with_slugs=True)

    async def find_deployed(self, lineage: Lineage, body: RetrieveDeployed) -> tuple[Revision | None, dict[str, Any]]:
        """Return what is deployed under the key, by default the key of the application, and what led to it.

        There is no revision if the stored references lead to nothing.

        Raises ``InvalidInput`` if a reference to the application does not match what is deployed, or if environment or
        key are not given; ``NotFound`` if the environment does not exist or has nothing under the key.
        """
        word, application = self._labels.artifact, body.references()
        key = body.key or await _default_key(lineage, application, word=word)
        where = await find_named_revision(lineage.of(Kind.ENVIRONMENT), body.environment())
        if where is None:
            raise NotFound(_NO_ENVIRONMENT)
        place = f"version {where.version} of '{where.artifact_slug}'"
        stored = deployments_of(_data(where)).get(key)
        if not stored:
            raise NotFound(f"Nothing is deployed under the key '{key}' in {place}.")
        revision = await _find_stored(lineage, stored, at=f"'{key}' in {place}")
        if revision is not None:
            refuse_contradicting(word, application, revision)
        return revision, {"references": reference_members(ENVIRONMENTS.artifact, where), "selector": {"key": key}}


async def _default_key(applications: Lineage, named: References, *, word: str) -> str:
    artifact = named.artifact
    if artifact is None or not artifact.identifies:
        raise InvalidInput(f"The deployment is not identified: give 'key' or {word}_ref.")
    if artifact.slug is not None:
        return f"{artifact.slug}{KEY_SUFFIX}"
    found = await applications.find(Artifact, artifact)
    if found is None:
        raise InvalidInput(f"There is no {word} with the id '{artifact.id}'.")
    return f"{found.slug}{KEY_SUFFIX}"


async def _find_stored(applications: Lineage, stored: Mapping[str, Any], *, at: str) -> Revision | None:
    """Find the revision to which an environment refers, under the names of whatever family it was deployed as.

    An error in these references is not one of the request's.
    """
    names = next((names for names in map(_names_of, FAMILIES) if any(name in stored for name in names)), ())
    named = References(
        *(ReferenceIn.model_validate(stored[name]).value() if name in stored else None for name in names)
    )
    if named == References():
        return None
    try:
        return await find_named_revision(applications, named)
    except InvalidInput as exc:
        raise InvalidInput(f"The references deployed under the key {at} identify no revision: {exc.detail}") from exc


def _names_of(labels: Labels) -> tuple[str, str, str]:
    return labels.artifact, labels.variant, labels.revision


def _deployment(labels: Labels, revision: Revision) -> dict[str, dict[str, str]]:
    """Return references as the reference stores them: the ids of artifact and variant, and the whole revision."""
    return {
        labels.artifact: {"id": str(revision.artifact_id)},
        labels.variant: {"id": str(revision.variant_id)},
        labels.revision: {"id": str(revision.id), "slug": revision.slug, "version": str(revision.version)},
    }


def _data(revision: Revision) -> dict[str, Any]:
    value: dict[str, Any] = {} if revision.data is None else orjson.loads(revision.data)
    return value
