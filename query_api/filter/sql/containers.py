"""Objects and arrays as operands: whether the JSON at a path has their members or elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from common.json_values import json_number
from query_api.filter.sql.expressions import Parameters

Arguments: TypeAlias = tuple[str, ...]
"""A document and the path into it: the arguments of the engine's JSON functions."""


def is_json(arguments: Arguments, operand: Any, parameters: Parameters) -> str:
    """Return whether the value at ``arguments`` has the members, or in any order the elements, of ``operand``."""
    if isinstance(operand, Mapping):
        return _is_object(arguments, operand, parameters)
    return _is_array(arguments, operand, parameters)


def _is_object(arguments: Arguments, operand: Mapping[str, Any], parameters: Parameters) -> str:
    clauses = [f"{call('JSONType', arguments)} = 'Object'"]
    scalars = {key: value for key, value in operand.items() if value is not None and not is_container(value)}
    nulls = [key for key, value in operand.items() if value is None]
    member = call("JSONExtractRaw", (*arguments, "key"))
    if scalars:
        keys = parameters.texts(list(scalars))
        values = f"JSONExtractArrayRaw({parameters.text(canonical_json(list(scalars.values())))})"
        clauses.append(f"arrayAll((key, value) -> {member} = value, {keys}, {values})")
    if nulls:
        clauses.append(f"arrayAll(key -> {member} IN ('', 'null'), {parameters.texts(nulls)})")
    for key, value in operand.items():
        if is_container(value):
            clauses.append(is_json((*arguments, parameters.text(key)), value, parameters))
    return f"({' AND '.join(clauses)})"


def _is_array(arguments: Arguments, operand: Sequence[Any], parameters: Parameters) -> str:
    clauses = [f"{call('JSONType', arguments)} = 'Array'"]
    scalars = [value for value in operand if not is_container(value)]
    if scalars:
        wanted = f"JSONExtractArrayRaw({parameters.text(canonical_json(scalars))})"
        clauses.append(f"hasAll({call('JSONExtractArrayRaw', arguments)}, {wanted})")
    length = call("JSONLength", arguments)
    for value in operand:
        if is_container(value):
            position = f"position{len(arguments)}"  # inner lambdas have longer paths, so names do not clash
            found = is_json((*arguments, position), value, parameters)
            clauses.append(f"arrayExists({position} -> {found}, range(1, {length} + 1))")
    return f"({' AND '.join(clauses)})"


def type_is(name: str, arguments: Arguments) -> str:
    """Return whether the value at ``arguments`` has this type, as the engine names it."""
    return f"{call('JSONType', arguments)} = '{name}'"


def call(function: str, arguments: Arguments) -> str:
    """Return the call of a JSON function of the engine."""
    return f"{function}({', '.join(arguments)})"


def is_container(value: Any) -> bool:
    """Return whether a value is an object or an array."""
    return isinstance(value, Mapping | list)


def canonical_json(values: list[Any]) -> str:
    """Return scalars as stored JSON writes them: ``5.0`` is ``5``."""
    canonical = [json_number(value) if isinstance(value, float) else value for value in values]
    return orjson.dumps(canonical).decode()
