"""The examples of requests and responses in the OpenAPI document.

``examples.json`` holds them by method and path: ``parameters`` of the path and the query string, the body ``request``,
and the body ``response``. ``tests/integration/test_openapi_examples.py`` sends every request to an API and compares
its response with the example. To add one, write its request with the response ``null``, and run ``make golden``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import orjson

from query_api.request.route import Route

FILE: Final = "examples.json"


class Example(NamedTuple):
    """A request to a route and its response; ``None`` is no body."""

    parameters: Mapping[str, Any]
    request: Any
    response: Any


@cache
def all_examples() -> Mapping[str, Example]:
    """Return the examples by method and path, as in ``POST /spans/query``."""
    stored = orjson.loads(files(__package__).joinpath(FILE).read_bytes())
    return {
        name: Example(example.get("parameters", {}), example.get("request"), example["response"])
        for name, example in stored.items()
    }


def add_example(operation: dict[str, Any], route: Route) -> None:
    """Add the example of the route, if there is one, to its operation in the document."""
    example = all_examples().get(f"{route.method} {route.path}")
    if example is None:
        return
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example.parameters:
            parameter["example"] = example.parameters[parameter["name"]]
    if example.request is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = example.request
    operation["responses"][str(route.status)]["content"][route.content_type]["example"] = example.response
