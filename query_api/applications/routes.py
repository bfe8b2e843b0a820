"""The application routes: applications, variants, revisions, and simple applications (reference ``applications-api`` §4–§8.5)."""

from __future__ import annotations

from typing import Final

from query_api.applications import handlers as applications
from query_api.applications.models import (
    ApplicationAnswer,
    ApplicationsAnswer,
    ApplicationsQuestion,
    ChosenId,
    CommitRevision,
    CountedRevisionAnswer,
    CreateApplication,
    CreateRevision,
    CreateSimpleApplication,
    CreateVariant,
    EditApplication,
    EditRevision,
    EditSimpleApplication,
    EditVariant,
    ForkParameters,
    ForkVariant,
    LogRevisions,
    ResolveRevision,
    RetrievedAnswer,
    RetrieveRevision,
    RevertRevision,
    RevisionAnswer,
    RevisionParameters,
    RevisionsAnswer,
    RevisionsQuestion,
    SimpleApplicationAnswer,
    SimpleApplicationsAnswer,
    SimpleApplicationsQuestion,
    VariantAnswer,
    VariantsAnswer,
    VariantsParameters,
    VariantsQuestion,
)
from query_api.lineage.answered import DiffAnswer
from query_api.lineage.models import DiffParameters
from query_api.route import Route

# fmt: off
APPLICATIONS: Final = (
    Route("POST", "/applications", applications.artifacts.create, "Create an application", "Applications", ApplicationAnswer,
          body=CreateApplication, body_required=True, query=ChosenId),
    Route("POST", "/applications/query", applications.artifacts.query, "Ask for applications", "Applications", ApplicationsAnswer,
          body=ApplicationsQuestion),
    Route("GET",  "/applications/{application_id}", applications.artifacts.get, "One application", "Applications", ApplicationAnswer),
    Route("PUT",  "/applications/{application_id}", applications.artifacts.edit, "Change an application", "Applications",
          ApplicationAnswer, body=EditApplication, body_required=True),
    Route("POST", "/applications/{application_id}/archive", applications.artifacts.archive, "Archive an application",
          "Applications", ApplicationAnswer),
    Route("POST", "/applications/{application_id}/unarchive", applications.artifacts.unarchive, "Bring an application back",
          "Applications", ApplicationAnswer),
)
VARIANTS: Final = (
    Route("POST", "/applications/variants", applications.variants.create, "Create a variant", "Variants", VariantAnswer,
          body=CreateVariant, body_required=True),
    Route("POST", "/applications/variants/query", applications.query_variants, "Ask for variants", "Variants", VariantsAnswer,
          body=VariantsQuestion, query=VariantsParameters),
    Route("POST", "/applications/variants/fork", applications.variants.fork, "Fork a variant", "Variants", VariantAnswer,
          body=ForkVariant, body_required=True, query=ForkParameters),
    Route("GET",  "/applications/variants/{application_variant_id}", applications.variants.get, "One variant", "Variants", VariantAnswer),
    Route("PUT",  "/applications/variants/{application_variant_id}", applications.variants.edit, "Change a variant", "Variants",
          VariantAnswer, body=EditVariant, body_required=True),
    Route("POST", "/applications/variants/{application_variant_id}/archive", applications.variants.archive, "Archive a variant",
          "Variants", VariantAnswer),
    Route("POST", "/applications/variants/{application_variant_id}/unarchive", applications.variants.unarchive,
          "Bring a variant back", "Variants", VariantAnswer),
)
REVISIONS: Final = (
    Route("POST", "/applications/revisions", applications.revisions.create, "Create the first revision", "Revisions", RevisionAnswer,
          body=CreateRevision, body_required=True),
    Route("POST", "/applications/revisions/commit", applications.revisions.commit, "Commit a revision", "Revisions", RevisionAnswer,
          body=CommitRevision, body_required=True),
    Route("POST", "/applications/revisions/query", applications.revisions.query, "Ask for revisions", "Revisions", RevisionsAnswer,
          body=RevisionsQuestion),
    Route("POST", "/applications/revisions/log", applications.revisions.log, "The history of a variant", "Revisions", RevisionsAnswer,
          body=LogRevisions, body_required=True),
    Route("POST", "/applications/revisions/retrieve", applications.retrieve, "The revision that references name", "Revisions",
          RetrievedAnswer, body=RetrieveRevision),
    Route("POST", "/applications/revisions/resolve", applications.resolve, "The same, with what is embedded", "Revisions",
          RetrievedAnswer, body=ResolveRevision),
    Route("GET",  "/applications/revisions/diff", applications.revisions.diff, "What differs between two revisions", "Revisions",
          DiffAnswer, query=DiffParameters),
    Route("GET",  "/applications/revisions/{application_revision_id}", applications.revisions.get, "One revision", "Revisions",
          CountedRevisionAnswer, query=RevisionParameters),
    Route("PUT",  "/applications/revisions/{application_revision_id}", applications.revisions.edit, "Change what is written about a revision",
          "Revisions", RevisionAnswer, body=EditRevision, body_required=True),
    Route("POST", "/applications/revisions/{application_revision_id}/archive", applications.revisions.archive, "Archive a revision",
          "Revisions", RevisionAnswer),
    Route("POST", "/applications/revisions/{application_revision_id}/unarchive", applications.revisions.unarchive,
          "Bring a revision back", "Revisions", RevisionAnswer),
    Route("POST", "/applications/revisions/{application_revision_id}/revert", applications.revisions.revert,
          "Commit an older revision again", "Revisions", RevisionAnswer, body=RevertRevision),
)
SIMPLE_APPLICATIONS: Final = (
    Route("POST", "/simple/applications", applications.simple.create, "Create an application with a variant and data",
          "Simple applications", SimpleApplicationAnswer, body=CreateSimpleApplication, body_required=True, query=ChosenId),
    Route("POST", "/simple/applications/query", applications.simple.query, "Ask for applications and their data",
          "Simple applications", SimpleApplicationsAnswer, body=SimpleApplicationsQuestion),
    Route("GET",  "/simple/applications/{application_id}", applications.simple.get, "One application and its data",
          "Simple applications", SimpleApplicationAnswer),
    Route("PUT",  "/simple/applications/{application_id}", applications.simple.edit, "Change an application or its data",
          "Simple applications", SimpleApplicationAnswer, body=EditSimpleApplication, body_required=True),
    Route("POST", "/simple/applications/{application_id}/archive", applications.simple.archive, "Archive an application",
          "Simple applications", SimpleApplicationAnswer),
    Route("POST", "/simple/applications/{application_id}/unarchive", applications.simple.unarchive, "Bring an application back",
          "Simple applications", SimpleApplicationAnswer),
)
# fmt: on

APPLICATION_ROUTES: Final = (*APPLICATIONS, *VARIANTS, *REVISIONS, *SIMPLE_APPLICATIONS)
