"""``GET /``: where everything is, as a page for people and as JSON for programs."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

from query_api.request.json_body import json_response
from query_api.request.route import Request, Response

HTML: Final = "text/html; charset=utf-8"
POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Links(BaseModel):
    """Addresses relative to the one that was asked, so that they are right below a prefix too."""

    page: str = Field("./", description="This, as a page.")
    docs: str = Field("./docs", description="Every route, as a page.")
    openapi: str = Field("./openapi.json", description="Every route, as an OpenAPI document.")
    livez: str = Field("./livez", description="Whether the process lives.")
    readyz: str = Field("./readyz", description="Whether it can work, and what is missing.")
    metrics: str = Field("./metrics", description="What it counts, for Prometheus.")


class Home(BaseModel):
    """What this is, and where everything is."""

    name: str = "Clearspan"
    links: Links = Links()


async def home(request: Request) -> Response:
    """Where everything is: a page for clients that accept HTML, JSON for others."""
    if not _accepts_html(request.headers.get("Accept", "")):
        return json_response(Home(), headers={"Vary": "Accept"})
    headers = {"Content-Security-Policy": POLICY, "Vary": "Accept"}
    return Response(_PAGE.encode(), content_type=HTML, headers=headers)


def _accepts_html(accept: str) -> bool:
    ranges = [part.replace(" ", "").lower().split(";") for part in accept.split(",")]
    return any(media_type == "text/html" and "q=0" not in parameters for media_type, *parameters in ranges)


def _item(name: str, address: str) -> str:
    return f'<li><a href="{address}">{name}</a> {Links.model_fields[name].description}</li>'


_PAGE: Final = "\n".join(
    [
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><title>Clearspan</title></head>',
        "<body>",
        "<h1>Clearspan</h1>",
        "<ul>",
        *(_item(name, address) for name, address in Links().model_dump(exclude={"page"}).items()),
        "</ul>",
        "</body>",
        "</html>",
        "",
    ]
)
