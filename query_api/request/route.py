"""What a route is, what its handler is given, and what it gives back. Values only; ``dispatch.py`` acts on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias
from uuid import UUID

from multidict import MultiMapping
from pydantic import BaseModel

from common.errors import ServiceError
from common.limits import SpanLimits
from common.project import DEFAULT_USER_ID
from query_api.request.context import ApiContext


class Access(StrEnum):
    """Whose request a route answers."""

    PUBLIC = "public"
    PROJECT = "project"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Request:
    """One request after authentication and validation."""

    context: ApiContext
    """The singletons of the process."""

    project_id: UUID
    """Whose data this request may see and write. The zero UUID on routes that are not of a project."""

    path: Mapping[str, str]
    """The ``{…}`` segments of the route's path, percent-decoded, otherwise as sent."""

    query: Any
    """An instance of the route's ``query`` model, or ``None`` where it has none."""

    body: Any
    """An instance of the route's ``body`` model, the inflated bytes where ``raw_body``, else ``None``; what ``prepare`` makes of it
    where the route has that."""

    headers: MultiMapping[str]
    """The request's headers; names compare without case."""

    user_id: UUID = DEFAULT_USER_ID
    """Who asks, and so whom changes are put down to."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler gives back: the bytes as they go over the wire, before compression."""

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


Prepare: TypeAlias = Callable[[Any, PrepareContext], Any]
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
ErrorShape: TypeAlias = Callable[[ServiceError, Mapping[str, str]], Response | None]


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path, with everything that validates and documents it.

    ``path`` begins with a slash, ends without, and has whole segments ``{name}`` as places.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    answer: type[BaseModel] | None
    """The body of success, for the document; ``None`` where it is not JSON (``answer_type`` says what it is)."""

    body: type[BaseModel] | None = None
    """Validates a JSON body. Where it is not required, an empty body and ``null`` are the model's defaults."""

    body_required: bool = False
    query: type[BaseModel] | None = None
    """Validates the query string; a field that is a list takes every value of its name."""

    status: int = 200
    unready_statuses: tuple[int, ...] = ()
    """Statuses of failure that have the body of success, for the document."""

    refused_statuses: tuple[int, ...] = ()
    """Statuses of refusal that its input does not explain, for the document."""

    ignores_unknown: bool = False
    """Whether unknown members of the body and the query string are ignored, as in every route that creates or edits something. All
    other routes refuse them: a typo would silently widen the answer (contract §1)."""

    access: Access = Access.PROJECT
    raw_body: tuple[str, ...] = ()
    """Content types whose body the handler takes as bytes; any other is 415. It may be compressed without saying so."""

    prepare: Prepare | None = None
    """Turns the body into what the handler takes. A pure function of a module, whose result can be pickled: it runs where the
    body is validated, for a large one in another process (``request_body.py``)."""

    answer_type: str = "application/json"
    error_shape: ErrorShape | None = None
    """Renders errors in a protocol's own form, given the request's headers; ``None`` from it: the usual body."""

    description: str = ""
    deprecated: bool = False
    reads_spans: bool = False
    """Whether the answer says up to when it is complete, and may be asked to wait (``freshness/answers.py``)."""
