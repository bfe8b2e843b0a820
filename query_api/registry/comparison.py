"""What leads from the data of one revision to other data, and whether data matches its own schema."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from common.errors import InvalidInput
from query_api.compute import IN_PROCESS_BYTES_MAX, Compute, run_if_large
from query_api.registry.diff import changes_json, pointer_step
from query_api.registry.json_schemas import check_data
from query_api.request.errors import InvalidRequest

_PARAMETERS: Final = "parameters"
_SCHEMA: Final = "schemas.parameters"


async def compared(compute: Compute, before: str, after: str, *, with_lines: bool) -> tuple[int, bytes]:
    """Return the number of changes between two JSON texts, and the changes as JSON."""
    is_large = len(before) + len(after) > IN_PROCESS_BYTES_MAX
    return await run_if_large(compute, partial(changes_json, with_lines=with_lines), before, after, is_large=is_large)


async def parameter_problems(compute: Compute, data: str) -> list[dict[str, str]]:
    """Return where the parameters of data, as JSON, do not match its schema of parameters: members of
    ``SchemaProblem``.
    """
    is_large = len(data) > IN_PROCESS_BYTES_MAX
    schema, parameters = await run_if_large(compute, _schema_and_parameters, data, is_large=is_large)
    if schema is None:
        return []
    try:
        await check_data(compute, schema, parameters, at=(_PARAMETERS,), named=_SCHEMA)
    except InvalidRequest as exc:
        return [{"path": _pointer(problem["loc"]), "message": problem["msg"]} for problem in exc.problems]
    except InvalidInput as exc:
        return [{"path": f"/{_PARAMETERS}", "message": str(exc)}]
    return []


def _schema_and_parameters(data: str) -> tuple[str | None, str]:
    value = json.loads(data)
    schemas = value.get("schemas")
    schema = schemas.get(_PARAMETERS) if isinstance(schemas, dict) else None
    return None if schema is None else json.dumps(schema), json.dumps(value.get(_PARAMETERS, {}))


def _pointer(steps: list[Any]) -> str:
    return "".join(f"/{pointer_step(str(step))}" for step in steps)
