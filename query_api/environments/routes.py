"""The environment routes, and deploying (reference ``applications-api`` §7.5 and §7.6)."""

from __future__ import annotations

from typing import Final

from query_api.applications.models import RevisionAnswer
from query_api.environments import handlers as environments
from query_api.environments.models import (
    ChosenEnvironmentId,
    CommitEnvironmentRevision,
    CreateEnvironment,
    CreateEnvironmentRevision,
    CreateEnvironmentVariant,
    CreateSimpleEnvironment,
    DeployApplication,
    EditEnvironment,
    EditEnvironmentRevision,
    EditEnvironmentVariant,
    EditSimpleEnvironment,
    EnvironmentAnswer,
    EnvironmentRetrievedAnswer,
    EnvironmentRevisionAnswer,
    EnvironmentRevisionsAnswer,
    EnvironmentsAnswer,
    EnvironmentVariantAnswer,
    EnvironmentVariantsAnswer,
    ForkEnvironmentVariant,
    LogEnvironmentRevisions,
    QueryEnvironmentRevisions,
    QueryEnvironments,
    QueryEnvironmentVariants,
    RetrieveEnvironmentRevision,
    SimpleEnvironmentAnswer,
    SimpleEnvironmentsAnswer,
)
from query_api.route import Route

# fmt: off
ENVIRONMENTS: Final = (
    Route("POST", "/environments", environments.artifacts.create, "Create an environment", "Environments", EnvironmentAnswer,
          body=CreateEnvironment, body_required=True, query=ChosenEnvironmentId),
    Route("POST", "/environments/query", environments.artifacts.query, "Ask for environments", "Environments", EnvironmentsAnswer,
          body=QueryEnvironments),
    Route("GET",  "/environments/{environment_id}", environments.artifacts.get, "One environment", "Environments", EnvironmentAnswer),
    Route("PUT",  "/environments/{environment_id}", environments.artifacts.edit, "Change an environment", "Environments",
          EnvironmentAnswer, body=EditEnvironment, body_required=True),
    Route("POST", "/environments/{environment_id}/archive", environments.artifacts.archive, "Archive an environment",
          "Environments", EnvironmentAnswer),
    Route("POST", "/environments/{environment_id}/unarchive", environments.artifacts.unarchive, "Bring an environment back",
          "Environments", EnvironmentAnswer),
)
VARIANTS: Final = (
    Route("POST", "/environments/variants", environments.variants.create, "Create a variant", "Environment variants",
          EnvironmentVariantAnswer, body=CreateEnvironmentVariant, body_required=True),
    Route("POST", "/environments/variants/query", environments.variants.query, "Ask for variants", "Environment variants",
          EnvironmentVariantsAnswer, body=QueryEnvironmentVariants),
    Route("POST", "/environments/variants/fork", environments.variants.fork, "Fork a variant", "Environment variants",
          EnvironmentVariantAnswer, body=ForkEnvironmentVariant, body_required=True),
    Route("GET",  "/environments/variants/{environment_variant_id}", environments.variants.get, "One variant",
          "Environment variants", EnvironmentVariantAnswer),
    Route("PUT",  "/environments/variants/{environment_variant_id}", environments.variants.edit, "Change a variant",
          "Environment variants", EnvironmentVariantAnswer, body=EditEnvironmentVariant, body_required=True),
    Route("POST", "/environments/variants/{environment_variant_id}/archive", environments.variants.archive, "Archive a variant",
          "Environment variants", EnvironmentVariantAnswer),
    Route("POST", "/environments/variants/{environment_variant_id}/unarchive", environments.variants.unarchive,
          "Bring a variant back", "Environment variants", EnvironmentVariantAnswer),
)
REVISIONS: Final = (
    Route("POST", "/environments/revisions", environments.revisions.create, "Create the first revision", "Environment revisions",
          EnvironmentRevisionAnswer, body=CreateEnvironmentRevision, body_required=True),
    Route("POST", "/environments/revisions/commit", environments.revisions.commit, "Commit a revision", "Environment revisions",
          EnvironmentRevisionAnswer, body=CommitEnvironmentRevision, body_required=True),
    Route("POST", "/environments/revisions/query", environments.revisions.query, "Ask for revisions", "Environment revisions",
          EnvironmentRevisionsAnswer, body=QueryEnvironmentRevisions),
    Route("POST", "/environments/revisions/log", environments.revisions.log, "The history of a variant", "Environment revisions",
          EnvironmentRevisionsAnswer, body=LogEnvironmentRevisions, body_required=True),
    Route("POST", "/environments/revisions/retrieve", environments.revisions.retrieve, "The revision that references name",
          "Environment revisions", EnvironmentRetrievedAnswer, body=RetrieveEnvironmentRevision),
    Route("GET",  "/environments/revisions/{environment_revision_id}", environments.revisions.get, "One revision",
          "Environment revisions", EnvironmentRevisionAnswer),
    Route("PUT",  "/environments/revisions/{environment_revision_id}", environments.revisions.edit,
          "Change what is written about a revision", "Environment revisions", EnvironmentRevisionAnswer,
          body=EditEnvironmentRevision, body_required=True),
    Route("POST", "/environments/revisions/{environment_revision_id}/archive", environments.revisions.archive, "Archive a revision",
          "Environment revisions", EnvironmentRevisionAnswer),
    Route("POST", "/environments/revisions/{environment_revision_id}/unarchive", environments.revisions.unarchive,
          "Bring a revision back", "Environment revisions", EnvironmentRevisionAnswer),
)
SIMPLE_ENVIRONMENTS: Final = (
    Route("POST", "/simple/environments", environments.simple.create, "Create an environment with a variant",
          "Simple environments", SimpleEnvironmentAnswer, body=CreateSimpleEnvironment, body_required=True, query=ChosenEnvironmentId),
    Route("POST", "/simple/environments/query", environments.simple.query, "Ask for environments and what is deployed there",
          "Simple environments", SimpleEnvironmentsAnswer, body=QueryEnvironments),
    Route("GET",  "/simple/environments/{environment_id}", environments.simple.get, "One environment and what is deployed there",
          "Simple environments", SimpleEnvironmentAnswer),
    Route("PUT",  "/simple/environments/{environment_id}", environments.simple.edit, "Change an environment or what is deployed there",
          "Simple environments", SimpleEnvironmentAnswer, body=EditSimpleEnvironment, body_required=True),
    Route("POST", "/simple/environments/{environment_id}/archive", environments.simple.archive, "Archive an environment",
          "Simple environments", SimpleEnvironmentAnswer),
    Route("POST", "/simple/environments/{environment_id}/unarchive", environments.simple.unarchive, "Bring an environment back",
          "Simple environments", SimpleEnvironmentAnswer),
)
DEPLOYING: Final = (
    Route("POST", "/applications/revisions/deploy", environments.deploy_application, "Deploy a revision to an environment",
          "Environments", RevisionAnswer, body=DeployApplication),
)
# fmt: on

ENVIRONMENT_ROUTES: Final = (*ENVIRONMENTS, *VARIANTS, *REVISIONS, *SIMPLE_ENVIRONMENTS, *DEPLOYING)
