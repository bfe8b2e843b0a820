"""Parse and validate JSON bodies and query strings, and write JSON responses.

Problems are reported as ``InvalidRequest``, in the form of pydantic (contract §1). Parsing is strict: no ``NaN``, no
``Infinity``, only Unicode. Sources: RFC 8259; reference §1.5 and §11.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, get_args, get_origin

import orjson
from multidict import MultiMapping
from pydantic import BaseModel, ValidationError

from common.errors import InvalidInput, TooLarge
from query_api.request.body_models import PROBLEMS_MAX, Problems
from query_api.request.errors import InvalidRequest
from query_api.request.route import Response

Model = TypeVar("Model", bound=BaseModel)

INPUT_BYTES_MAX: Final = 2_000
"""Bytes of JSON up to which an invalid value is repeated in its problem; a longer one is shortened text."""

NAME_CHARACTERS_MAX: Final = 200
"""Characters of an unknown name that are repeated in its problem."""

SCOPE_PARAMETERS: Final = frozenset({"project_id", "workspace_id", "organization_id", "scope_type", "scope_id"})
"""Query parameters that clients of the reference send with every request. They have no effect: the key decides the
project."""

_LONG_INTEGER: Final = re.compile(rb"\d{19}")
_HUGE_INTEGER: Final = re.compile(r"-?\d{309,}(?![\d.eE])")  # larger than any double, which the fast parser rejects


def parse_json(body: bytes) -> Any:
    """Parse a JSON body with exact integers. Raises ``InvalidRequest`` of type ``json_invalid``.

    An integer of more than 308 digits is valid JSON but never usable: it raises ``InvalidInput``, as one of more than
    64 bits does where it is used.
    """
    try:
        return _exact(body)
    except orjson.JSONDecodeError as exc:
        _check_huge_integer(body, exc, of="the body")
        raise _json_invalid(exc.msg, offset=exc.pos) from exc
    except (RecursionError, ValueError) as exc:
        raise _json_invalid(str(exc), offset=0) from exc


def parse_json_text(text: str) -> Any:
    """Parse JSON that is itself a text value of a request, with exact integers; an empty text is ``None``.

    Raises ``ValueError`` with the reason, and ``InvalidInput`` as ``parse_json`` does.
    """
    if not text.strip():
        return None
    try:
        return _exact(text.encode())
    except orjson.JSONDecodeError as exc:
        _check_huge_integer(text.encode(), exc, of="the text")
        raise ValueError(f"the text is not JSON: {exc}") from exc
    except (RecursionError, ValueError) as exc:
        raise ValueError(f"the text is not JSON: {exc}") from exc


def read_body(
    model: type[Model], body: bytes, *, content_type: str | None, required: bool, values_max: int | None = None
) -> Model:
    """Validate a JSON body. An empty body and ``null`` mean the model's defaults, unless a body is required.

    ``content_type`` is the header as sent; a missing one means JSON. Raises ``InvalidRequest``, and ``TooLarge`` if the
    body has more than ``values_max`` values.
    """
    if not body:
        return _without_body(model, required=required)
    if content_type is not None and not _is_json(content_type):
        text = body[:INPUT_BYTES_MAX].decode("utf-8", "replace")
        raise InvalidRequest([_problem("model_attributes_type", ("body",), _NOT_AN_OBJECT, text)])
    value = parse_json(body)
    if values_max is not None and _values_bound(body) > values_max and has_more_values(value, values_max):
        raise TooLarge(f"The body holds more than {values_max} JSON values.")
    if value is None:
        return _without_body(model, required=required)
    return validated(model, value, at="body")


def read_query(model: type[Model], query: MultiMapping[str]) -> Model:
    """Validate a query string: all values of a name if the field is a list, else the last. ``SCOPE_PARAMETERS`` are
    ignored.

    Raises ``InvalidRequest``.
    """
    lists = {field.alias or name for name, field in model.model_fields.items() if _is_list(field.annotation)}
    values = {
        name: query.getall(name) if name in lists else query.getall(name)[-1]
        for name in dict.fromkeys(query)
        if name not in SCOPE_PARAMETERS
    }
    return validated(model, values, at="query")


def validated(model: type[Model], value: Any, *, at: str) -> Model:
    """Validate ``value`` by a model. ``at`` is its location: ``body``, ``path`` or ``query``. Raises
    ``InvalidRequest``."""
    problems = Problems()
    try:
        result = model.model_validate(value, from_attributes=True, context=problems)
        # Elements that are invalid as one member of a union may be valid as another; then some were skipped.
        return model.model_validate(value, from_attributes=True) if problems.are_enough else result
    except ValidationError as exc:
        errors = exc.errors(include_url=False)[:PROBLEMS_MAX]
        raise InvalidRequest([_from_pydantic(error, at=at) for error in errors]) from exc
    except RecursionError as exc:  # in our validators; pydantic reports its own recursion limit as a problem
        raise InvalidRequest([_problem("recursion_depth_exceeded", (at,), _TOO_DEEP, None)]) from exc


def json_response(value: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a model as JSON: null fields are omitted, nulls inside free-form objects are kept."""
    return Response(value.model_dump_json(exclude_none=True).encode(), status=status, headers=headers or {})


def has_more_values(value: Any, count_max: int) -> bool:
    """Return whether ``value`` contains more than ``count_max`` values, itself included; member names do not count."""
    count, level = 1, [value] if isinstance(value, dict | list) else []
    while level and count <= count_max:
        container = level.pop()
        members = container.values() if isinstance(container, dict) else container
        count += len(container)
        level += [member for member in members if isinstance(member, dict | list)]
    return count > count_max


def _values_bound(text: bytes) -> int:
    """Return an upper bound of the values in a JSON text, in a fraction of the time that counting takes."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b":")


def bounded_input(value: Any) -> Any:
    """Return ``value`` if it is short JSON, else its beginning as text."""
    try:
        text = orjson.dumps([[[[value]]]])[4:-4]  # at most as deep as in a response
    except (TypeError, orjson.JSONEncodeError):
        return _text(value)[:INPUT_BYTES_MAX].encode("utf-8", "replace").decode()
    if len(text) <= INPUT_BYTES_MAX:
        return value
    return text[:INPUT_BYTES_MAX].decode("utf-8", "ignore") + "…"


def _text(value: Any) -> str:
    try:
        return str(value)
    except RecursionError:  # the parser accepts deeper nesting than str() does
        return "a value that is nested too deeply to be shown"


def _exact(text: bytes) -> Any:
    value = orjson.loads(text)
    # The fast parser turns integers of more than 64 bits into floats; the slow one keeps them for rejection.
    return json.loads(text) if _LONG_INTEGER.search(text) else value


def _check_huge_integer(text: bytes, error: orjson.JSONDecodeError, *, of: str) -> None:
    """Raise ``InvalidInput`` if a huge integer is what the fast parser could not read."""
    if _HUGE_INTEGER.match(text.decode("utf-8", "replace"), error.pos):
        raise InvalidInput(f"The integer at character {error.pos} of {of} has more than 308 digits.") from error


_TOO_DEEP: Final = "Input is nested too deeply"
_NOT_AN_OBJECT: Final = "Input should be a valid dictionary or object to extract fields from"


def _without_body(model: type[Model], *, required: bool) -> Model:
    if required:
        raise InvalidRequest([_problem("missing", ("body",), "Field required", None)])
    return validated(model, {}, at="body")


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json"))


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(_is_list(member) for member in get_args(annotation))


def _json_invalid(reason: str, *, offset: int) -> InvalidRequest:
    problem = _problem("json_invalid", ("body", offset), "JSON decode error", {})
    return InvalidRequest([{**problem, "ctx": {"error": reason}}])


def _problem(kind: str, loc: Sequence[str | int], message: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "loc": [_bounded_name(step) for step in loc], "msg": message, "input": bounded_input(value)}


def _bounded_name(step: str | int) -> str | int:
    """Return a step of a path; a long name is cut."""
    return step if isinstance(step, int) or len(step) <= NAME_CHARACTERS_MAX else f"{step[:NAME_CHARACTERS_MAX]}…"


def _from_pydantic(error: Mapping[str, Any], *, at: str) -> dict[str, Any]:
    problem = _problem(error["type"], (at, *error["loc"]), error["msg"], error["input"])
    if "ctx" in error:
        # An exception in the context repeats `msg`; the reference shows it as an empty object.
        problem["ctx"] = {
            name: {} if isinstance(v, Exception) else bounded_input(v) for name, v in error["ctx"].items()
        }
    return problem
