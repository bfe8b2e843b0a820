"""The document describes every route, and holds together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import ValidationError

from query_api.http.openapi import TAGS, openapi_document
from query_api.http.routes import ROUTES
from query_api.intake.otlp import CONTENT_TYPES
from query_api.request.route import Access, Route

DOCUMENT = orjson.loads(orjson.dumps(openapi_document(ROUTES)))
IDS = [f"{route.method} {route.path}" for route in ROUTES]


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = DOCUMENT["paths"][route.path][route.method.lower()]
    return operation


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def test_document_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_reference_has_a_target() -> None:
    for reference in _references(DOCUMENT):
        node = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_every_schema_is_used() -> None:
    names = {reference.rpartition("/")[2] for reference in _references(DOCUMENT)}

    assert names >= DOCUMENT["components"]["schemas"].keys()


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_no_member_has_the_name_of_its_schema(name: str) -> None:
    """A generated class for `UserIds` would keep itself and its member in the variable `user_ids`."""
    own_name = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()

    assert own_name not in DOCUMENT["components"]["schemas"][name].get("properties", {})


def test_operation_ids_are_unique() -> None:
    ids = [_operation(route)["operationId"] for route in ROUTES]

    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
def test_route_is_described(route: Route) -> None:
    operation = _operation(route)

    for text in (operation["summary"], operation["description"]):
        assert text[0].isupper()
        assert text.endswith(".")
    assert operation["tags"] == [route.tag]
    assert (operation["security"] == []) is (route.access is Access.PUBLIC)


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
def test_placeholders_of_a_path_are_its_parameters(route: Route) -> None:
    parameters = [each["name"] for each in _operation(route).get("parameters", []) if each["in"] == "path"]

    assert parameters == [part[1:-1] for part in route.path.split("/") if part.startswith("{")]


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
def test_bodies_and_responses_are_described(route: Route) -> None:
    operation = _operation(route)

    assert ("requestBody" in operation) is (route.body is not None or bool(route.raw_body))
    assert route.content_type in operation["responses"][str(route.status)]["content"]
    if route.access is not Access.PUBLIC:
        assert {"400", "401", "429", "500", "503", "504"} <= set(operation["responses"])


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if "{" in route.path and not route.is_subtree], ids=lambda route: route.path
)
def test_response_to_an_unreadable_id_is_described(route: Route) -> None:
    assert "422" in _operation(route)["responses"]


def test_response_to_a_key_of_a_deleted_project_is_described() -> None:
    assert "404" in DOCUMENT["paths"]["/projects/current"]["get"]["responses"]


def test_readiness_is_described_for_both_outcomes() -> None:
    responses = DOCUMENT["paths"]["/readyz"]["get"]["responses"]

    assert responses["503"]["content"] == responses["200"]["content"]


@pytest.mark.parametrize("status", ["200", "400", "413", "429", "503", "504"])
def test_otlp_is_answered_in_the_encoding_of_the_request(status: str) -> None:
    response = DOCUMENT["paths"]["/otlp/v1/traces"]["post"]["responses"][status]

    assert set(response["content"]) == set(CONTENT_TYPES)


def test_otlp_reports_a_rejected_key_or_encoding_in_the_usual_format() -> None:
    responses = DOCUMENT["paths"]["/otlp/v1/traces"]["post"]["responses"]

    assert {status: responses[status] for status in ("401", "415", "500")} == {
        status: {"$ref": f"#/components/responses/{status}"} for status in ("401", "415", "500")
    }


def test_examples_are_valid() -> None:
    for route in ROUTES:
        schema = route.body.model_json_schema() if route.body is not None else {}
        for example in schema.get("examples", []):
            assert route.body is not None
            route.body.model_validate(example)


def test_flat_routes_take_a_filter_as_text_and_times_as_numbers() -> None:
    members = DOCUMENT["components"]["schemas"]["FlatQuery"]["properties"]

    assert {"type": "string"} in members["filter"]["anyOf"]
    for name in ("newest", "oldest"):
        assert {each.get("type") for each in members[name]["anyOf"]} == {"string", "integer", "null"}


@pytest.mark.parametrize("model", ["Windowing", "SavedWindowing", "ActivityWindowing", "IdWindowing"])
def test_bounds_of_a_window_are_times_or_numbers(model: str) -> None:
    members = DOCUMENT["components"]["schemas"][model]["properties"]

    for name in ("newest", "oldest"):
        assert {each.get("type") for each in members[name]["anyOf"]} == {"string", "number", "null"}


def test_resolve_returns_a_stored_revision_or_data_alone() -> None:
    [route] = [route for route in ROUTES if route.path == "/applications/revisions/resolve"]
    assert route.response is not None

    route.response.model_validate({"count": 1, "application_revision": {"data": {"parameters": {"a": None}}}})
    with pytest.raises(ValidationError):
        route.response.model_validate({"count": 1, "application_revision": {"slug": "neither"}})


def test_every_tag_has_a_description() -> None:
    assert {tag["name"] for tag in DOCUMENT["tags"]} == set(TAGS)
    assert all(tag["description"] for tag in DOCUMENT["tags"])
