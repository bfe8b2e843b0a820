"""``GET /openapi.json`` and ``GET /docs``: the document of all routes, and one page that renders it.

The page is a single answer: style and script stand inside it, nothing is loaded from elsewhere, and its content
security policy names the two by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import orjson

from query_api.http.openapi import openapi_document
from query_api.request.route import Access, Request, Response, Route

TAG: Final = "About"
HTML: Final = "text/html; charset=utf-8"


def with_docs(routes: Sequence[Route]) -> tuple[Route, ...]:
    """The routes, and the two that tell of all of them."""

    async def show_document(request: Request) -> Response:  # noqa: ARG001 - the one shape of handlers
        """Every route, generated from the models that validate."""
        return Response(document())

    @cache
    def document() -> bytes:
        return orjson.dumps(openapi_document(described))

    # fmt: off
    described = (
        *routes,
        Route("GET", "/openapi.json", show_document, "This document", TAG, None, access=Access.PUBLIC),
        Route("GET", "/docs", show_page, "A page that shows it", TAG, None, access=Access.PUBLIC, content_type="text/html"),
    )
    # fmt: on
    return described


async def show_page(request: Request) -> Response:  # noqa: ARG001 - the one shape of handlers
    """The document for people: every route, its shapes, and a request to try."""
    page, policy = _page()
    return Response(page, content_type=HTML, headers={"Content-Security-Policy": policy, "Cache-Control": "no-cache"})


@cache
def _page() -> tuple[bytes, str]:
    """The page and its content security policy."""
    folder = files("query_api.http.docs")
    style, script, markup = (folder.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js", "page.html"))
    page = markup.replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page.encode(), policy


def _source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
