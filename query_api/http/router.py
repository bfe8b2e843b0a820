"""Find the route of a path and a method (contract §1).

Any number of leading ``/api`` segments is skipped, then one ``/preview`` (an old alias of the public API), then one
trailing slash. From left to right a literal segment wins over a ``{parameter}``, whatever the method: what the literal
path does not support is 405, not an id. There are no redirects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from common.errors import NotFound
from query_api.request.errors import MethodNotAllowed
from query_api.request.route import Access, Route

ADMIN: Final = "admin"
"""The first segment of the administrator's paths."""


class Match(NamedTuple):
    """A route and the values of its path parameters."""

    route: Route
    path: dict[str, str]


class Router:
    """All routes. Raises ``ValueError`` if two have the same method and path, or if a path begins with a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        by_path: dict[str, dict[str, Route]] = defaultdict(dict)
        for route in routes:
            if route.path.startswith("/{"):
                raise ValueError(f"{route.path} begins with a parameter")
            if route.method in by_path[route.path]:
                raise ValueError(f"{route.method} {route.path} is routed twice")
            by_path[route.path][route.method] = route
        self._templates: dict[tuple[int, str], list[_Template]] = defaultdict(list)
        for path, methods in by_path.items():
            template = _Template(path.split("/")[1:], methods)
            self._templates[_index(template.segments)].append(template)
        for templates in self._templates.values():
            templates.sort(key=lambda template: template.is_parameter)

    def match(self, method: str, raw_path: str) -> Match:
        """Return the route of a path as sent in the request line. Raises ``NotFound`` or ``MethodNotAllowed``."""
        segments = _segments(raw_path)
        templates = self._templates.get(_index(segments), [])
        fitting = [template for template in templates if template.fits(segments)]
        if not fitting:
            raise NotFound
        template, served = fitting[0], _served_by(method)
        # `/traces/QUERY` is not an id either: it means the literal path, which does not support the method.
        lowercase = [segment.lower() for segment in segments]
        meant = next(candidate for candidate in templates if candidate.fits(lowercase))
        if meant is not template or served not in template.methods:
            would_be_an_id = any(served in candidate.methods for candidate in fitting)
            detail = f"{method} /{'/'.join(segments)} is not supported." if would_be_an_id else None
            raise MethodNotAllowed(meant.allowed(), detail)
        return Match(template.methods[served], template.parameters(segments))


def required_access(raw_path: str) -> Access:
    """Return the access that a request needs before it is told that a path, or its method, does not exist."""
    return Access.ADMIN if _segments(raw_path)[:1] == [ADMIN] else Access.PROJECT


class _Template:
    """One path with its methods. Sorting by ``is_parameter`` puts literals first, from left to right."""

    def __init__(self, segments: Sequence[str], methods: dict[str, Route]) -> None:
        self.segments: Final = segments
        self.methods: Final = methods
        self.is_parameter: Final = tuple(segment.startswith("{") for segment in segments)

    def fits(self, segments: Sequence[str]) -> bool:
        return all(
            sent != "" if is_parameter else sent == segment
            for is_parameter, segment, sent in zip(self.is_parameter, self.segments, segments, strict=True)
        )

    def parameters(self, segments: Sequence[str]) -> dict[str, str]:
        triples = zip(self.is_parameter, self.segments, segments, strict=True)
        return {segment[1:-1]: sent for is_parameter, segment, sent in triples if is_parameter}

    def allowed(self) -> list[str]:
        return sorted([*self.methods, *(["HEAD"] if "GET" in self.methods else [])])


def _index(segments: Sequence[str]) -> tuple[int, str]:
    """Templates are grouped by their length and first segment, which is never a parameter."""
    return len(segments), segments[0]


def _served_by(method: str) -> str:
    """HEAD is served by GET; the server omits the body."""
    return "GET" if method == "HEAD" else method


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
