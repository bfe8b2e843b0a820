"""Tools that a model may call, in one shape for all sources: ``{type?, name, description?, parameters?}``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.span import Value
from ingest.semconv.converters import (
    VALUE_LEVELS_MAX,
    array_of,
    first_of,
    parsed_if_json,
    present,
    remembered,
    structured,
    value_of,
)
from ingest.semconv.rows import Converter, MappingError, Reason


def tool_offered(sent: Value) -> dict[str, Any]:
    """Return a tool that the model may call. Raises ``MappingError``."""
    found = value_of(sent)
    if isinstance(found, dict):
        tool: dict[str, Any] | None = _described(first_of(_object_below(found, "tool"), "json_schema"))
        if tool is not None:
            return tool
    return _tool(found)


@remembered
def _described(schema: Value) -> dict[str, Any] | None:
    """Return the tool that OpenInference describes in JSON; ``None`` if there is none."""
    found = parsed_if_json(schema, levels_max=VALUE_LEVELS_MAX)
    return _tool(found) if found else None


def _tool(found: Value) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise MappingError(Reason.NOT_TOOLS)
    function = _object_below(found, "function")
    parameters = first_of(function, "parameters", "input_schema", "inputSchema", "parameters_json_schema")
    return present(
        type=found.get("type"),
        name=function.get("name"),
        description=function.get("description"),
        parameters=parsed_if_json(parameters, levels_max=VALUE_LEVELS_MAX),
    )


def _object_below(members: dict[str, Any], name: str) -> dict[str, Any]:
    inner = members.get(name)
    return inner if isinstance(inner, dict) else members


def _tools(sent: Value) -> list[dict[str, Any]] | None:
    return tools_offered(array_of(structured(sent), Reason.NOT_TOOLS))


def tools_offered(sent: Sequence[Value]) -> list[dict[str, Any]] | None:
    """Return the tools of a list; ``None`` if it is empty.

    If one cannot be read, such as one that was cut off, raise ``MappingError`` with the others.
    """
    tools: list[dict[str, Any]] = []
    mapping_errors: list[MappingError] = []
    for tool in sent:
        try:
            tools.append(tool_offered(tool))
        except MappingError as mapping_error:
            mapping_errors.append(mapping_error)
    if mapping_errors:
        raise MappingError(mapping_errors[0].reason, found=tools or None) from mapping_errors[0]
    return tools or None


TOOLS = Converter("tools: type, name, description, parameters", remembered(_tools))
