from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from query_api.queries.saved import QUERY
from query_api.registry.applications import APPLICATION, ApplicationFlagsFilter
from query_api.registry.kinds import IdWindowing
from query_api.registry.searches import (
    ArtifactParameters,
    EntityFilter,
    QueryArtifacts,
    QueryRevisions,
    RevisionParameters,
    with_parameters,
)
from query_api.registry.wire_models import for_kind
from query_api.request.references import ReferenceIn

ONE, TWO = UUID(int=1), UUID(int=2)
PARAMETERS: Any = for_kind(ArtifactParameters, QUERY)
OF_APPLICATIONS: Any = for_kind(ArtifactParameters, APPLICATION)


def merged(body: dict[str, Any], parameters: dict[str, Any]) -> QueryArtifacts:
    return with_parameters(for_kind(QueryArtifacts, QUERY)(**body), PARAMETERS(**parameters))


def test_without_parameters_the_body_is_the_query() -> None:
    body = QueryArtifacts(include_archived=True)

    assert with_parameters(body, None) is body
    assert with_parameters(body, PARAMETERS()) == body


def test_ids_and_slugs_in_singular_and_plural_are_alternatives() -> None:
    parameters = {"query_id": [ONE], "query_ids": [TWO], "query_slug": ["a"], "query_slugs": ["b", "c"]}

    assert merged({}, parameters).artifact_refs == [
        *(ReferenceIn(id=id_) for id_ in (ONE, TWO)),
        *(ReferenceIn(slug=slug) for slug in "abc"),
    ]


def test_every_version_narrows_every_reference() -> None:
    parameters: Any = for_kind(RevisionParameters, QUERY)

    def refs(**given: Any) -> list[ReferenceIn] | None:
        return with_parameters(QueryRevisions(), parameters(**given)).revision_refs

    assert refs(query_revision_slug=["a"], query_revision_versions=["1", "2"]) == [
        ReferenceIn(slug="a", version="1"),
        ReferenceIn(slug="a", version="2"),
    ]
    assert refs(query_revision_version=["1"]) == [ReferenceIn(version="1")]


def test_filter_and_page_come_from_the_parameters_too() -> None:
    query = merged({}, {"name": "n", "tags": '{"a": "b"}', "limit": 3, "next": str(ONE), "include_archived": False})

    assert query.filter == EntityFilter(name="n", tags={"a": "b"})
    assert query.windowing == IdWindowing(limit=3, next=ONE)
    assert query.include_archived is False


def test_the_body_wins_member_by_member() -> None:
    query = merged({"query": {"name": "body"}}, {"name": "string", "description": "string", "limit": 3})

    assert query.filter is not None
    assert query.filter.model_dump(exclude_none=True) == {"name": "body"}
    assert query.windowing == IdWindowing(limit=3)


def test_flags_are_those_of_the_kind() -> None:
    assert OF_APPLICATIONS(flags='{"is_chat": true}').flags == ApplicationFlagsFilter(is_chat=True)
    for flags in ('{"is_chat": "maybe"}', '{"is_chat": true, "is_loud": true}'):
        with pytest.raises(ValidationError):
            OF_APPLICATIONS(flags=flags)


def test_a_kind_without_flags_rejects_every_flag() -> None:
    PARAMETERS(flags="{}")
    with pytest.raises(ValidationError):
        PARAMETERS(flags='{"is_chat": true}')


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": [{"b": -Infinity}]}', '{"a": 1e999}'])
def test_numbers_that_json_does_not_have_are_rejected_in_parameters(text: str) -> None:
    with pytest.raises(ValidationError, match="NaN and Infinity are not JSON") as rejected:
        PARAMETERS(meta=text)

    assert [(error["type"], error["loc"]) for error in rejected.value.errors()] == [("json_invalid", ("meta",))]


@pytest.mark.parametrize("text", ['{"is_chat": NaN}', '{"is_chat": true, "x": [-Infinity]}', '{"x": 1e999}'])
def test_numbers_that_json_does_not_have_are_rejected_in_flags(text: str) -> None:
    with pytest.raises(ValidationError, match="NaN and Infinity are not JSON") as rejected:
        OF_APPLICATIONS(flags=text)

    assert [(error["type"], error["loc"]) for error in rejected.value.errors()] == [("json_invalid", ("flags",))]
