"""The routes that every kind of history has, layer by layer, and those of environments.

Source: reference ``applications-api`` §4–§8, ``spans-api`` §9; diff and revert are ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import BaseModel

from query_api.registry.applications import APPLICATION
from query_api.registry.deployments import DeployApplication, deploy_application
from query_api.registry.environments import ENVIRONMENT, guard, unguard
from query_api.registry.handlers import ArtifactHandlers, SimpleHandlers, VariantHandlers
from query_api.registry.kinds import History, for_kind
from query_api.registry.labels import Labels
from query_api.registry.responses import (
    ArtifactResponse,
    ArtifactsResponse,
    DiffResponse,
    ResolvedRevisionResponse,
    RetrievedRevisionResponse,
    RevisionResponse,
    RevisionsResponse,
    SimpleResponse,
    SimplesResponse,
    VariantResponse,
    VariantsResponse,
)
from query_api.registry.revision_handlers import RevisionHandlers
from query_api.registry.schemas import (
    ChosenId,
    CommitRevision,
    CreateArtifact,
    CreateRevision,
    CreateSimple,
    CreateVariant,
    DiffParameters,
    EditArtifact,
    EditRevision,
    EditSimple,
    EditVariant,
    ForkParameters,
    ForkVariant,
    LogRevisions,
    ResolveRevision,
    RetrieveRevision,
    RevertRevision,
)
from query_api.registry.searches import (
    ArtifactParameters,
    QueryArtifacts,
    QueryRevisions,
    QueryVariants,
    RevisionParameters,
    VariantParameters,
)
from query_api.request.route import Route


def kind_routes(
    history: History,
    revisions: RevisionHandlers,
    *,
    found: type[BaseModel] = RevisionResponse,
    found_parameters: type[BaseModel] | None = None,
    retrieve: type[BaseModel] = RetrieveRevision,
    retrieved: type[BaseModel] = RetrievedRevisionResponse,
) -> tuple[Route, ...]:
    """Return the routes of a kind. Getting and retrieving a revision may take and return more than in other kinds."""
    return in_kind(
        history,
        *_artifacts(history.labels, ArtifactHandlers(history)),
        *_variants(history.labels, VariantHandlers(history)),
        *_revisions(history.labels, revisions),
        *_found_revisions(history.labels, revisions, found, found_parameters, retrieve, retrieved),
        *_simple(history.labels, SimpleHandlers(history)),
    )


def in_kind(history: History, *routes: Route) -> tuple[Route, ...]:
    """Return the routes with the models and the words of a kind in place of the neutral ones."""
    return tuple(_in_kind(history, route) for route in routes)


def _in_kind(history: History, route: Route) -> Route:
    description = " ".join((route.handler.__doc__ or "").split("\n\n", maxsplit=1)[0].split())
    return replace(
        route,
        summary=history.labels.in_words(route.summary),
        description=history.labels.in_words(description),
        response=None if route.response is None else for_kind(route.response, history),
        body=None if route.body is None else for_kind(route.body, history),
        query=None if route.query is None else for_kind(route.query, history),
    )


# fmt: off
def _artifacts(labels: Labels, handlers: ArtifactHandlers) -> tuple[Route, ...]:
    tag, every = labels.artifacts.title(), f"/{labels.artifacts}"
    one = f"{every}/{{{labels.own_name('artifact_id')}}}"
    return (
        Route("POST", every, handlers.create, "Create an artifact.", tag, ArtifactResponse,
              body=CreateArtifact, body_required=True, query=ChosenId, ignores_unknown=True),
        Route("POST", f"{every}/query", handlers.query, "Query artifacts.", tag, ArtifactsResponse,
              body=QueryArtifacts, query=ArtifactParameters),
        Route("GET", one, handlers.get, "Get an artifact.", tag, ArtifactResponse),
        Route("PUT", one, handlers.edit, "Edit an artifact.", tag, ArtifactResponse,
              body=EditArtifact, body_required=True, ignores_unknown=True),
        Route("POST", f"{one}/archive", handlers.archive, "Archive an artifact.", tag, ArtifactResponse),
        Route("POST", f"{one}/unarchive", handlers.unarchive, "Restore an artifact.", tag, ArtifactResponse),
    )


def _variants(labels: Labels, handlers: VariantHandlers) -> tuple[Route, ...]:
    tag, every = _layer_tag(labels, "variants"), f"/{labels.artifacts}/variants"
    one = f"{every}/{{{labels.own_name('variant_id')}}}"
    return (
        Route("POST", every, handlers.create, "Create a variant of an artifact.", tag, VariantResponse,
              body=CreateVariant, body_required=True, ignores_unknown=True),
        Route("POST", f"{every}/query", handlers.query, "Query variants of artifacts.", tag, VariantsResponse,
              body=QueryVariants, query=VariantParameters),
        Route("POST", f"{every}/fork", handlers.fork, "Fork a variant.", tag, VariantResponse,
              body=ForkVariant, body_required=True, query=ForkParameters, ignores_unknown=True),
        Route("GET", one, handlers.get, "Get a variant.", tag, VariantResponse),
        Route("PUT", one, handlers.edit, "Edit a variant.", tag, VariantResponse,
              body=EditVariant, body_required=True, ignores_unknown=True),
        Route("POST", f"{one}/archive", handlers.archive, "Archive a variant.", tag, VariantResponse),
        Route("POST", f"{one}/unarchive", handlers.unarchive, "Restore a variant.", tag, VariantResponse),
    )


def _revisions(labels: Labels, handlers: RevisionHandlers) -> tuple[Route, ...]:
    tag, every = _layer_tag(labels, "revisions"), f"/{labels.artifacts}/revisions"
    one = f"{every}/{{{labels.own_name('revision_id')}}}"
    return (
        Route("POST", every, handlers.create, "Create the first revision.", tag, RevisionResponse,
              body=CreateRevision, body_required=True, ignores_unknown=True),
        Route("POST", f"{every}/commit", handlers.commit, "Commit a revision.", tag, RevisionResponse,
              body=CommitRevision, body_required=True, ignores_unknown=True),
        Route("POST", f"{every}/query", handlers.query, "Query revisions of artifacts.", tag, RevisionsResponse,
              body=QueryRevisions, query=RevisionParameters),
        Route("POST", f"{every}/log", handlers.log, "Get the log of a variant.", tag, RevisionsResponse,
              body=LogRevisions, body_required=True),
        Route("GET", f"{every}/diff", handlers.diff, "Compare two revisions.", tag, DiffResponse, query=DiffParameters),
        Route("PUT", one, handlers.edit, "Edit a revision.", tag, RevisionResponse,
              body=EditRevision, body_required=True, ignores_unknown=True),
        Route("POST", f"{one}/archive", handlers.archive, "Archive a revision.", tag, RevisionResponse),
        Route("POST", f"{one}/unarchive", handlers.unarchive, "Restore a revision.", tag, RevisionResponse),
        Route("POST", f"{one}/revert", handlers.revert, "Commit an older revision again.", tag, RevisionResponse,
              body=RevertRevision, ignores_unknown=True),
    )


def _found_revisions(
    labels: Labels,
    handlers: RevisionHandlers,
    found: type[BaseModel],
    found_parameters: type[BaseModel] | None,
    retrieve: type[BaseModel],
    retrieved: type[BaseModel],
) -> tuple[Route, ...]:
    tag, every = _layer_tag(labels, "revisions"), f"/{labels.artifacts}/revisions"
    return (
        Route("POST", f"{every}/retrieve", handlers.retrieve, "Retrieve a revision by references.", tag, retrieved,
              body=retrieve),
        Route("GET", f"{every}/{{{labels.own_name('revision_id')}}}", handlers.get, "Get a revision.", tag, found,
              query=found_parameters),
    )


def resolving_route(history: History, handlers: RevisionHandlers, *, tag: str = "") -> Route:
    """Return the route that resolves embedded references, for kinds whose data may hold some."""
    path, tag = f"/{history.labels.artifacts}/revisions/resolve", tag or _layer_tag(history.labels, "revisions")
    return _in_kind(history, Route("POST", path, handlers.resolve, "Resolve embedded references.", tag,
                                   ResolvedRevisionResponse, body=ResolveRevision))


def _simple(labels: Labels, handlers: SimpleHandlers) -> tuple[Route, ...]:
    tag, every = f"Simple {labels.artifacts}", f"/simple/{labels.artifacts}"
    one = f"{every}/{{{labels.own_name('artifact_id')}}}"
    return (
        Route("POST", every, handlers.create, "Create an artifact with data.", tag, SimpleResponse,
              body=CreateSimple, body_required=True, query=ChosenId, ignores_unknown=True),
        Route("POST", f"{every}/query", handlers.query, "Query artifacts with data.", tag, SimplesResponse,
              body=QueryArtifacts, query=ArtifactParameters),
        Route("GET", one, handlers.get, "Get an artifact with data.", tag, SimpleResponse),
        Route("PUT", one, handlers.edit, "Edit an artifact or its data.", tag, SimpleResponse,
              body=EditSimple, body_required=True, ignores_unknown=True),
        Route("POST", f"{one}/archive", handlers.archive, "Archive an artifact.", tag, SimpleResponse),
        Route("POST", f"{one}/unarchive", handlers.unarchive, "Restore an artifact.", tag, SimpleResponse),
    )


def _layer_tag(labels: Labels, layer: str) -> str:
    return f"{labels.artifact.title()} {layer}"


_REVISIONS: Final = RevisionHandlers(ENVIRONMENT)
_ONE: Final = "/simple/environments/{environment_id}"

ENVIRONMENT_ROUTES: Final = (
    *kind_routes(ENVIRONMENT, _REVISIONS),
    resolving_route(ENVIRONMENT, _REVISIONS),
    *in_kind(
        ENVIRONMENT,
        Route("POST", f"{_ONE}/guard", guard, "Mark an environment as guarded.", "Simple environments", SimpleResponse),
        Route("POST", f"{_ONE}/unguard", unguard, "Mark an environment as not guarded.", "Simple environments",
              SimpleResponse),
    ),
    Route("POST", "/applications/revisions/deploy", deploy_application, "Deploy a revision to an environment.",
          "Environments",
          for_kind(RevisionResponse, APPLICATION), body=DeployApplication, ignores_unknown=True),
)
# fmt: on
