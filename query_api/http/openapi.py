"""Generate the OpenAPI 3.1 document of the routes from the models that validate requests.

``examples.json`` holds examples by method and path: ``parameters`` of the path and the query string, the body
``request``, and the body ``response``. ``tests/integration/test_openapi_examples.py`` sends every request to an API and
compares its response with the example. To add one, write its request with the response ``null``, and run ``make
golden``.

Source: OpenAPI 3.1.1; JSON Schema 2020-12 as pydantic writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson
from pydantic import BaseModel, Field

from common.scopes import KeyScope
from query_api.freshness.headers import COORDINATES_HEADER, DATA_THROUGH_HEADER, WAIT_FOR_HEADER
from query_api.http.component_schemas import ComponentSchemas
from query_api.http.operation_ids import operation_id
from query_api.request.json_body import ApiModel
from query_api.request.route import Access, Route

FILE: Final = "examples.json"


class Example(NamedTuple):
    """A request to a route and its response; ``None`` is no body."""

    parameters: Mapping[str, Any]
    request: Any
    response: Any


@cache
def all_examples() -> Mapping[str, Example]:
    """Return the examples by method and path, as in ``POST /spans/query``."""
    stored = orjson.loads(files(__package__).joinpath(FILE).read_bytes())
    return {
        name: Example(example.get("parameters", {}), example.get("request"), example["response"])
        for name, example in stored.items()
    }


def add_example(operation: dict[str, Any], route: Route) -> None:
    """Add the example of the route, if there is one, to its operation in the document."""
    example = all_examples().get(f"{route.method} {route.path}")
    if example is None:
        return
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example.parameters:
            parameter["example"] = example.parameters[parameter["name"]]
    if example.request is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = example.request
    operation["responses"][str(route.status)]["content"][route.content_type]["example"] = example.response


Json: TypeAlias = dict[str, Any]

_IDS_OF_HISTORIES: Final = re.compile(r"(application|evaluator|environment|query)(_variant|_revision)?_id")
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_BODY_STATUSES: Final = (404, 409, 413, 415, 422)
_FORMATTED_STATUSES: Final = (400, 403, 413, 429, 503, 504)
"""Errors that a route may render in the format of its protocol (``Route.error_format``)."""
_DATA_THROUGH: Final[Json] = {
    "schema": {"type": "string", "format": "date-time"},
    "description": "Everything that Kafka had accepted by this time is in the response. Absent if the time is unknown.",
}
_COORDINATES: Final[Json] = {
    "schema": {"type": "string"},
    "description": f"Where the spans are in Kafka. A query with it in `{WAIT_FOR_HEADER}` waits until they are stored.",
}
_RETRY_AFTER: Final[Json] = {
    "schema": {"type": "integer"},
    "description": "The number of seconds after which to try again.",
}
_WAIT_FOR: Final[Json] = {
    "schema": {"type": "string"},
    "description": "The records to wait for before the request is handled, separated by commas: values of "
    "`X-Clearspan-Coordinates`, or `topic/partition/offset` of records that the project has written to Kafka itself.",
}
_SECURITY: Final[Mapping[Access, list[Json]]] = {
    Access.PUBLIC: [],
    Access.PROJECT: [{"ApiKey": []}],
    Access.ADMIN: [{"Access": []}],
    Access.OPERATOR: [{"Access": []}],
}
_DESCRIPTION: Final = """\
Clearspan stores and queries the spans of LLM and agent applications.

Every route is available at the root and below `/api`, with and without a trailing slash. Request bodies are JSON and \
may be compressed with `Content-Encoding: gzip`. Responses of 1,000 bytes and more are compressed if the client \
accepts gzip."""
TAGS: Final[Mapping[str, str]] = {
    "Spans": "Query spans and get them by their ids.",
    "Traces": "Query, get and delete traces.",
    "Tracing": "Older forms of the span and trace routes, for existing clients.",
    "Simple traces": "Write and read traces of one span, such as annotations.",
    "Annotations": "Write and read what people and evaluators say about spans.",
    "Invocations": "Write and read runs of applications as traces of one span.",
    "Analytics": "Aggregate spans over time, and list their sessions and users.",
    "Explorer": "The web page, for browsers.",
    "Intake": "Send spans as JSON or OTLP. A request is answered when Kafka has acknowledged its spans.",
    "Applications": "Manage applications.",
    "Application variants": "Manage the variants of applications.",
    "Application revisions": "Commit, read, compare and deploy revisions of application variants.",
    "Simple applications": "Manage applications together with the data of their first variant.",
    "Evaluators": "Manage evaluators.",
    "Evaluator variants": "Manage the variants of evaluators.",
    "Evaluator revisions": "Commit, read, compare and deploy revisions of evaluator variants.",
    "Simple evaluators": "Manage evaluators together with the data of their first variant.",
    "Environments": "Manage environments, to which revisions of applications and evaluators are deployed.",
    "Environment variants": "Manage the variants of environments.",
    "Environment revisions": "Commit, read and compare revisions of environment variants.",
    "Simple environments": "Manage environments together with the data of their first variant.",
    "Queries": "Manage saved queries.",
    "Query variants": "Manage the variants of saved queries.",
    "Query revisions": "Commit, read, compare and run revisions of saved queries.",
    "Simple queries": "Manage saved queries together with the data of their first variant.",
    "Subscriptions": "Deliver spans to other systems as they are stored.",
    "Alerts": "Send a message when a measure of spans passes a bound.",
    "Keys": "Manage the API keys of the project.",
    "Audit log": "Read who changed what, and who was refused.",
    "Workflows": "Read application revisions under the names that the SDK uses.",
    "Accounts": "Create accounts, inspect API keys, and delete projects.",
    "Retention": "Limit how long spans are kept and how much they take, and see what is deleted and when.",
    "Masking": "Rules by which workers replace or remove content before they store it.",
    "Dead letters": "List, show, replay and drop the records and spans that could not be stored, of all projects.",
    "Status": "Get the time up to which data is queryable, and the status of the installation.",
    "Health": "Probes and metrics.",
    "About": "The OpenAPI document and the pages of this service.",
}


class Problem(ApiModel):
    """One problem of a request."""

    type: str = Field(description="The type of the problem, as pydantic names it.")
    loc: list[str | int] = Field(description="The location: `body`, `path` or `query`, followed by names and indexes.")
    msg: str = Field(description="The problem in words.")
    input: Any = Field(None, description="The value at the location, shortened if it is long.")
    ctx: dict[str, Any] | None = Field(None, description="Details of the problem.")


class InvalidRequestError(ApiModel):
    """The request does not match the schema of the route."""

    detail: list[Problem] = Field(description="The problems, at most 100.")


class TextError(ApiModel):
    """An error with a message."""

    detail: str = Field(description="The error message.")


class MessageDetail(ApiModel):
    """An error message, and the id of its entry in the log."""

    message: str = Field(description="The error message.")
    operation_id: str | None = Field(None, description="With status 500: the id of the log entry of the error.")


class MessageError(ApiModel):
    """An error with a message and, with status 500, an id."""

    detail: MessageDetail = Field(description="The error.")


class ConflictDetail(ApiModel):
    """The member of the request that conflicts with stored data."""

    message: str = Field(description="The error message.")
    conflict: dict[str, str] = Field(description="The name of the member and its value.")


class RevisionConflictDetail(ApiModel):
    """Another commit came first."""

    code: Literal["revision_conflict"] = Field(description="Always `revision_conflict`.")
    message: str = Field(description="The error message.")
    retryable: bool = Field(description="Whether the same request can succeed later.")
    next_step: str = Field(description="What the client should do.")
    details: dict[str, str | None] = Field(description="`base_revision_id` and `current_revision_id`.")


class ConflictError(ApiModel):
    """The request conflicts with stored data."""

    detail: str | ConflictDetail | RevisionConflictDetail = Field(description="The conflict.")


_ERROR_BODIES: Final[Mapping[int, type[BaseModel]]] = {
    400: TextError,
    401: MessageError,
    403: TextError,
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
    """Return the document. Paths are in the order of the routes."""
    schemas = ComponentSchemas(routes, _ERROR_BODIES.values())
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Clearspan", "version": version("clearspan"), "description": _DESCRIPTION},
        "tags": [{"name": tag, "description": TAGS[tag]} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas.definitions,
            "responses": {str(status): _error_response(status, schemas) for status in _ERROR_BODIES},
            "securitySchemes": {
                "ApiKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`ApiKey <key>`, or the key alone. The key decides the project of the request,"
                    " and its scopes what it may do.",
                },
                "Access": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`Access <admin key>`, only for paths below `/admin`.",
                },
            },
        },
    }


def _operation(route: Route, schemas: ComponentSchemas) -> Json:
    operation: Json = {
        "operationId": operation_id(route.method, route.path),
        "summary": route.summary,
        "description": route.description or _first_paragraph(route),
        "tags": [route.tag],
        **({"x-scope": route.scope} if route.access is Access.PROJECT else {}),
        "responses": {str(route.status): _success(route, schemas), **_errors(route, schemas)},
        "security": _SECURITY[route.access],
    }
    if parameters := [*_path_parameters(route), *_query_parameters(route, schemas), *_header_parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": schemas.reference(route.body)}}
        operation["requestBody"] = {"required": route.body_required, "content": content}
    elif route.raw_body:
        operation["requestBody"] = {"required": False, "content": _without_model(route.raw_body)}
    if route.deprecated:
        operation["deprecated"] = True
    add_example(operation, route)
    return operation


def _response(status: int, content: Json) -> Json:
    return {"description": HTTPStatus(status).phrase, "content": content}


def _success(route: Route, schemas: ComponentSchemas) -> Json:
    success = _response(route.status, _success_content(route, schemas))
    if route.reads_spans:
        success["headers"] = {DATA_THROUGH_HEADER: _DATA_THROUGH}
    if route.needs is KeyScope.INGEST and route.body is not None:
        success["headers"] = {COORDINATES_HEADER: _COORDINATES}
    return success


def _success_content(route: Route, schemas: ComponentSchemas) -> Json:
    if route.response is None:
        return _without_model(route.raw_body or (route.content_type, *route.other_content_types))
    return {route.content_type: {"schema": schemas.reference(route.response)}}


def _without_model(content_types: Iterable[str]) -> Json:
    return {content_type: {"schema": _raw_schema(content_type)} for content_type in content_types}


def _raw_schema(content_type: str) -> Json:
    """Return the schema of a body without a model. Generators need one to offer the body at all."""
    if content_type == "application/json":
        return {"type": "object"}
    return {"type": "string"} if content_type.startswith("text/") else {"type": "string", "format": "binary"}


def _error_response(status: int, schemas: ComponentSchemas) -> Json:
    schema = schemas.reference(_ERROR_BODIES[status])
    response = _response(status, {"application/json": {"schema": schema}})
    if status in (429, 503):
        response["headers"] = {"Retry-After": _RETRY_AFTER}
    return response


def _errors(route: Route, schemas: ComponentSchemas) -> Json:
    if route.access is Access.PUBLIC:
        content = _success_content(route, schemas)
        return {str(status): _response(status, content) for status in route.unready_statuses}
    takes_input = route.body is not None or route.query is not None or bool(route.raw_body)
    input_statuses = _BODY_STATUSES if takes_input else (422,) if _PARAMETER.search(route.path) else ()
    statuses = (400, 401, 403, *input_statuses, *route.refused_statuses, 429, 500, 503, 504)
    return {str(status): _error(status, route) for status in statuses}


def _error(status: int, route: Route) -> Json:
    """Return a reference to the usual response, or the format of the protocol, in the encoding of the request."""
    if route.error_format is None or status not in _FORMATTED_STATUSES:
        return {"$ref": f"#/components/responses/{status}"}
    return _response(status, _without_model(route.raw_body))


def _path_parameters(route: Route) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"The id of the {name.removesuffix('_id').replace('_', ' ')}.",
            "schema": {"type": "string", **({"format": "uuid"} if _IDS_OF_HISTORIES.fullmatch(name) else {})},
        }
        for name in _PARAMETER.findall(route.path)
    ]


def _query_parameters(route: Route, schemas: ComponentSchemas) -> list[Json]:
    if route.query is None:
        return []
    schema = schemas.schema(route.query)
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            **({"description": member["description"]} if "description" in member else {}),
            "schema": _as_text(member),
        }
        for name, member in schema.get("properties", {}).items()
    ]


def _as_text(member: Json) -> Json:
    """Return the schema of a parameter: of what a body has as a value or its JSON text, only the text."""
    forms = member.get("anyOf", ())
    if {"type": "string"} not in forms or not any("$ref" in form or form.get("type") == "array" for form in forms):
        return member
    text = {"type": "string", "contentMediaType": "application/json"}
    return {**member, "anyOf": [text, {"type": "null"}]}


def _header_parameters(route: Route) -> list[Json]:
    return [{"name": WAIT_FOR_HEADER, "in": "header", "required": False, **_WAIT_FOR}] if route.reads_spans else []


def _first_paragraph(route: Route) -> str:
    return (getattr(route.handler, "func", route.handler).__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")
