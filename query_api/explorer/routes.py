"""Serve the explorer: ``GET /`` for browsers, and everything below ``/ui/`` (contract §8).

The page is plain ES modules without a build step (ADR 0016). The server reads all files once, compresses them once, and
fills two things into ``index.html``: the address of ``/ui/`` relative to the requested one, so that the page works below
any prefix, and the list of modules, so that the browser loads them side by side instead of one import after another.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from common.errors import NotFound
from query_api.request.route import Access, Request, Response, Route

TAG: Final = "Explorer"
FILES: Final = "files"
"""Below ``/ui/files/`` are the files of the page; every other address below ``/ui/`` is a view of the page."""

DEPTH_MAX: Final = 5
"""Segments of an address below ``/ui/``."""

CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
_IMPORT_MAP: Final = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)


class File(NamedTuple):
    """One file of the page, ready to be sent."""

    content: bytes
    compressed: bytes
    content_type: str
    etag: str


def explorer_routes() -> tuple[Route, ...]:
    """Return the routes below ``/ui``: one per number of segments, because a parameter matches one segment."""
    paths = ["/ui", *("/ui" + "".join(f"/{{s{n}}}" for n in range(depth)) for depth in range(1, DEPTH_MAX + 1))]
    return tuple(
        Route(
            "GET", path, show, "Get the explorer, or one of its files.", TAG, None,
            access=Access.PUBLIC, content_type="text/html",
        )
        for path in paths
    )  # fmt: skip


async def show(request: Request) -> Response:
    """Return a file of the page, or the page itself for every address that is a view."""
    segments = [request.path[f"s{n}"] for n in range(len(request.path))]
    if segments[:1] != [FILES]:
        return page_response("../" * (len(segments) - 1) or "./", request)
    found = page_files().get("/".join(segments[1:]))
    if found is None:
        raise NotFound
    return _file_response(found, request, {})


def page_response(base: str, request: Request) -> Response:
    """Return the page. ``base`` leads from the requested address to ``/ui/``."""
    page, policy = _page(base)
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "same-origin"}
    return _file_response(page, request, headers)


def _file_response(found: File, request: Request, headers: dict[str, str]) -> Response:
    headers = {"ETag": found.etag, "Cache-Control": "no-cache", "Vary": "Accept, Accept-Encoding", **headers}
    if request.headers.get("If-None-Match") == found.etag:
        return Response(b"", status=304, content_type=found.content_type, headers=headers)
    return Response(found.content, content_type=found.content_type, headers=headers)


@cache
def page_files() -> dict[str, File]:
    """Return every file of the page by its path below ``page/``. Tests and the type checker's files are left out."""
    return dict(_read(files("query_api.explorer").joinpath("page"), ""))


def _read(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    found: list[tuple[str, File]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        suffix = "." + entry.name.rpartition(".")[2]
        if entry.is_dir() and entry.name != "node_modules":
            found += _read(entry, f"{prefix}{entry.name}/")
        elif prefix + entry.name not in _NOT_SERVED and suffix in CONTENT_TYPES:
            found.append((prefix + entry.name, _file(entry.read_bytes(), CONTENT_TYPES[suffix])))
    return found


_NOT_SERVED: Final = frozenset({"package.json", "package-lock.json", "tsconfig.json", "index.html"})


def _file(content: bytes, content_type: str) -> File:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return File(content, gzip.compress(content, mtime=0), content_type, etag)


@cache
def _page(base: str) -> tuple[File, str]:
    """Return ``index.html`` for addresses from which ``base`` leads to ``/ui/``, and its content security policy."""
    markup = files("query_api.explorer").joinpath("page/index.html").read_text("utf-8")
    names = page_files()
    modules = "\n".join(
        f'<link rel="modulepreload" href="{FILES}/{name}">' for name in names if name.endswith(".js")
    )
    styles = "\n".join(f'<link rel="stylesheet" href="{FILES}/{name}">' for name in names if name.endswith(".css"))
    page = markup.replace("<!--base-->", f'<base href="{base}">').replace("<!--files-->", f"{styles}\n{modules}")
    import_map = _IMPORT_MAP.search(page)
    assert import_map is not None, "index.html has an import map"  # noqa: S101 - a file of this package
    digest = base64.b64encode(hashlib.sha256(import_map[1].encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
    )
    return _file(page.encode(), CONTENT_TYPES[".html"]), policy
