"""JSON Schemas of data: inferred from a first example, and used to validate further data.

A schema comes from a user, and its validation may never end. Nothing is fetched, regular expressions have a limit of
backtracking, and whatever is not plainly cheap runs in a child process with limits of time and memory (ADR 0051).
Source: reference ``workflows-evaluators-testsets`` §5 and §6.
"""

from __future__ import annotations

import json
import re
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import jsonschema_rs
from jsonschema_rs import FancyRegexOptions

from common.errors import InvalidInput
from common.limits import KIB, MIB
from query_api.compute import Compute, ProcessDied, TookTooLong
from query_api.registry.applications import JSON_SCHEMA_DRAFTS
from query_api.request.errors import InvalidRequest
from query_api.request.json_body import PROBLEMS_MAX

Json: TypeAlias = dict[str, Any]

VALIDATION_S: Final = 10.0
"""The time for one validation in a child process, its start included."""

VALIDATION_BYTES: Final = 512 * MIB
"""The memory that one validation may take in a child process."""

LEVELS_MAX: Final = 24
"""The levels of data that an inferred schema describes; below anything is allowed."""

MEMBERS_MAX: Final = 1_000
"""The members that an inferred schema describes; further ones may have any value."""

MESSAGE_CHARACTERS_MAX: Final = 500

_CHEAP_BYTES: Final = 64 * KIB
_CHEAP_PRODUCT: Final = 4 * MIB
_COSTLY: Final = re.compile(r'"(?:\$ref|\$dynamicRef|\$recursiveRef|pattern\w*|uniqueItems|unevaluated\w*)"')
"""Without these keywords every value is compared with every part of the schema at most once."""

_PATTERNS: Final = FancyRegexOptions(backtrack_limit=100_000, size_limit=MIB, dfa_size_limit=MIB)


def inferred_schema(data: Json) -> Json:
    """Return the schema of data like ``data``: all of its members are required, with values of the same type."""
    return _Inference().schema_of(data, LEVELS_MAX)


class _Inference:
    """Describes values until ``MEMBERS_MAX`` members are described."""

    def __init__(self) -> None:
        self._left = MEMBERS_MAX

    def schema_of(self, value: Any, levels: int) -> Json:
        """Return the schema of a value. Null says nothing about the type, nor do elements that differ."""
        match value:
            case bool():
                return {"type": "boolean"}
            case int():
                return {"type": "integer"}
            case float():
                return {"type": "number"}
            case str():
                return {"type": "string"}
            case dict() if levels > 0:
                return self._schema_of_object(value, levels)
            case list() if levels > 0:
                return self._schema_of_array(value, levels)
            case _:
                return {}

    def _schema_of_object(self, value: Json, levels: int) -> Json:
        names = [name for name in islice(value, max(0, self._left)) if "\0" not in name]
        self._left -= len(names)
        properties = {name: self.schema_of(value[name], levels - 1) for name in names}
        return {"type": "object", "properties": properties, **({"required": names} if names else {})}

    def _schema_of_array(self, value: list[Any], levels: int) -> Json:
        schemas: list[Json] = []
        for element in islice(value, MEMBERS_MAX):
            if (schema := self.schema_of(element, levels - 1)) not in schemas:
                schemas.append(schema)
            if len(schemas) > 1:
                return {"type": "array"}
        return {"type": "array", **({"items": schemas[0]} if schemas and schemas[0] else {})}


EVALUATORS_SCHEMA: Final = "the evaluator's schemas.outputs"


async def check_data(
    compute: Compute, schema: str, data: str, *, at: tuple[str, ...], named: str = EVALUATORS_SCHEMA
) -> None:
    """Raise ``InvalidRequest`` with the problems of data that does not match a schema; both are JSON texts.

    ``at`` is the place of the data, ``named`` the schema in words. Raises ``InvalidInput`` for a schema that cannot be
    used, or takes too long.
    """
    if _is_cheap(schema, data) and _validator(json.loads(schema), named).is_valid(json.loads(data)):
        return
    try:
        problems = await compute.run(schema_problems, schema, data, named, timeout_s=VALIDATION_S)
    except TookTooLong as exc:
        raise InvalidInput(
            f"{'.'.join(at)}: validating it by {named} takes longer than {VALIDATION_S:g} s. Simplify the schema."
        ) from exc
    except ProcessDied as exc:
        raise InvalidInput(
            f"{'.'.join(at)}: validating it by {named} takes more than {VALIDATION_BYTES // MIB} MiB of memory."
            " Simplify the schema."
        ) from exc
    if problems:
        raise InvalidRequest([{**problem, "loc": [*at, *problem["loc"]]} for problem in problems])


def schema_problems(schema: str, data: str, named: str = EVALUATORS_SCHEMA) -> list[Json]:
    """Return what is wrong with data, at most ``PROBLEMS_MAX`` problems, each with its path in the data.

    Raises ``InvalidInput`` for a schema that cannot be used. Meant for a child process.
    """
    value = json.loads(data)
    with _bounded_memory():
        validator = _validator(json.loads(schema), named)
        if validator.is_valid(value):
            return []
        return [
            {
                "loc": list(error.instance_path),
                "msg": error.message[:MESSAGE_CHARACTERS_MAX],
                "type": "value_error.json_schema",
            }
            for error in islice(validator.iter_errors(value), PROBLEMS_MAX)
        ]


def _is_cheap(schema: str, data: str) -> bool:
    is_small = max(len(schema), len(data)) <= _CHEAP_BYTES and len(schema) * len(data) <= _CHEAP_PRODUCT
    return is_small and _COSTLY.search(schema) is None


def _validator(schema: Json, named: str) -> jsonschema_rs.Validator:
    """Return a validator of the draft that the schema names, by default 2020-12. Raises ``InvalidInput``."""
    draft = schema.get("$schema", "")
    known = schema if str(draft).rstrip("#") in JSON_SCHEMA_DRAFTS else _without_draft(schema)
    try:
        return jsonschema_rs.validator_for(known, offline=True, validate_formats=False, pattern_options=_PATTERNS)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as exc:
        reason = str(exc).partition("\n")[0][:MESSAGE_CHARACTERS_MAX]
        raise InvalidInput(f"{named[0].upper()}{named[1:]} cannot be used: {reason}") from exc


def _without_draft(schema: Json) -> Json:
    return {name: member for name, member in schema.items() if name != "$schema"}


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Limit what this process may allocate further, where the system says what it has. Past the limit it ends.

    Not in a thread, which is one of the API: the limit would be that of all requests.
    """
    status = Path("/proc/self/statm")
    if threading.current_thread() is not threading.main_thread() or not status.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(status.read_text().split()[0]) * resource.getpagesize() + VALIDATION_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
