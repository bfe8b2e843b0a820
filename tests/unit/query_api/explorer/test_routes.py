"""How the explorer is served: its addresses, its content security policy, and the libraries it contains."""

from __future__ import annotations

import base64
import gc
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from query_api.explorer import vendoring
from query_api.explorer.routes import PageFile, first_files, page_files
from tests.support.api import KnownKeys, context_of
from tests.unit.query_api.conftest import Client

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FIRST_LOAD_BYTES_MAX = 200_000
RECORDED = json.loads((Path(vendoring.PAGE) / "vendor/vendor.json").read_text())


@pytest.mark.parametrize(
    "address", ["/", "/ui", "/ui/", "/ui/traces", "/ui/traces/0a0b", "/ui/applications/a/compare/", "/api/ui/spans"]
)
async def test_files_are_found_from_every_address_without_a_key(address: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({})))

    response = await client.get(address, headers=BROWSER)

    page = await response.text()
    [base] = re.findall(r'<base href="(.*?)">', page)
    [main] = re.findall(r'<script type="module" src="(.*?)">', page)
    assert (response.status, response.content_type) == (200, "text/html")
    script = await client.get(urljoin(urljoin(f"http://host{address}", base), main).removeprefix("http://host"))
    assert (script.status, script.content_type) == (200, "text/javascript")


async def test_few_pages_are_kept(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({})))
    before = _kept_files()

    for depth in range(200):
        await client.get("/ui" + "/a" * depth, headers=BROWSER)

    assert _kept_files() - before < 50


def _kept_files() -> int:
    gc.collect()
    return sum(isinstance(thing, PageFile) for thing in gc.get_objects())


async def test_root_is_json_for_programs(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of())

    response = await client.get("/", headers={"Accept": "application/json"})

    assert (await response.json())["links"]["explorer"] == "./ui/"


async def test_policy_allows_one_inline_script_and_no_other_host(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of())

    response = await client.get("/ui/", headers=BROWSER)

    page, policy = await response.text(), response.headers["Content-Security-Policy"]
    [inline] = re.findall(r"<script(?![^>]*src=)[^>]*>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "img-src 'self' data:; media-src data:;" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "<style" not in page


async def test_unchanged_file_is_not_sent_again(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of())
    first = await client.get("/ui/files/main.js")

    again = await client.get("/ui/files/main.js", headers={"If-None-Match": first.headers["ETag"]})

    assert (first.status, again.status, await again.read()) == (200, 304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "%2e%2e%2froutes.py", "package.json", "vendor/vendor.json", ""])
async def test_other_files_are_not_found(name: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of())

    response = await client.get(f"/ui/files/{name}")

    assert response.status == 404


async def test_writing_to_the_page_is_not_allowed(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of())

    response = await client.post("/ui/traces", json={})

    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


def test_first_load_stays_small() -> None:
    sent = sum(len(gzip.compress(page_files()[name].content)) for name in first_files())

    assert sent <= FIRST_LOAD_BYTES_MAX


def test_views_that_few_open_are_loaded_when_they_are_opened() -> None:
    first = set(first_files())

    assert {"main.js", "vendor/preact.js", "components/shell.js", "views/overview/overview.js"} <= first
    assert not {name for name in first if name.startswith(("views/applications/", "views/status/"))}


@pytest.mark.parametrize("library", RECORDED, ids=lambda library: library["name"])
def test_library_is_what_was_copied_from_npm(library: dict[str, Any]) -> None:
    content = {name: (vendoring.PAGE / "vendor" / name).read_bytes() for name in library["files"]}

    assert {name: hashlib.sha256(text).hexdigest() for name, text in content.items()} == library["sha256"]
    assert library["license"] in {"MIT", "Apache-2.0"}


def test_every_vendored_file_is_recorded() -> None:
    recorded = {name for library in RECORDED for name in library["files"]}

    assert {path.name for path in (vendoring.PAGE / "vendor").iterdir()} == {*recorded, "vendor.json", "licenses.txt"}
