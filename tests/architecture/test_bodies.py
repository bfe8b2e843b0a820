"""A body full of errors does not keep a route busy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from query_api.filter.parse import FilteringModel
from query_api.http.routes import ROUTES

_BOUNDED_BEFORE: Final = {FilteringModel}
"""Counted before any of it is validated (``query_api/filter/parse.py``)."""

BODIES: Final = sorted({route.body for route in ROUTES if route.body is not None}, key=lambda model: model.__name__)


def collections_of(schema: Any) -> Iterator[tuple[str, Any]]:
    """The elements of every list and object in a schema, with what they are of."""
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from collections_of(part)
    if not isinstance(schema, dict) or schema.get("cls") in _BOUNDED_BEFORE:
        return
    for part in ("items_schema", "values_schema"):
        if schema.get("type") in ("list", "set", "dict") and schema.get(part, {}).get("type", "any") != "any":
            yield part, schema[part]
    for name, part in schema.items():
        if name not in {"metadata", "serialization", "default", "json_schema_input_schema"}:
            yield from collections_of(part)


def test_validation_stops_after_the_first_problems() -> None:
    for model in BODIES:
        for part, elements in collections_of(model.__pydantic_core_schema__):
            assert elements["type"] == "function-wrap", (model, part, elements)
            assert elements["function"]["function"].__module__ == "query_api.request.json_body", (model, part, elements)
