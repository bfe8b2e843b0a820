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


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


def _member_name(schema: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", schema).lower()


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = DOCUMENT["paths"][route.path][route.method.lower()]
    return operation


def _is_described(route: Route) -> bool:
    operation = _operation(route)
    texts = (operation["summary"], operation["description"])
    return (
        all(text[0].isupper() and text.endswith(".") for text in texts)
        and operation["tags"] == [route.tag]
        and (operation["security"] == []) is (route.access is Access.PUBLIC)
    )


def _path_parameters(route: Route) -> list[str]:
    return [each["name"] for each in _operation(route).get("parameters", []) if each["in"] == "path"]


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


def test_no_member_has_the_name_of_its_schema() -> None:
    """A generated class for `UserIds` would keep itself and its member in the variable `user_ids`."""
    schemas = DOCUMENT["components"]["schemas"]

    assert [name for name in schemas if _member_name(name) in schemas[name].get("properties", {})] == []


def test_operation_ids_are_unique() -> None:
    ids = [_operation(route)["operationId"] for route in ROUTES]

    assert len(ids) == len(set(ids))


def test_routes_are_described() -> None:
    assert [_name(route) for route in ROUTES if not _is_described(route)] == []


def test_placeholders_of_a_path_are_its_parameters() -> None:
    assert {_name(route): _path_parameters(route) for route in ROUTES} == {
        _name(route): [part[1:-1] for part in route.path.split("/") if part.startswith("{")] for route in ROUTES
    }


def test_bodies_are_described() -> None:
    assert {_name(route) for route in ROUTES if "requestBody" in _operation(route)} == {
        _name(route) for route in ROUTES if route.body is not None or route.raw_body
    }


def test_responses_are_described() -> None:
    assert [
        _name(route)
        for route in ROUTES
        if route.content_type not in _operation(route)["responses"][str(route.status)]["content"]
    ] == []


def test_errors_of_routes_with_a_key_are_described() -> None:
    errors = {"400", "401", "429", "500", "503", "504"}

    assert {
        _name(route): missing
        for route in ROUTES
        if route.access is not Access.PUBLIC and (missing := errors - _operation(route)["responses"].keys())
    } == {}


def test_responses_to_unreadable_ids_are_described() -> None:
    assert [
        _name(route)
        for route in ROUTES
        if "{" in route.path and not route.is_subtree and "422" not in _operation(route)["responses"]
    ] == []


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


def test_ids_of_histories_are_uuids() -> None:
    ids = {
        parameter["name"]: parameter["schema"].get("format")
        for route in ROUTES
        if route.is_in_postgres
        for parameter in DOCUMENT["paths"][route.path][route.method.lower()].get("parameters", [])
        if parameter["in"] == "path"
    }

    assert len(ids) >= 12
    assert set(ids.values()) == {"uuid"}
