"""A kind of history as a value: the models that it has on the wire, and its way to another process."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from common.children.child import encode, receive
from query_api.compat.workflows import WORKFLOW
from query_api.queries.revisions import APPLICATION_ROUTES, EVALUATOR_ROUTES
from query_api.queries.saved import QUERY, QUERY_ROUTES
from query_api.registry.applications import APPLICATION, EVALUATOR, ApplicationData
from query_api.registry.environments import ENVIRONMENT
from query_api.registry.kinds import APPLICATIONS, QUERIES, History
from query_api.registry.responses import RevisionOut
from query_api.registry.routes import ENVIRONMENT_ROUTES
from query_api.registry.schemas import (
    CommitRevision,
    CreateArtifact,
    CreateVariant,
    LogRevisions,
    ResolveRevision,
    VariantCreate,
)
from query_api.registry.wire_models import for_kind

KINDS = [APPLICATION, EVALUATOR, ENVIRONMENT, QUERY, WORKFLOW]
ROUTES = {
    "applications": APPLICATION_ROUTES,
    "evaluators": EVALUATOR_ROUTES,
    "environments": ENVIRONMENT_ROUTES,
    "queries": QUERY_ROUTES,
}
ONE, TWO = UUID(int=1), UUID(int=2)


def _named(kind: History) -> str:
    return kind.labels.artifact


@pytest.mark.parametrize("kind", KINDS, ids=_named)
def test_kind_survives_the_way_to_a_compute_process(kind: History) -> None:
    assert receive(BytesIO(b"".join(encode(kind)))) == kind


def test_derived_model_is_pickled_by_its_name() -> None:
    model = for_kind(CommitRevision, APPLICATION)
    body = model.model_validate({"application_revision": {"variant_id": str(ONE), "data": {"uri": "x"}}})

    assert pickle.loads(pickle.dumps(model)) is model
    assert pickle.loads(pickle.dumps(body)) == body


def test_members_have_the_names_of_the_kind_and_handlers_the_neutral_ones() -> None:
    body = for_kind(CommitRevision, QUERY).model_validate({"query_revision": {"query_variant_id": str(ONE)}})

    assert isinstance(body, CommitRevision)
    assert body.revision.variant_id == ONE


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"application_id": ONE, "workflow_id": TWO}, ONE),
        ({"application_id": None, "workflow_id": TWO, "artifact_id": ONE}, TWO),
        ({"artifact_id": TWO}, TWO),
        ({}, None),
    ],
)
def test_first_spelling_of_an_id_that_is_given_counts(sent: dict[str, Any], expected: UUID | None) -> None:
    variant = for_kind(VariantCreate, APPLICATION).model_validate({"slug": "v", **sent})

    assert variant.artifact_id == expected


def test_every_spelling_of_an_id_is_checked() -> None:
    with pytest.raises(ValidationError) as rejected:
        for_kind(CreateVariant, APPLICATION).model_validate(
            {"application_variant": {"slug": "v", "application_id": str(ONE), "workflow_id": "no id"}}
        )

    assert [error["loc"] for error in rejected.value.errors()] == [("application_variant", "workflow_id")]


def test_neutral_names_are_unknown_on_the_wire() -> None:
    with pytest.raises(ValidationError) as rejected:
        for_kind(LogRevisions, QUERY).model_validate({"query_revisions": {}, "revisions": {}})

    assert [(error["type"], error["loc"]) for error in rejected.value.errors()] == [("extra_forbidden", ("revisions",))]


def test_data_is_that_of_the_kind() -> None:
    body = for_kind(CommitRevision, APPLICATION).model_validate({"application_revision": {"data": {"uri": "x"}}})

    assert isinstance(body.revision.data, ApplicationData)


def test_revision_that_is_sent_to_be_resolved_may_have_the_members_of_a_response() -> None:
    model = for_kind(ResolveRevision, WORKFLOW)

    model.model_validate({"workflow_revision": {"data": {}, "workflow_variant_id": "x", "created_at": 1, "version": 2}})
    with pytest.raises(ValidationError):
        model.model_validate({"workflow_revision": {"data": {}, "application_id": str(ONE)}})


def test_response_has_ids_in_every_spelling() -> None:
    members = {"artifact_id": ONE, "variant_slug": "v", "id": TWO}

    assert APPLICATIONS.on_wire(members) == {
        "application_id": ONE,
        "workflow_id": ONE,
        "artifact_id": ONE,
        "application_variant_slug": "v",
        "workflow_variant_slug": "v",
        "variant_slug": "v",
        "id": TWO,
    }


@pytest.mark.parametrize("kind", KINDS, ids=_named)
def test_document_of_a_revision_names_every_member_of_a_response(kind: History) -> None:
    documented = for_kind(RevisionOut, kind).model_json_schema(by_alias=True)["properties"]

    neutral = [name for name in RevisionOut.model_fields if name != "flags"]
    assert set(kind.labels.on_wire(dict.fromkeys(neutral))) == set(documented) - {"flags"}
    assert ("flags" in documented) == (kind is not QUERY)


def test_descriptions_use_the_words_of_the_kind() -> None:
    assert QUERIES.in_words("An artifact. The artifact, of artifacts.") == (
        "A saved query. The saved query, of saved queries."
    )
    assert for_kind(CreateArtifact, APPLICATION).__doc__ == "Creates an application."


@pytest.mark.parametrize("kind", ROUTES)
def test_every_body_that_creates_something_has_an_example_that_is_valid(kind: str) -> None:
    paths = {f"/{kind}", f"/simple/{kind}", f"/{kind}/variants/fork", f"/{kind}/revisions/commit"}
    bodies = {route.path: route.body for route in ROUTES[kind] if route.method == "POST"}

    for path in paths:
        body = bodies[path]
        assert body is not None
        (example,) = body.model_json_schema()["examples"]
        body.model_validate(example, extra="forbid")
