"""The OpenAPI 3.1 document of the routes, generated from the models that validate.

Source: OpenAPI 3.1.1; JSON Schema 2020-12 as pydantic writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, Field
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from query_api.freshness.data_through import DATA_THROUGH_HEADER
from query_api.freshness.read_your_writes import WAIT_FOR_HEADER
from query_api.request.route import Access, Route

Json: TypeAlias = dict[str, Any]

REF_TEMPLATE: Final = "#/components/schemas/{model}"
_PLACE: Final = re.compile(r"\{(\w+)\}")
_BODY_STATUSES: Final = (404, 409, 413, 415, 422)
_SHAPED_STATUSES: Final = (400, 413, 429, 503, 504)
"""What a route may tell in its protocol's own form (``Route.error_format``)."""
_DATA_THROUGH: Final[Json] = {
    "schema": {"type": "string", "format": "date-time"},
    "description": "What Kafka had taken by then is in this answer; absent while that is not known.",
}
_WAIT_FOR: Final[Json] = {
    "schema": {"type": "string"},
    "description": "Response when these records are queryable: values of X-Clearspan-Coordinates, or topic/partition/offset of "
    "records that the project has written to Kafka itself, separated by commas.",
}
_DESCRIPTION: Final = """\
Keeps and queries the spans of LLM and agent applications.

Every route answers at the root and below `/api`, with and without a trailing slash. Bodies are JSON and may come with \
`Content-Encoding: gzip`; answers of 1,000 bytes and more are compressed where the client takes gzip."""


class Problem(BaseModel):
    """One thing that is wrong with a request."""

    type: str = Field(description="What kind of problem, in pydantic's words.")
    loc: list[str | int] = Field(description="Where: body, path or query, and the way from there.")
    msg: str
    input: Any = None
    ctx: dict[str, Any] | None = None


class InvalidRequestError(BaseModel):
    """The request does not have the shape that the route wants."""

    detail: list[Problem]


class TextError(BaseModel):
    """What is wrong, in words."""

    detail: str


class MessageDetail(BaseModel):
    """What is wrong, in words."""

    message: str
    operation_id: str | None = Field(None, description="Finds the failure in the log; with status 500.")


class MessageError(BaseModel):
    """What is wrong, in words, and the id under which the log tells more."""

    detail: MessageDetail


class ConflictDetail(BaseModel):
    """What of the request is taken, or contradicts what is stored."""

    message: str
    conflict: dict[str, str] = Field(description="The member with its value.")


class RevisionConflictDetail(BaseModel):
    """Somebody else committed first."""

    code: Literal["revision_conflict"]
    message: str
    retryable: bool
    next_step: str
    details: dict[str, str | None] = Field(description="`base_revision_id` and `current_revision_id`.")


class ConflictError(BaseModel):
    """The request conflicts with what is stored."""

    detail: str | ConflictDetail | RevisionConflictDetail


_ERROR_BODIES: Final[Mapping[int, type[BaseModel]]] = {
    400: TextError,
    401: MessageError,
    404: TextError,
    409: ConflictError,
    413: TextError,
    415: TextError,
    422: InvalidRequestError,
    429: TextError,
    500: MessageError,
    503: TextError,
    504: TextError,
}


def openapi_document(routes: Sequence[Route]) -> Json:
    """The document. Two routes of one path stand side by side; paths are in the order of the routes."""
    schemas = _Schemas(routes)
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Clearspan", "version": _version(), "description": _DESCRIPTION},
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas.definitions,
            "responses": {str(status): _error_response(status, schemas) for status in _ERROR_BODIES},
            "securitySchemes": {
                "ApiKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`ApiKey <key>`, or the key alone. It belongs to one project and decides it.",
                },
                "Access": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`Access <admin key>`, for `/admin` alone.",
                },
            },
        },
    }


class _Schemas:
    """The schemas of all models, each once, and the references to them."""

    def __init__(self, routes: Iterable[Route]) -> None:
        inputs = {model for route in routes for model in (route.body, route.query) if model is not None}
        outputs = {route.response for route in routes if route.response is not None} | set(_ERROR_BODIES.values())
        modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [
            *((model, _VALIDATION) for model in sorted(inputs, key=_name)),
            *((model, _SERIALIZATION) for model in sorted(outputs, key=_name)),
        ]
        self._refs, definitions = models_json_schema(modes, ref_template=REF_TEMPLATE)
        self.definitions: Json = definitions["$defs"]

    def taken(self, model: type[BaseModel]) -> Json:
        """What is validated."""
        return self._refs[model, _VALIDATION]

    def given(self, model: type[BaseModel]) -> Json:
        """What is answered."""
        return self._refs[model, _SERIALIZATION]

    def taken_in_full(self, model: type[BaseModel]) -> Json:
        """What is validated, not by reference."""
        name = str(self.taken(model)["$ref"]).rsplit("/", 1)[-1]
        schema: Json = self.definitions[name]
        return schema


_VALIDATION: Final[Literal["validation"]] = "validation"
_SERIALIZATION: Final[Literal["serialization"]] = "serialization"


def _operation(route: Route, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": route.description or _first_paragraph(route),
        "tags": [route.tag],
        "responses": {str(route.status): _success(route, schemas), **_errors(route, schemas)},
        "security": _security(route),
    }
    if parameters := [*_path_parameters(route), *_query_parameters(route, schemas), *_header_parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": schemas.taken(route.body)}}
        operation["requestBody"] = {"required": route.body_required, "content": content}
    elif route.raw_body:
        operation["requestBody"] = {"required": False, "content": _in_each(route.raw_body)}
    if route.deprecated:
        operation["deprecated"] = True
    return operation


def _success(route: Route, schemas: _Schemas) -> Json:
    success: Json = {"description": HTTPStatus(route.status).phrase, "content": _answered(route, schemas)}
    if route.reads_spans:
        success["headers"] = {DATA_THROUGH_HEADER: _DATA_THROUGH}
    return success


def _answered(route: Route, schemas: _Schemas) -> Json:
    if route.response is None:
        return _in_each(route.raw_body or (route.content_type,))
    return {route.content_type: {"schema": schemas.given(route.response)}}


def _in_each(content_types: Iterable[str]) -> Json:
    return {each: {} for each in content_types}


def _error_response(status: int, schemas: _Schemas) -> Json:
    content = {"application/json": {"schema": schemas.given(_ERROR_BODIES[status])}}
    response: Json = {"description": HTTPStatus(status).phrase, "content": content}
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return response


def _errors(route: Route, schemas: _Schemas) -> Json:
    unready = {
        str(status): {"description": HTTPStatus(status).phrase, "content": _answered(route, schemas)}
        for status in route.unready_statuses
    }
    if route.access is Access.PUBLIC:
        return unready
    takes_input = route.body is not None or route.query is not None or bool(route.raw_body)
    refusals = _BODY_STATUSES if takes_input else (422,) if _PLACE.search(route.path) else ()
    return {
        str(status): _error(status, route)
        for status in (400, 401, *refusals, *route.refused_statuses, 429, 500, 503, 504)
    }


def _error(status: int, route: Route) -> Json:
    """The usual response by reference; a protocol with errors of its own tells them in the encoding of the request."""
    if route.error_format is None or status not in _SHAPED_STATUSES:
        return {"$ref": f"#/components/responses/{status}"}
    return {"description": HTTPStatus(status).phrase, "content": _in_each(route.raw_body)}


def _security(route: Route) -> list[Json]:
    match route.access:
        case Access.PUBLIC:
            return []
        case Access.PROJECT:
            return [{"ApiKey": []}]
        case Access.ADMIN:
            return [{"Access": []}]


def _path_parameters(route: Route) -> list[Json]:
    names = _PLACE.findall(route.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(route: Route, schemas: _Schemas) -> list[Json]:
    if route.query is None:
        return []
    schema = schemas.taken_in_full(route.query)
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            **({"description": member["description"]} if "description" in member else {}),
            "schema": member,
        }
        for name, member in schema.get("properties", {}).items()
    ]


def _header_parameters(route: Route) -> list[Json]:
    if not route.reads_spans:
        return []
    return [{"name": WAIT_FOR_HEADER, "in": "header", "required": False, **_WAIT_FOR}]


def _operation_id(route: Route) -> str:
    words = re.findall(r"\w+", route.path.replace("{", "by_"))
    return "_".join([route.method.lower(), *words])


def _first_paragraph(route: Route) -> str:
    return (route.handler.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")


def _name(model: type[BaseModel]) -> str:
    return model.__name__


def _version() -> str:
    try:
        return version("clearspan")
    except PackageNotFoundError:
        return "0"
