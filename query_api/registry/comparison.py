"""What leads from the data of one revision to other data, and whether data matches its own schema."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from common.errors import InvalidInput
from query_api.compute import IN_PROCESS_BYTES_MAX, Compute, run_if_large
from query_api.registry.alignment import ComparisonBudget
from query_api.registry.diff import changes_json, pointer_step
from query_api.registry.json_schemas import check_data
from query_api.request.errors import InvalidRequest

STEPS_IN_PROCESS: Final = 20_000
"""Of a comparison on the event loop: 20 ms at worst."""

_PARAMETERS: Final = "parameters"
_SCHEMA: Final = "schemas.parameters"


async def compared(compute: Compute, before: str, after: str, *, with_lines: bool) -> tuple[int, bytes]:
    """Return the number of changes between two JSON texts, and the changes as JSON.

    What takes more than a moment is done again in a child process, with a larger budget.
    """
    if len(before) + len(after) <= IN_PROCESS_BYTES_MAX:
        budget = ComparisonBudget(STEPS_IN_PROCESS)
        result = changes_json(before, after, with_lines=with_lines, budget=budget)
        if budget.steps >= 0:
            return result
    work = partial(changes_json, with_lines=with_lines)
    return await run_if_large(compute, work, before, after, is_large=True)


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
