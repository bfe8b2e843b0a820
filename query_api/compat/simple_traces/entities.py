"""The evaluator or application that a simple trace refers to: found, or created with the trace.

Source: reference ``workflows-evaluators-testsets`` §5 to §7.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from common.errors import InvalidInput, NotFound
from common.postgres.pool import UniqueViolation
from query_api.compat.simple_traces.families import TraceFamily
from query_api.compat.simple_traces.models import Json, SimpleReferences
from query_api.registry.applications import ApplicationData, Schemas
from query_api.registry.checks import find_named_revision, lineage_of, references_of, refuse_reserved
from query_api.registry.environments import DeployableRevisions, RetrieveDeployed
from query_api.registry.handlers import SimpleHandlers
from query_api.registry.kinds import History
from query_api.registry.responses import reference_members
from query_api.registry.schemas import SimpleCreate
from query_api.registry.store import Lineage, random_slug
from query_api.registry.values import Artifact, Kind, References, Revision
from query_api.request.references import Reference, ReferenceIn
from query_api.request.route import Request

FEEDBACK_URI: Final = "agenta:custom:feedback:v0"
"""What the clients of the reference take for an evaluator of feedback."""

TRIES_MAX: Final = 3


class EntityOfTrace(NamedTuple):
    """The revision that a trace refers to, and all references of the trace."""

    revision: Revision
    references: Json


async def entity_of(request: Request, family: TraceFamily, sent: SimpleReferences, *, schema: Json) -> EntityOfTrace:
    """Find the revision that references name. If its artifact does not exist, create it; its schema is ``schema``.

    Raises ``NotFound`` if only a variant or a revision does not exist, and ``InvalidInput`` for references that
    contradict each other, or that name nothing.
    """
    word, lineage = family.entity.labels.artifact, lineage_of(request, family.entity.labels.kind)
    named = _references(sent, word)
    environment = _references(sent, Kind.ENVIRONMENT)
    if word != Kind.APPLICATION or environment == References():
        if named == References():
            raise InvalidInput(
                f"{family.one}.references names no {word}: give `{word}`"
                + (", or `environment` and `selector.key`." if word == Kind.APPLICATION else ".")
            )
        revision = await _found_or_created(lineage, family.entity, named, schema)
        return EntityOfTrace(revision, _as_json({**sent.named, **reference_members(word, revision)}))
    body = RetrieveDeployed(
        artifact_ref=_reference(sent, word),
        variant_ref=_reference(sent, f"{word}_variant"),
        revision_ref=_reference(sent, f"{word}_revision"),
        environment_ref=sent.environment,
        environment_variant_ref=sent.environment_variant,
        environment_revision_ref=sent.environment_revision,
        key=(sent.selector or {}).get("key"),
    )
    deployed, info = await DeployableRevisions(family.entity).find_deployed(lineage, body)
    if deployed is None:
        raise NotFound(f"{family.one}.references: what is deployed there does not exist.")
    references = {**sent.named, **info["references"], **reference_members(word, deployed)}
    return EntityOfTrace(deployed, _as_json(references))


async def entity_of_stored(request: Request, family: TraceFamily, stored: Json) -> Revision | None:
    """Return the revision that the references of a stored trace name; ``None`` if there is none."""
    word = family.entity.labels.artifact
    references = SimpleReferences.model_validate(stored)
    named = _references(references, word)
    if named == References():
        return None
    return await find_named_revision(lineage_of(request, family.entity.labels.kind), named, word=word)


def schema_of(revision: Revision) -> str | None:
    """Return the schema of the outputs of a revision as JSON; ``None`` if it has none.

    Raises ``InvalidInput`` for a revision without data.
    """
    if revision.data is None:
        raise InvalidInput(
            f"Version {revision.version} of the evaluator '{revision.artifact_slug}' has no data, so it says nothing"
            " about annotations. Commit a revision with data."
        )
    outputs = (orjson.loads(revision.data).get("schemas") or {}).get("outputs")
    return None if outputs is None else orjson.dumps(outputs).decode()


async def _found_or_created(lineage: Lineage, history: History, named: References, schema: Json) -> Revision:
    """Find or create. If somebody else creates the same artifact meanwhile, find theirs."""
    word = history.labels.artifact
    for _ in range(TRIES_MAX):
        revision = await find_named_revision(lineage, named, word=word)
        if revision is not None:
            return revision
        await _refuse_half_known(lineage, named, word)
        try:
            return await _created(lineage, history, named.artifact, schema)
        except UniqueViolation:
            continue
    raise InvalidInput(f"The {word} was created and changed by others meanwhile: send the request again.")


async def _refuse_half_known(lineage: Lineage, named: References, word: str) -> None:
    """Raise unless nothing that is named exists, and a new artifact is all that the references may mean."""
    artifact = named.artifact or Reference()
    if named.variant not in (None, Reference()) or named.revision not in (None, Reference()):
        raise NotFound(f"There is no revision of {word} that these references name.")
    if artifact.id is not None and artifact.slug is None:
        raise NotFound(f"There is no {word} with the id '{artifact.id}' that has a revision.")
    known = await lineage.find(Artifact, Reference(None, artifact.slug)) if artifact.slug else None
    if known is None:
        return
    if artifact.id not in (None, known.id):
        raise InvalidInput(f"references.{word}.id is not the id of the {word} '{known.slug}', which is '{known.id}'.")
    if await lineage.revision_of_artifact(known.id) is None:
        raise NotFound(f"The {word} '{known.slug}' has no revision: commit one.")


async def _created(lineage: Lineage, history: History, artifact: Reference | None, schema: Json) -> Revision:
    """Create an artifact with the slug of a reference. Raises ``UniqueViolation``."""
    slug = (None if artifact is None else artifact.slug) or random_slug()
    refuse_reserved(slug)
    is_evaluator = history.role == "is_evaluator"
    data = ApplicationData(uri=FEEDBACK_URI, schemas=Schemas(outputs=schema)) if is_evaluator else None
    async with lineage.transaction() as transaction:
        sent = SimpleCreate(slug=slug, name=slug, data=data)
        created = await SimpleHandlers(history).create_in(transaction, sent)
        revision = await transaction.revision_of_artifact(created.id)
    assert revision is not None  # noqa: S101 - it was created in this transaction
    return revision


def _references(sent: SimpleReferences, word: str) -> References:
    """Return the references under one name; those without members are none."""
    layers = [_reference(sent, name) for name in (word, f"{word}_variant", f"{word}_revision")]
    return references_of(*layers)


def _reference(sent: SimpleReferences, name: str) -> ReferenceIn | None:
    reference: ReferenceIn | None = getattr(sent, name)
    return reference


def _as_json(members: dict[str, Any]) -> Json:
    as_json: Json = orjson.loads(orjson.dumps(members))
    return as_json
