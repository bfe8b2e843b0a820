"""Parse and validate JSON bodies and query strings; the building blocks of their models; write JSON responses.

Problems are reported as ``InvalidRequest``, in the form of pydantic (contract §1). Parsing is strict: no ``NaN``, no
``Infinity``, only Unicode. Sources: RFC 8259; reference §1.5 and §11.1.

Rejecting a body costs no more than reading it, however much of it is wrong. Pydantic reports every problem, half a
kilobyte and 5 µs each: a few megabytes of ``{}`` instead of spans would keep a process busy for a minute and take
gigabytes. So elements are validated only until ``PROBLEMS_MAX`` problems are found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast, get_args, get_origin

import orjson
from multidict import MultiMapping
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticKnownError, PydanticOmit, core_schema

from common.errors import InvalidInput, TooLarge
from common.settings import QuerySettings
from query_api.request.errors import InvalidRequest
from query_api.request.route import Response
from query_api.request.secret_members import without_secrets

Model = TypeVar("Model", bound=BaseModel)
Name = TypeVar("Name")
Element = TypeVar("Element")

_ELEMENTS: Final = {"items_schema", "keys_schema", "values_schema"}

PROBLEMS_MAX: Final = 100
"""Problems that are reported; the elements after the last one are not validated."""

LENGTH_MAX: Final = 20_000
"""Elements of a list, and members of an object with free names. Lists of a filter end at 10,000, with their own
message."""

SPANS_LENGTH_MAX: Final = 200_000
"""``LENGTH_MAX`` where spans are sent: more than fit into a body of 10 MiB."""

MEMBERS_MAX: Final = 200
"""Members of an object that rejects unknown members."""

INPUT_BYTES_MAX: Final = 2_000
"""Bytes of JSON up to which an invalid value is repeated in its problem; a longer one is shortened text."""

NAME_CHARACTERS_MAX: Final = 200
"""Characters of an unknown name that are repeated in its problem."""

SCOPE_PARAMETERS: Final = frozenset({"project_id", "workspace_id", "organization_id", "scope_type", "scope_id"})
"""Query parameters that clients of the reference send with every request. They have no effect: the key decides the
project."""

_LONG_INTEGER: Final = re.compile(rb"\d{19}")
_HUGE_INTEGER: Final = re.compile(r"-?\d{309,}(?![\d.eE])")  # larger than any double, which the fast parser rejects
_TOO_DEEP: Final = "Input is nested too deeply"
_NOT_AN_OBJECT: Final = "Input should be a valid dictionary or object to extract fields from"

LIMIT_AT: Final = ("body", "windowing", "limit")


class Problems:
    """Counts the invalid elements of one body; passed to validators as pydantic's context."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def are_enough(self) -> bool:
        """Whether the remaining elements are skipped."""
        return self.count >= PROBLEMS_MAX


class _Bounded:
    """Annotates a list or an object: bounds its length, and stops validating its elements after enough ``Problems``.

    More than ``length_max`` elements are rejected before the first is validated. Without ``Problems`` as pydantic's
    context every element is validated.
    """

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the annotated schema with a length, and with a wrapper around each element, name and value."""
        schema: dict[str, Any] = dict(handler(source))
        for part in _ELEMENTS & schema.keys():
            schema[part] = core_schema.with_info_wrap_validator_function(_validate_until_enough, schema[part])
        schema.setdefault("max_length", self._length_max)
        if schema["type"] == "dict":  # pydantic checks the length of a list first, but that of an object last
            return core_schema.no_info_before_validator_function(self._check_length, cast(CoreSchema, schema))
        return cast(CoreSchema, schema)

    def _check_length(self, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > self._length_max:
            length = {"field_type": "Dictionary", "max_length": self._length_max, "actual_length": len(value)}
            raise PydanticKnownError("too_long", length)
        return value


def _validate_until_enough(value: Any, validate: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    problems: Problems | None = info.context
    if problems is None:
        return validate(value)
    if problems.are_enough:
        raise PydanticOmit
    try:
        return validate(value)
    except ValidationError:
        problems.count += 1
        raise


Listed: TypeAlias = Annotated[list[Element], _Bounded(LENGTH_MAX)]
"""A list in a body."""

Named: TypeAlias = Annotated[dict[Name, Element], _Bounded(LENGTH_MAX)]
"""An object with free names in a body."""

ListedSpans: TypeAlias = Annotated[list[Element], _Bounded(SPANS_LENGTH_MAX)]
"""A list of spans, or a list inside a span."""

NamedSpans: TypeAlias = Annotated[dict[Name, Element], _Bounded(SPANS_LENGTH_MAX)]
"""Spans or traces by free names."""

LISTED: Final = "list"
UNLISTED: Final = "object"


def _form(value: Any) -> str:
    return LISTED if isinstance(value, list) else UNLISTED


BY_FORM: Final = Discriminator(_form)
"""Distinguishes a ``Listed`` from the object that is allowed instead, by the tags ``LISTED`` and ``UNLISTED``.

Problems then name the form that was sent; without tags their paths would contain pydantic's internal schema names.
"""


ShownTime: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in a response: RFC 3339 in UTC."""


def refuse_boolean(value: Any) -> Any:
    """Return a number. Raise ``ValueError`` for a boolean, which pydantic would read as 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")  # noqa: TRY004 - pydantic reports only ValueError
    return value


class ApiModel(BaseModel):
    """A part of a request or of a response. It is built when it is first used: a process uses few of the models."""

    model_config = ConfigDict(defer_build=True)


class Strict(ApiModel):
    """An object that rejects unknown members, because a typo would otherwise be ignored silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MEMBERS_MAX:
            raise ValueError(f"an object with {len(value)} members; at most {MEMBERS_MAX} are allowed")
        return value


class PromotedTexts(ApiModel):
    """The values of attributes that are members of a span too, as requests and responses have them
    (``common/span.py``).
    """

    session_id: str | None = Field(None, description="The session that the span belongs to.")
    user_id: str | None = Field(None, description="The end user that the span belongs to.")
    agent_id: str | None = Field(None, description="The agent that the span belongs to.")


def parse_json(body: bytes) -> Any:
    """Parse a JSON body with exact integers. Raises ``InvalidRequest`` of type ``json_invalid``.

    An integer of more than 308 digits is valid JSON but never usable: it raises ``InvalidInput``, as one of more than
    64 bits does where it is used.
    """
    try:
        return _exact(body, of="the body")
    except orjson.JSONDecodeError as exc:
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
        return _exact(text.encode(), of="the text")
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
        problem = _problem("model_attributes_type", ("body",), _NOT_AN_OBJECT, text)
        raise InvalidRequest([without_secrets(problem, model)])
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
        raise InvalidRequest([without_secrets(_from_pydantic(error, at=at), model) for error in errors]) from exc
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


def number_up_to(max_value: int, sent: int | None, *, default: int, at: Sequence[str]) -> int:
    """Return a number of a request; without one the default, or ``max_value`` if that is less.

    Raises ``InvalidRequest`` if the number is larger than the setting ``max_value``; ``at`` is its path.
    """
    if sent is None:
        return min(default, max_value)
    if sent > max_value:
        message = f"Input should be less than or equal to {max_value}"
        raise InvalidRequest([_problem("less_than_equal", at, message, sent) | {"ctx": {"le": max_value}}])
    return sent


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


def _exact(text: bytes, *, of: str) -> Any:
    """Parse JSON with exact integers. Raises ``ValueError``, and ``InvalidInput`` for a huge integer."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        if _HUGE_INTEGER.match(text.decode("utf-8", "replace"), exc.pos):
            raise InvalidInput(f"The integer at character {exc.pos} of {of} has more than 308 digits.") from exc
        raise
    # The fast parser turns integers of more than 64 bits into floats; the slow one keeps them for rejection.
    return json.loads(text) if _LONG_INTEGER.search(text) else value


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


def limit_of(limit: int | None, settings: QuerySettings, *, at: tuple[str, ...] = LIMIT_AT) -> int:
    """Return how many items a page may hold: ``limit``, or the default if there is none.

    Raises ``InvalidRequest`` (422) above the maximum; ``at`` is the path of the limit in the request.
    """
    return number_up_to(settings.page_limit_max, limit, default=settings.page_limit_default, at=at)
