"""Which route a path and a method mean (contract §1).

Any number of leading ``/api`` segments is skipped, then one ``/preview`` (an old alias of the public API), then one
trailing slash. A literal segment wins over a ``{place}``, from left to right and whatever the method: what the literal
path cannot do is 405, not somebody's id. Never a redirect.
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
"""What the paths of the admin begin with."""


class Match(NamedTuple):
    """A route and what stood in its places."""

    route: Route
    path: dict[str, str]


class Router:
    """All routes. Two of one method and path, or one that begins with a place, are an error at the start."""

    def __init__(self, routes: Iterable[Route]) -> None:
        by_path: dict[str, dict[str, Route]] = defaultdict(dict)
        for route in routes:
            if route.path.startswith("/{"):
                raise ValueError(f"{route.path} begins with a place")
            if route.method in by_path[route.path]:
                raise ValueError(f"{route.method} {route.path} is routed twice")
            by_path[route.path][route.method] = route
        self._templates: dict[tuple[int, str], list[_Template]] = defaultdict(list)
        for path, methods in by_path.items():
            template = _Template(path.split("/")[1:], methods)
            self._templates[_shelf(template.segments)].append(template)
        for templates in self._templates.values():
            templates.sort(key=lambda template: template.places)
        self._literal = {tuple(path.split("/")[1:]): methods for path, methods in by_path.items() if "{" not in path}

    def match(self, method: str, raw_path: str) -> Match:
        """The route of a path as it stood in the request line. Raises ``NotFound`` or ``MethodNotAllowed``."""
        segments = _segments(raw_path)
        literal = self._literal.get(tuple(segments), {}).get(method)
        if literal is not None:  # as most are; below it would win as well
            return Match(literal, {})
        templates = self._templates.get(_shelf(segments), [])
        fitting = [template for template in templates if template.fits(segments)]
        if not fitting:
            raise NotFound
        # `/traces/QUERY` is no id either: the literal is meant, and refused.
        meant = next(template for template in templates if template.fits([part.lower() for part in segments]))
        asked = _served_by(method)
        if meant.places != fitting[0].places or asked not in fitting[0].methods:
            taken_for_an_id = any(asked in template.methods for template in fitting)
            detail = f"{method} /{'/'.join(segments)} is not supported." if taken_for_an_id else None
            raise MethodNotAllowed(meant.allowed(), detail)
        return Match(fitting[0].methods[asked], fitting[0].values(segments))


def guard_of(raw_path: str) -> Access:
    """Whose key is needed to be told that there is no such path, or not with this method."""
    return Access.ADMIN if _segments(raw_path)[:1] == [ADMIN] else Access.PROJECT


class _Template:
    """One path with its methods. ``places`` sorts literals before places, from left to right."""

    def __init__(self, segments: Sequence[str], methods: dict[str, Route]) -> None:
        self.segments: Final = segments
        self.methods: Final = methods
        self.places: Final = tuple(segment.startswith("{") for segment in segments)

    def fits(self, segments: Sequence[str]) -> bool:
        return all(
            part != "" if place else part == segment
            for place, segment, part in zip(self.places, self.segments, segments, strict=True)
        )

    def values(self, segments: Sequence[str]) -> dict[str, str]:
        triples = zip(self.places, self.segments, segments, strict=True)
        return {segment[1:-1]: part for place, segment, part in triples if place}

    def allowed(self) -> list[str]:
        methods = [*self.methods, *(["HEAD"] if "GET" in self.methods else [])]
        return sorted(methods)


def _shelf(segments: Sequence[str]) -> tuple[int, str]:
    """Where to look: the first segment of a route is never a place."""
    return len(segments), segments[0] if segments else ""


def _served_by(method: str) -> str:
    """A HEAD is answered like its GET; the server leaves the body out."""
    return "GET" if method == "HEAD" else method


def _segments(raw_path: str) -> list[str]:
    """The segments that routes are matched by, percent-decoded one by one, so that ``%2F`` stays inside its segment."""
    segments = [unquote(part, errors="replace") for part in raw_path.split("/")[1:]]
    while segments and segments[0] == "api":
        del segments[0]
    if segments and segments[0] == "preview":
        del segments[0]
    if len(segments) > 1 and segments[-1] == "":
        del segments[-1]
    return segments or [""]  # what is below a prefix, without a slash, is its root
