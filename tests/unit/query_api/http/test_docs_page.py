from __future__ import annotations

import base64
import hashlib
import re

from tests.support.api import KnownKeys, context_of
from tests.unit.query_api.conftest import Client


async def test_page_loads_nothing_from_other_hosts(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({})))

    response = await client.get("/docs/")

    page = await response.text()
    assert response.content_type == "text/html"
    assert not re.search(r"<(?:script|img|iframe)[^>]+src=|<link[^>]+href=\"(?!data:)|@import|url\(", page)


async def test_policy_allows_only_the_style_and_script_of_the_page(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of())

    response = await client.get("/docs")

    page, policy = await response.text(), response.headers["Content-Security-Policy"]
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy


async def test_document_is_public(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({})))

    response = await client.get("/api/openapi.json")

    assert (response.status, (await response.json())["openapi"]) == (200, "3.1.0")
