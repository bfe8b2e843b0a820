"""Serve the explorer: ``GET /`` for browsers, and everything below ``/ui/`` (contract §8).

The page is plain ES modules without a build step (ADR 0016). Two things are filled into ``index.html``: the address of
``/ui/`` relative to the requested one, so that the page works below any prefix, and the list of the modules that
``main.js`` needs, so that the browser loads them in parallel instead of one import after another. Views that few people
open are loaded when they are opened.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple
from urllib.parse import unquote

from common.errors import NotFound
from query_api.request.route import Access, Request, Response, Route

TAG: Final = "Explorer"
FILES: Final = "/files/"
"""Below ``/ui/files/`` are the files of the page; every other address below ``/ui/`` is a view of the page."""

CONTENT_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
HTML: Final = "text/html; charset=utf-8"
PAGES_KEPT: Final = 32
"""Pages that are kept in memory, one for each depth of an address. Views need few, but anyone may ask for others."""

_IMPORT_MAP: Final = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)


_IMPORTED: Final = re.compile(r"^(?:import|export)\b(?:[^;']*?\bfrom)? '([^']+)'", re.MULTILINE)
"""The address in a statement that imports a module; ``import()`` in an expression is none."""


class PageFile(NamedTuple):
    """A file of the page, ready to be sent."""

    content: bytes
    content_type: str
    etag: str


async def show(request: Request) -> Response:
    """Return a file of the page, or the page itself for every address that is a view."""
    rest = request.path["rest"]
    if not rest.startswith(FILES):
        return show_page(request, base="../" * (rest.count("/") - 1) or "./" if rest else "ui/")
    found = page_files().get(unquote(rest.removeprefix(FILES)))
    if found is None:
        raise NotFound
    return _response(found, request, {})


def show_page(request: Request, *, base: str) -> Response:
    """Return the page. ``base`` leads from the requested address to ``/ui/``."""
    page, policy = _page(base)
    return _response(page, request, {"Content-Security-Policy": policy, "Vary": "Accept"})


def _response(found: PageFile, request: Request, headers: dict[str, str]) -> Response:
    headers = {"ETag": found.etag, "Cache-Control": "no-cache", **headers}
    is_known = request.headers.get("If-None-Match") == found.etag
    return Response(
        b"" if is_known else found.content,
        status=304 if is_known else 200,
        content_type=found.content_type,
        headers=headers,
    )


@cache
def page_files() -> dict[str, PageFile]:
    """Return every file that browsers load, by its path below ``page/``."""
    return dict(_read(files("query_api.explorer").joinpath("page"), ""))


def _read(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    found: list[tuple[str, PageFile]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _read(entry, f"{prefix}{entry.name}/") if entry.name != "node_modules" else []
        elif content_type := CONTENT_TYPES.get(f".{entry.name.rpartition('.')[2]}"):
            found.append((prefix + entry.name, _page_file(entry.read_bytes(), content_type)))
    return found


def _page_file(content: bytes, content_type: str) -> PageFile:
    return PageFile(content, content_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def first_files() -> list[str]:
    """Return the names of the files that the browser loads before it shows a view: the styles, and the modules that
    ``main.js`` imports, in turn."""
    of_page, names = page_files(), ["main.js"]
    mapped = {name: address.removeprefix("./files/") for name, address in _import_map()["imports"].items()}
    for name in names:
        for address in _IMPORTED.findall(of_page[name].content.decode()):
            found = mapped.get(address) or posixpath.normpath(posixpath.join(posixpath.dirname(name), address))
            if found not in names:
                names.append(found)
    return [*(name for name in of_page if name.endswith(".css")), *names]


def _import_map() -> dict[str, dict[str, str]]:
    import_map: dict[str, dict[str, str]] = json.loads(_import_map_text(_markup()))
    return import_map


def _import_map_text(markup: str) -> str:
    found = _IMPORT_MAP.search(markup)
    assert found is not None, "index.html has an import map"  # noqa: S101 - a file of this package
    return found[1]


def _markup() -> str:
    return files("query_api.explorer").joinpath("page/index.html").read_text("utf-8")


@lru_cache(PAGES_KEPT)
def _page(base: str) -> tuple[PageFile, str]:
    """Return ``index.html`` for an address from which ``base`` leads to ``/ui/``, and its content security policy."""
    markup, names = _markup(), first_files()
    links = [f'<link rel="stylesheet" href="files/{name}">' for name in names if name.endswith(".css")]
    links += [f'<link rel="modulepreload" href="files/{name}">' for name in names if name.endswith(".js")]
    page = markup.replace("<!--base-->", f'<base href="{base}">').replace("<!--files-->", "\n".join(links))
    digest = base64.b64encode(hashlib.sha256(_import_map_text(markup).encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self' data:; "
        "media-src data:; connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
    )
    return _page_file(page.encode(), HTML), policy


# fmt: off
EXPLORER_ROUTES: Final = (
    Route("GET", "/ui/{rest}", show, "Get the explorer, or one of its files.", TAG, None, access=Access.PUBLIC,
          content_type="text/html", is_subtree=True,
          description="Every address below `/ui/` that is not a file is a view of the page."),
)
# fmt: on
