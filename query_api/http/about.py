"""Routes about the process and its API: probes and metrics, the OpenAPI document, and the page that renders it.

Each page is one response: style and script are inline, nothing is loaded from elsewhere, and the content security
policy of ``/docs`` names both by their hashes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field

from common.errors import ServiceError
from query_api.explorer.routes import show_page
from query_api.http.openapi import openapi_document
from query_api.request.context import Check
from query_api.request.json_body import ApiModel, json_response
from query_api.request.route import Access, Request, Response, Route

TAG: Final = "About"
HTML: Final = "text/html; charset=utf-8"


class Links(ApiModel):
    """Addresses relative to the requested one, so that they also work below a prefix."""

    explorer: str = Field("./ui/", description="The explorer, a web page.")
    docs: str = Field("./docs", description="Every route, as a page.")
    openapi: str = Field("./openapi.json", description="Every route, as an OpenAPI document.")
    livez: str = Field("./livez", description="Whether the process is alive.")
    readyz: str = Field("./readyz", description="Whether the process can answer requests, and what is missing.")
    metrics: str = Field("./metrics", description="Metrics of the process, for Prometheus.")


class Home(ApiModel):
    """The name of the service and the addresses of its pages."""

    name: str = Field("Clearspan", description="The name of the service.")
    links: Links = Field(Links(), description="The addresses of its pages.")


def with_about(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Return the routes, followed by the routes of the pages. The OpenAPI document describes all of them."""

    async def show_document(request: Request) -> Response:  # noqa: ARG001 - a handler
        """Return this OpenAPI document, generated from the models that validate requests."""
        return Response(document())

    @cache
    def document() -> bytes:
        return orjson.dumps(openapi_document(described))

    # fmt: off
    described = (
        *routes,
        Route("GET", "/", show_home, "Get the addresses of all pages.", TAG, Home, access=Access.PUBLIC),
        Route("GET", "/openapi.json", show_document, "Get the OpenAPI document.", TAG, None, access=Access.PUBLIC),
        Route("GET", "/docs", show_docs, "Get this documentation as a page.", TAG, None, access=Access.PUBLIC,
              content_type="text/html"),
    )
    # fmt: on
    return described


async def show_home(request: Request) -> Response:
    """Return the explorer to clients that accept HTML, and the addresses of all pages as JSON to others."""
    if _accepts_html(request.headers.get("Accept", "")):
        return show_page(request, base="./ui/")
    return json_response(Home(), headers={"Vary": "Accept"})


async def show_docs(request: Request) -> Response:  # noqa: ARG001 - a handler
    """Return a page with every route, its schemas, and a form to try it."""
    page, policy = _docs()
    return Response(page, content_type=HTML, headers={"Content-Security-Policy": policy, "Cache-Control": "no-cache"})


def _accepts_html(accept: str) -> bool:
    ranges = [part.replace(" ", "").lower().split(";") for part in accept.split(",")]
    return any(media_type == "text/html" and "q=0" not in parameters for media_type, *parameters in ranges)


@cache
def _docs() -> tuple[bytes, str]:
    """Return the page and its content security policy."""
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


class Liveness(ApiModel):
    """The process is alive."""

    status: Literal["ok"] = Field("ok", description="Always `ok`.")


class Readiness(ApiModel):
    """Whether the process can answer requests, and what is missing if not."""

    status: Literal["ready", "not ready"] = Field(description="Whether the process can answer requests.")
    waiting_for: dict[str, str] | None = Field(None, description="The systems that do not answer, each with a reason.")


async def livez(request: Request) -> Response:  # noqa: ARG001 - a handler
    """Return 200 while the process is alive."""
    return json_response(Liveness())


async def readyz(request: Request) -> Response:
    """Return 200 if every system responds, else 503 with the systems that do not, and why."""
    checks, timeout_s = request.context.checks, request.context.limits.check_s
    reasons = await asyncio.gather(*(_reason(check, timeout_s) for check in checks.values()))
    missing = {name: reason for name, reason in zip(checks, reasons, strict=True) if reason is not None}
    if missing:
        readiness = Readiness(status="not ready", waiting_for=missing)
        return json_response(readiness, status=503, headers={"Retry-After": "1"})
    return json_response(Readiness(status="ready"))


async def metrics(request: Request) -> Response:  # noqa: ARG001 - a handler
    """Return the metrics of the process in the text format of Prometheus."""
    return Response(generate_latest(), content_type=CONTENT_TYPE_LATEST)


async def _reason(check: Check, timeout_s: float) -> str | None:
    """Return why a system does not answer, or ``None`` if it does."""
    try:
        async with asyncio.timeout(timeout_s):
            await check()
    except ServiceError as error:
        return error.public_message
    except TimeoutError:
        return f"No answer within {timeout_s:g} s."
    return None
