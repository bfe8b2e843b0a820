"""The schemas of the OpenAPI document, so that generated clients are good to use.

Pydantic writes the schemas; this module names and simplifies them:

- A schema has the name of its class, without the ending ``Model``, whether it is in a request or in a response.
- All objects with free members, such as attributes, have one schema.
- Schemas and members have no ``title``: it repeats the name, and generators derive names from it.
- An absent member of a request has no ``default: null``. A member of a response is absent or has a value, never null
  (contract §1), unless the schema is part of a request too.

Source: JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from query_api.request.route import Route

Json: TypeAlias = dict[str, Any]

REF_PREFIX: Final = "#/components/schemas/"
FREE_OBJECT: Final = "JsonObject"
"""The schema of every object with free members."""

_SUFFIXES: Final = ("-Input", "-Output")
"""What pydantic appends to the names of a model whose schemas for requests and responses differ."""


class _SchemaGenerator(GenerateJsonSchema):
    """Writes no titles of members, and no default that only says that the member is absent."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the signature of pydantic
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        written = super().default_schema(schema)
        if written.get("default", ...) is None:
            del written["default"]
        return written


class ComponentSchemas:
    """The schemas of all models, by name, and the references to them.

    ``definitions`` are those that are referred to: not the models of query strings, whose members are parameters.
    """

    def __init__(self, routes: Sequence[Route], errors: Iterable[type[BaseModel]]) -> None:
        """Raises ``ValueError`` if two models would have one name."""
        inputs = {model for route in routes for model in (route.body, route.query) if model is not None}
        outputs = {route.response for route in routes if route.response is not None} | set(errors)
        references, definitions = _written(inputs, outputs)
        names = {name: _public_name(name) for name in definitions}
        self._schemas: Json = {
            FREE_OBJECT: {"type": "object", "additionalProperties": True, "description": "An object with free members."}
        }
        for name, definition in definitions.items():
            _add(self._schemas, names[name], _renamed(definition, names))
        self._references: Mapping[type[BaseModel], str] = {
            model: names[reference["$ref"].removeprefix(REF_PREFIX)] for (model, _), reference in references.items()
        }
        of_inputs = self._reachable(self._references[model] for model in inputs)
        of_outputs = self._reachable(self._references[model] for model in outputs)
        for name in of_outputs - of_inputs:
            _omit_nulls(self._schemas[name])
        bodies = {self._references[route.body] for route in routes if route.body is not None}
        queries = [self.schema(route.query) for route in routes if route.query is not None]
        used = of_outputs | self._reachable({*bodies, *(name for query in queries for name in _referenced(query))})
        self.definitions: Json = {name: schema for name, schema in self._schemas.items() if name in used}

    def reference(self, model: type[BaseModel]) -> Json:
        """Return the reference to the schema of a model."""
        return {"$ref": REF_PREFIX + self._references[model]}

    def schema(self, model: type[BaseModel]) -> Json:
        """Return the schema of a model."""
        schema: Json = self._schemas[self._references[model]]
        return schema

    def _reachable(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += _referenced(self._schemas[name])
        return found


def _written(
    inputs: Iterable[type[BaseModel]], outputs: Iterable[type[BaseModel]]
) -> tuple[Mapping[tuple[Any, JsonSchemaMode], JsonSchemaValue], Json]:
    """Return the references to the schemas that pydantic writes, and the schemas by its names."""
    modes: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    modes += [(model, "validation") for model in sorted(inputs, key=attrgetter("__name__"))]
    modes += [(model, "serialization") for model in sorted(outputs, key=attrgetter("__name__"))]
    references, schema = models_json_schema(
        modes, ref_template=REF_PREFIX + "{model}", schema_generator=_SchemaGenerator
    )
    return references, schema["$defs"]


def _public_name(name: str) -> str:
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.removesuffix("Model")


def _add(definitions: Json, name: str, definition: Json) -> None:
    definition.pop("title", None)
    if definitions.setdefault(name, definition) != definition:
        raise ValueError(f"{name} names two schemas; allowed: one for requests and responses, or two class names.")


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    """Return a copy of a schema with references to the public names."""
    if isinstance(node, dict):
        if _is_free_object(node):
            description = {"description": node["description"]} if "description" in node else {}
            return {"$ref": REF_PREFIX + FREE_OBJECT, **description}
        return {
            key: REF_PREFIX + names[value.removeprefix(REF_PREFIX)] if key == "$ref" else _renamed(value, names)
            for key, value in node.items()
        }
    return [_renamed(each, names) for each in node] if isinstance(node, list) else node


def _is_free_object(schema: Json) -> bool:
    return schema.get("additionalProperties") is True and not schema.keys() - {
        "additionalProperties",
        "description",
        "type",
    }


def _referenced(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(reference := node.get("$ref"), str):
            yield reference.removeprefix(REF_PREFIX)
        for value in node.values():
            yield from _referenced(value)
    elif isinstance(node, list):
        for value in node:
            yield from _referenced(value)


def _omit_nulls(schema: Json) -> None:
    """Take null from the optional members of an object."""
    required: Sequence[str] = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        if name in required or "anyOf" not in member:
            continue
        member["anyOf"] = [each for each in member["anyOf"] if each != {"type": "null"}]
        if len(member["anyOf"]) == 1:
            [only] = member.pop("anyOf")
            member.update(only | member)
