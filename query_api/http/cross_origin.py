"""Requests of pages of other web sites: which of them browsers may send here, and read the responses of (CORS).

Only routes that take spans accept them, and only from the origins that ``CLEARSPAN_HTTP__ALLOWED_ORIGINS`` names.
Credentials of the browser, such as cookies, are never accepted: a page sends its key in a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.errors import ServiceError
from common.setting_types import ANY_ORIGIN
from query_api.request.route import Response, Route, Router

PREFLIGHT: Final = "OPTIONS"
"""The method by which a browser asks before it sends a request of a page."""

MAX_AGE_S: Final = 7_200
"""How long a browser may keep the answer; Chromium keeps none longer."""

_ANSWER: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "authorization, baggage, content-encoding, content-type, traceparent, tracestate",
    "Access-Control-Max-Age": str(MAX_AGE_S),
}
_READABLE: Final = "Retry-After, X-Request-Id"


def is_allowed_page(headers: Mapping[str, str], origins: frozenset[str]) -> bool:
    """Return whether a page of the request's origin may use a route that takes pages."""
    origin = headers.get("Origin", "")
    return bool(origin) and (origin in origins or ANY_ORIGIN in origins)


def page_headers(headers: Mapping[str, str], origins: frozenset[str]) -> Mapping[str, str]:
    """Return the headers of a response that let a page of an allowed origin read it, on a route that takes pages."""
    if not origins:
        return {}
    varies = {} if ANY_ORIGIN in origins else {"Vary": "Origin"}
    if not is_allowed_page(headers, origins):
        return varies
    origin = ANY_ORIGIN if ANY_ORIGIN in origins else headers["Origin"]
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _READABLE, **varies}


def preflight_route(router: Router, raw_path: str, headers: Mapping[str, str], origins: frozenset[str]) -> Route | None:
    """Return the route that a browser asks about; ``None`` unless the page may use it."""
    try:
        route, _ = router.match(headers.get("Access-Control-Request-Method", ""), raw_path)
    except ServiceError:
        return None
    return route if route.takes_pages and is_allowed_page(headers, origins) else None


def preflight_response() -> Response:
    """Return what a browser may send, to a page of an allowed origin."""
    return Response(b"", status=204, headers=_ANSWER)
