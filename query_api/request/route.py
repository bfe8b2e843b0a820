"""What a route is, what its handler receives, and what it returns. Values only; ``http/dispatch.py`` acts on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from multidict import MultiMapping
from pydantic import BaseModel

from common.errors import ServiceError
from common.ids import DEFAULT_USER_ID
from common.limits import SpanLimits
from query_api.request.context import ApiContext

NO_PROJECT: Final = UUID(int=0)
"""The project of requests to public and administrator routes."""


class Access(StrEnum):
    """The key that a route requires: none, that of a project, or the administrator's."""

    PUBLIC = "public"
    PROJECT = "project"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Request:
    """One request after authentication and validation."""

    context: ApiContext
    """The singletons of the process."""

    project_id: UUID
    """The project whose data this request may read and write; ``NO_PROJECT`` on routes without a project."""

    path: Mapping[str, str]
    """The values of the ``{…}`` segments of the route's path, percent-decoded."""

    query: Any
    """An instance of the route's ``query`` model, or ``None`` if it has none."""

    body: Any
    """The result of the route's ``prepare`` if it has one; else an instance of its ``body`` model; else the inflated
    bytes if it takes a ``raw_body``; else ``None``."""

    headers: MultiMapping[str]
    """The request's headers; names compare case-insensitively."""

    user_id: UUID = DEFAULT_USER_ID
    """The user of the key, recorded as the author of changes."""

    @property
    def sees_all_projects(self) -> bool:
        """Whether the caller may know how much all projects have stored: the administrator, and everybody without
        authentication."""
        return self.context.keys is None or self.project_id == NO_PROJECT


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler returns. ``body`` is sent as it is, except for compression."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrepareContext:
    """What ``prepare`` may know of a request besides its body."""

    path: Mapping[str, str]
    content_type: str | None
    limits: SpanLimits
    now_ns: int


class Prepare(Protocol):
    """Converts a body into what the handler takes."""

    def __call__(self, body: Any, /, context: PrepareContext) -> Any:
        """Return the converted body. Raises a ``ServiceError`` if it is not acceptable."""
        ...


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
ErrorFormat: TypeAlias = Callable[[ServiceError, Mapping[str, str]], Response | None]


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path, with everything that validates and documents it.

    ``path`` begins with a slash, does not end with one, and may have whole segments ``{name}``.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    response: type[BaseModel] | None
    """Documents the body of success; ``None`` if it is not JSON (see ``content_type``)."""

    body: type[BaseModel] | None = None
    """Validates a JSON body. Unless ``body_required``, an empty body and ``null`` mean the model's defaults."""

    body_required: bool = False
    query: type[BaseModel] | None = None
    """Validates the query string; a field that is a list takes every value of its name."""

    status: int = 200
    unready_statuses: tuple[int, ...] = ()
    """Documents statuses of failure whose body is that of success."""

    refused_statuses: tuple[int, ...] = ()
    """Documents error statuses that do not follow from the input of the route."""

    ignores_unknown: bool = False
    """Whether unknown members of the body and the query string are ignored, as on every route that creates or edits
    something. Other routes reject them, because a typo would silently widen the result (contract §1)."""

    access: Access = Access.PROJECT
    raw_body: tuple[str, ...] = ()
    """Content types of a body that is taken as bytes; any other is 415. The body may be compressed without
    ``Content-Encoding``."""

    prepare: Prepare | None = None
    """Converts the body. A pure module-level function with a picklable result, because large bodies are validated and
    prepared in another process (``http/body.py``)."""

    content_type: str = "application/json"
    """Documents the content type of success."""

    error_format: ErrorFormat | None = None
    """Renders errors in the format of a protocol. Gets the request's headers; returns ``None`` for the usual body."""

    description: str = ""
    deprecated: bool = False
    reads_spans: bool = False
    """Whether the response is made of spans: then it says how fresh it is, and the request may wait for its own writes
    (``freshness/headers.py``)."""
