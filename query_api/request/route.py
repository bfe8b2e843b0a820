"""What a route is, what its handler receives and returns, and how a request finds its route.

``http/routes.py`` is the table of routes, ``http/dispatch.py`` calls their handlers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote
from uuid import UUID

from multidict import MultiMapping
from pydantic import BaseModel

from common.errors import InvalidInput, NotFound, ServiceError
from common.ids import DEFAULT_USER_ID
from common.limits import SpanLimits
from common.scopes import KeyScope
from common.steps import Steps
from query_api.request.context import ApiContext

NO_PROJECT: Final = UUID(int=0)
"""The project of requests to public and administrator routes."""


READING_SEGMENTS: Final = frozenset({"query", "retrieve", "log", "resolve", "check", "analytics"})
"""The last segments of the paths of routes that read, although their method is POST."""


class Access(StrEnum):
    """The key that a route requires: none, that of a project, or the administrator's.

    ``OPERATOR`` is the administrator's, and none while authentication is off.
    """

    PUBLIC = "public"
    PROJECT = "project"
    ADMIN = "admin"
    OPERATOR = "operator"


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

    scopes: frozenset[KeyScope] = frozenset(KeyScope)
    """What the key may do; everything without authentication."""

    sees_all_projects: bool = False
    """Whether the caller may know how much all projects have stored: the administrator, and everybody without
    authentication."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler returns. ``body`` is sent as it is, except for compression."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None
    """What follows ``body``, in a response whose length is not known. It has begun, and is always closed."""

    changed_ids: tuple[UUID, ...] = ()
    """Ids of what the request changed that neither its path nor ``body`` shows, for the audit log."""


@dataclass(frozen=True, slots=True)
class PrepareContext:
    """What ``prepare`` may know of a request besides its body."""

    path: Mapping[str, str]
    content_type: str | None
    limits: SpanLimits
    now_ns: int
    otlp_partitions: int | None = None
    span_partitions: int | None = None
    logs_partitions: int | None = None
    """How many partitions the topics of intake have, for OTLP, for span JSON and for log records; ``None`` if that is
    unknown yet."""

    takes_logs: bool = True
    """Whether a worker reads the topic of log records, and keeps them."""


class Prepare(Protocol):
    """Converts a body into what the handler takes."""

    def __call__(self, body: Any, /, context: PrepareContext) -> Any:
        """Return the converted body. Raises a ``ServiceError`` if it is not acceptable."""
        ...


class PrepareInSteps(Protocol):
    """Does what ``Prepare`` does, in the event loop, for bodies for which that is cheap."""

    def __call__(self, body: bytes, /, context: PrepareContext) -> Steps[Any]:
        """Return the converted body in the end; ``None`` if ``Prepare`` has to do it. Raises as ``Prepare``."""
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
    needs: KeyScope | None = None
    """The scope of the key; ``None``: ``read`` if the route only reads, else ``write``."""

    raw_body: tuple[str, ...] = ()
    """Content types of a body that is taken as bytes; any other is 415. The body may be compressed without
    ``Content-Encoding``."""

    prepare: Prepare | None = None
    """Converts the body. A pure module-level function with a picklable result, because large bodies are validated and
    prepared in another process (``http/body.py``)."""

    prepare_in_steps: PrepareInSteps | None = None
    """Tries what ``prepare`` does before it, in the event loop. Only with ``raw_body``."""

    content_type: str = "application/json"
    """Documents the content type of success."""

    other_content_types: tuple[str, ...] = ()
    """Documents what success may be instead, as the request asks for it."""

    is_streamed: bool = False
    """Whether the response is a stream of unknown length."""

    takes_pages: bool = False
    """Whether pages of the allowed origins may send requests (``http/cross_origin.py``)."""

    error_format: ErrorFormat | None = None
    """Renders errors in the format of a protocol. Gets the request's headers; returns ``None`` for the usual body."""

    description: str = ""
    deprecated: bool = False
    is_subtree: bool = False
    """Whether the last parameter, ``{rest}``, takes everything below: the text of the request line after the first
    segment, from its slash on."""

    is_in_postgres: bool = False
    """Whether everything that it changes is in Postgres: the entry of the audit log is then on disk with the change."""

    reads_spans: bool = False
    """Whether the response is made of spans: then it says how fresh it is, and the request may wait for its own writes
    (``freshness/headers.py``)."""

    @property
    def scope(self) -> KeyScope:
        """The scope that a key of the project needs."""
        if self.needs is not None:
            return self.needs
        return KeyScope.READ if self._only_reads else KeyScope.WRITE

    @property
    def changes_something(self) -> bool:
        """Whether the route changes something besides storing spans: its requests are in the audit log."""
        return not self._only_reads and self.access is not Access.PUBLIC and self.needs is not KeyScope.INGEST

    @property
    def _only_reads(self) -> bool:
        return self.method == "GET" or self.path.rpartition("/")[2] in READING_SEGMENTS


class MethodNotAllowed(InvalidInput):
    """Method Not Allowed"""

    def __init__(self, allowed: Sequence[str], detail: str | None = None) -> None:
        self.allowed = allowed
        super().__init__(detail)


ADMIN: Final = "admin"
"""The first segment of the administrator's paths."""


class Match(NamedTuple):
    """A route and the values of its path parameters."""

    route: Route
    path: dict[str, str]


class Router:
    """Finds the route of a path and a method.

    Any number of leading ``/api`` segments is skipped, then one ``/preview`` (an old alias of the public API), then one
    trailing slash. From left to right a literal segment wins over a ``{parameter}``, whatever the method: what the
    literal path does not support is 405, not an id. There are no redirects. A subtree takes what has no route
    of its own.

    Raises ``ValueError`` if two routes have the same method and path, or if a path begins with a parameter.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        by_path: dict[str, dict[str, Route]] = defaultdict(dict)
        for route in routes:
            if route.path.startswith("/{"):
                raise ValueError(f"{route.path} begins with a parameter")
            if route.method in by_path[route.path]:
                raise ValueError(f"{route.method} {route.path} is routed twice")
            by_path[route.path][route.method] = route
        self._templates: dict[tuple[int, str], list[_Template]] = defaultdict(list)
        self._subtrees: dict[str, _Template] = {}
        for path, methods in by_path.items():
            template = _Template(path.split("/")[1:], methods)
            if any(route.is_subtree for route in methods.values()):
                self._subtrees[template.segments[0]] = template
            else:
                self._templates[_index(template.segments)].append(template)
        for templates in self._templates.values():
            # From left to right, literals before parameters.
            templates.sort(key=lambda template: [*map(_is_parameter, template.segments)])

    def match(self, method: str, raw_path: str) -> Match:
        """Return the route of a path as sent in the request line. Raises ``NotFound`` or ``MethodNotAllowed``."""
        segments = _segments(raw_path)
        templates = self._templates.get(_index(segments), [])
        fitting = [template for template in templates if template.fits(segments)]
        served = "GET" if method == "HEAD" else method  # the server omits the body
        if not fitting:
            return self._match_subtree(served, raw_path, segments[0])
        template = fitting[0]
        # `/traces/QUERY` is not an id either: it means the literal path, which does not support the method.
        lowercase = [segment.lower() for segment in segments]
        meant = next(candidate for candidate in templates if candidate.fits(lowercase))
        if meant is not template or served not in template.methods:
            would_be_an_id = any(served in candidate.methods for candidate in fitting)
            detail = f"{method} /{'/'.join(segments)} is not supported." if would_be_an_id else None
            raise MethodNotAllowed(meant.allowed(), detail)
        return Match(template.methods[served], template.parameters(segments))

    def required_access(self, raw_path: str) -> Access:
        """Return the access level required before a 404 or 405 is revealed: none for the path of a public route."""
        segments = _segments(raw_path)
        templates = [each for each in self._templates.get(_index(segments), []) if each.fits(segments)][:1]
        found = templates or [each for each in (self._subtrees.get(segments[0]),) if each is not None]
        if any(route.access is Access.PUBLIC for template in found for route in template.methods.values()):
            return Access.PUBLIC
        return Access.OPERATOR if segments[:1] == [ADMIN] else Access.PROJECT

    def _match_subtree(self, method: str, raw_path: str, name: str) -> Match:
        subtree = self._subtrees.get(name)
        if subtree is None:
            raise NotFound
        if method not in subtree.methods:
            raise MethodNotAllowed(subtree.allowed())
        return Match(subtree.methods[method], {"rest": raw_path.partition(f"/{name}")[2]})


class _Template(NamedTuple):
    """One path, in segments, with its methods."""

    segments: Sequence[str]
    methods: dict[str, Route]

    def fits(self, segments: Sequence[str]) -> bool:
        pairs = zip(self.segments, segments, strict=True)
        return all(sent == segment or (_is_parameter(segment) and sent != "") for segment, sent in pairs)

    def parameters(self, segments: Sequence[str]) -> dict[str, str]:
        pairs = zip(self.segments, segments, strict=True)
        return {segment[1:-1]: sent for segment, sent in pairs if _is_parameter(segment)}

    def allowed(self) -> list[str]:
        return sorted([*self.methods, *(["HEAD"] if "GET" in self.methods else [])])


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{")


def _index(segments: Sequence[str]) -> tuple[int, str]:
    """Templates are grouped by their length and first segment, which is never a parameter."""
    return len(segments), segments[0]


def _segments(raw_path: str) -> list[str]:
    """Split a path and percent-decode each segment, so that ``%2F`` stays inside its segment."""
    segments = [unquote(segment, errors="replace") for segment in raw_path.split("/")[1:]]
    while segments and segments[0] == "api":
        del segments[0]
    if segments and segments[0] == "preview":
        del segments[0]
    if len(segments) > 1 and segments[-1] == "":
        del segments[-1]
    return segments or [""]  # a prefix without a slash means its root
