"""The routes that every kind of history has, layer by layer, and those of environments.

Source: reference ``applications-api`` §4–§8, ``spans-api`` §9; diff and revert are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pydantic import BaseModel

from query_api.registry import responses, schemas, searches
from query_api.registry.environments import (
    ENVIRONMENT,
    DeployableRevisions,
    DeployRevision,
    guard,
    unguard,
)
from query_api.registry.handlers import ArtifactHandlers, SimpleHandlers, VariantHandlers
from query_api.registry.kinds import History, Labels
from query_api.registry.revision_handlers import RevisionHandlers
from query_api.registry.wire_models import for_kind
from query_api.request.route import Route

# fmt: off


_Handlers: TypeAlias = ArtifactHandlers | VariantHandlers | RevisionHandlers | SimpleHandlers


@dataclass(frozen=True, slots=True)
class _Layer:
    """The words and the models of a layer in the routes that every layer has."""

    one: str
    several: str
    create: type[BaseModel]
    edit: type[BaseModel]
    query: type[BaseModel]
    parameters: type[BaseModel]
    response: type[BaseModel]
    page: type[BaseModel]
    create_parameters: type[BaseModel] | None = None
    found: type[BaseModel] | None = None
    """The response to getting one, unless it is ``response``."""

    found_parameters: type[BaseModel] | None = None


_ARTIFACTS: Final = _Layer(
    "an artifact", "artifacts", schemas.CreateArtifact, schemas.EditArtifact,
    searches.QueryArtifacts, searches.ArtifactParameters, responses.ArtifactResponse, responses.ArtifactsResponse,
    schemas.ChosenId,
)
_VARIANTS: Final = _Layer(
    "a variant", "variants of artifacts", schemas.CreateVariant, schemas.EditVariant,
    searches.QueryVariants, searches.VariantParameters, responses.VariantResponse, responses.VariantsResponse,
)
_REVISIONS: Final = _Layer(
    "a revision", "revisions of artifacts", schemas.CreateRevision, schemas.EditRevision,
    searches.QueryRevisions, searches.RevisionParameters, responses.RevisionResponse, responses.RevisionsResponse,
)
_SIMPLE: Final = _Layer(
    "an artifact with data", "artifacts with data", schemas.CreateSimple, schemas.EditSimple,
    searches.QueryArtifacts, searches.ArtifactParameters, responses.SimpleResponse, responses.SimplesResponse,
    schemas.ChosenId,
)


def kind_routes(
    history: History,
    revisions: RevisionHandlers,
    *,
    found: type[BaseModel] | None = None,
    found_parameters: type[BaseModel] | None = None,
    retrieve: type[BaseModel] = schemas.RetrieveRevision,
    retrieved: type[BaseModel] = responses.RetrievedRevisionResponse,
) -> tuple[Route, ...]:
    """Return the routes of a kind. Getting and retrieving a revision may take and return more than in other kinds."""
    labels, every = history.labels, f"/{history.labels.artifacts}"
    variants, revision = VariantHandlers(history), replace(_REVISIONS, found=found, found_parameters=found_parameters)
    of_variants, of_revisions = f"{every}/variants", f"{every}/revisions"
    variants_tag, revisions_tag = f"{labels.artifact.title()} variants", _revisions_tag(labels)
    artifact_id, variant_id, revision_id = (
        labels.own_name(name) for name in ("artifact_id", "variant_id", "revision_id")
    )
    return in_kind(
        history,
        *_layer(_ARTIFACTS, ArtifactHandlers(history), labels.artifacts.title(), every, artifact_id),
        Route("POST", f"{of_variants}/fork", variants.fork, "Fork a variant.", variants_tag, responses.VariantResponse,
              body=schemas.ForkVariant, body_required=True, query=schemas.ForkParameters, ignores_unknown=True),
        *_layer(_VARIANTS, variants, variants_tag, of_variants, variant_id),
        Route("POST", f"{of_revisions}/commit", revisions.commit, "Commit a revision.", revisions_tag,
              responses.RevisionResponse, body=schemas.CommitRevision, body_required=True, ignores_unknown=True),
        Route("POST", f"{of_revisions}/retrieve", revisions.retrieve, "Retrieve a revision by references.",
              revisions_tag, retrieved, body=retrieve),
        Route("POST", f"{of_revisions}/log", revisions.log, "Get the log of a variant.", revisions_tag,
              responses.RevisionsResponse, body=schemas.LogRevisions, body_required=True),
        Route("GET", f"{of_revisions}/diff", revisions.diff, "Compare two revisions.", revisions_tag,
              responses.DiffResponse, query=schemas.DiffParameters),
        Route("POST", f"{of_revisions}/{{{revision_id}}}/revert", revisions.revert, "Commit an older revision again.",
              revisions_tag, responses.RevisionResponse, body=schemas.RevertRevision, ignores_unknown=True),
        *_layer(revision, revisions, revisions_tag, of_revisions, revision_id),
        *_layer(_SIMPLE, SimpleHandlers(history), f"Simple {labels.artifacts}", f"/simple{every}", artifact_id),
    )


def in_kind(history: History, *routes: Route) -> tuple[Route, ...]:
    """Return the routes with the models and the words of a kind in place of the neutral ones."""
    return tuple(_in_kind(history, route) for route in routes)


def _in_kind(history: History, route: Route) -> Route:
    description = " ".join((route.handler.__doc__ or "").split("\n\n", maxsplit=1)[0].split())
    return replace(
        route,
        is_in_postgres=True,
        summary=history.labels.in_words(route.summary),
        description=history.labels.in_words(description),
        response=None if route.response is None else for_kind(route.response, history),
        body=None if route.body is None else for_kind(route.body, history),
        query=None if route.query is None else for_kind(route.query, history),
    )


def _layer(
    layer: _Layer, handlers: _Handlers, tag: str, every: str, id_name: str
) -> tuple[Route, ...]:
    """Return the routes that every layer has. ``id_name`` is the name of the id in the path."""
    one, response = f"{every}/{{{id_name}}}", layer.response
    return (
        Route("POST", every, handlers.create, f"Create {layer.one}.", tag, response,
              body=layer.create, body_required=True, query=layer.create_parameters, ignores_unknown=True),
        Route("POST", f"{every}/query", handlers.query, f"Query {layer.several}.", tag, layer.page,
              body=layer.query, query=layer.parameters),
        Route("GET", one, handlers.get, f"Get {layer.one}.", tag, layer.found or response,
              query=layer.found_parameters),
        Route("PUT", one, handlers.edit, f"Edit {layer.one}.", tag, response,
              body=layer.edit, body_required=True, ignores_unknown=True),
        Route("POST", f"{one}/archive", handlers.archive, f"Archive {layer.one}.", tag, response),
        Route("POST", f"{one}/unarchive", handlers.unarchive, f"Restore {layer.one}.", tag, response),
    )


def resolving_route(history: History, handlers: RevisionHandlers, *, tag: str = "") -> Route:
    """Return the route that resolves embedded references, for kinds whose data may hold some."""
    path, tag = f"/{history.labels.artifacts}/revisions/resolve", tag or _revisions_tag(history.labels)
    return _in_kind(history, Route("POST", path, handlers.resolve, "Resolve embedded references.", tag,
                                   responses.ResolvedRevisionResponse, body=schemas.ResolveRevision))


def checking_route(history: History, handlers: RevisionHandlers) -> Route:
    """Return the route that says what a commit would change, for kinds whose data may have a schema."""
    path, tag = f"/{history.labels.artifacts}/revisions/check", _revisions_tag(history.labels)
    return _in_kind(history, Route("POST", path, handlers.check, "Check a revision before it is committed.", tag,
                                   responses.CheckResponse, body=schemas.CheckRevision, body_required=True))


def deploying_route(history: History, handlers: DeployableRevisions) -> Route:
    """Return the route that deploys a revision to an environment."""
    path = f"/{history.labels.artifacts}/revisions/deploy"
    return _in_kind(history, Route("POST", path, handlers.deploy, "Deploy a revision to an environment.",
                                   "Environments", responses.RevisionResponse, body=DeployRevision,
                                   ignores_unknown=True))


def _revisions_tag(labels: Labels) -> str:
    return f"{labels.artifact.title()} revisions"


_ENVIRONMENT_REVISIONS: Final = RevisionHandlers(ENVIRONMENT)
_ONE: Final = "/simple/environments/{environment_id}"

ENVIRONMENT_ROUTES: Final = (
    *kind_routes(ENVIRONMENT, _ENVIRONMENT_REVISIONS),
    resolving_route(ENVIRONMENT, _ENVIRONMENT_REVISIONS),
    *in_kind(
        ENVIRONMENT,
        Route("POST", f"{_ONE}/guard", guard, "Mark an environment as guarded.", "Simple environments",
              responses.SimpleResponse),
        Route("POST", f"{_ONE}/unguard", unguard, "Mark an environment as not guarded.", "Simple environments",
              responses.SimpleResponse),
    ),
)
# fmt: on
