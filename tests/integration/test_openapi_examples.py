"""The API accepts the requests that the OpenAPI document shows, and answers as it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import jsonschema_rs
import orjson
import pytest

from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.freshness.headers import WAIT_FOR_HEADER
from query_api.http import openapi
from query_api.http.openapi import Example, all_examples, openapi_document
from query_api.http.routes import ROUTES
from query_api.request.route import Access, Route
from tests.support.example_data import store_example_data
from tests.support.shell_pages import api_of_a_page

FILE: Final = Path(openapi.__file__).with_name(openapi.FILE)
DOCUMENT: Final = orjson.loads(orjson.dumps(openapi_document(ROUTES)))
DESCRIBED: Final = {
    name: {"additionalProperties": False, **schema} if "properties" in schema else schema
    for name, schema in DOCUMENT["components"]["schemas"].items()
}
"""The schemas, such that a member that they do not describe is an error."""

STATUS: Final = {f"{route.method} {route.path}": str(route.status) for route in ROUTES}


async def test_requests_are_accepted_and_responses_have_the_shape_of_the_examples(
    database: Database,
    chdb_dir: Path,
    chdb_settings: Callable[[], ClickHouseSettings],
    pytestconfig: pytest.Config,
) -> None:
    async with (
        api_of_a_page(database, chdb_settings(), data_dir=chdb_dir) as address,
        aiohttp.ClientSession(address) as client,
    ):
        client.headers[WAIT_FOR_HEADER] = await store_example_data(client)
        answered = {name: await _answer(client, name, example) for name, example in all_examples().items()}

    shown = {name: example.response for name, example in all_examples().items()}
    different = [name for name in shown if _shape(shown[name]) != _shape(answered[name])]
    if pytestconfig.getoption("--rewrite-golden"):
        _rewrite({name: answered[name] for name in different})
        different = []
    assert not different, {name: (shown[name], answered[name]) for name in different}
    for name, body in answered.items():
        _schema_of_response(name).validate(body)


@pytest.mark.parametrize("name", all_examples())
def test_example_matches_the_schemas_of_its_route(name: str) -> None:
    example = all_examples()[name]

    _schema_of_response(name).validate(example.response)
    if example.request is not None:
        _validator(_operation(name)["requestBody"]["content"]["application/json"]["schema"]).validate(example.request)


@pytest.mark.parametrize(
    "route",
    [
        route
        for route in ROUTES
        if (route.path.endswith("/query") or route.tag == "Analytics" or (route.reads_spans and route.method == "GET"))
        and route.response is not None
        and route.access is Access.PROJECT
    ],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_route_that_queries_has_an_example(route: Route) -> None:
    name = f"{route.method} {route.path}"

    assert name in all_examples(), f"add its request to {FILE.name}, and run make golden"
    assert (all_examples()[name].request is None) is (route.body is None)
    assert "example" in _operation(name)["responses"][STATUS[name]]["content"]["application/json"]


async def _answer(client: aiohttp.ClientSession, name: str, example: Example) -> Any:
    """Send the request of an example and return the response."""
    method, path = name.split(" ")
    in_path = [each for each in example.parameters if f"{{{each}}}" in path]
    url = path.format_map(example.parameters)
    query = {each: value for each, value in example.parameters.items() if each not in in_path}
    async with client.request(method, url, params=query, json=example.request) as response:
        assert str(response.status) == STATUS[name], (name, await response.text())
        body = await response.json()
    assert body["count"] > 0, name
    return body


def _operation(name: str) -> Any:
    method, path = name.split(" ")
    return DOCUMENT["paths"][path][method.lower()]


def _schema_of_response(name: str) -> jsonschema_rs.Draft202012Validator:
    return _validator(_operation(name)["responses"][STATUS[name]]["content"]["application/json"]["schema"])


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    whole = {**schema, "components": {"schemas": DESCRIBED}}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _shape(value: Any) -> Any:
    """Return the names of members and the types of values; a list has the shapes of its elements in order."""
    if isinstance(value, dict):
        return {name: _shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_shape(element) for element in value]
    return "number" if isinstance(value, float | int) and not isinstance(value, bool) else type(value).__name__


def _rewrite(responses: dict[str, Any]) -> None:
    """Replace responses in the file; the others stay, because ids and times of storing differ each time."""
    stored = orjson.loads(FILE.read_bytes())
    for name, response in responses.items():
        stored[name]["response"] = response
    FILE.write_bytes(orjson.dumps(stored, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
