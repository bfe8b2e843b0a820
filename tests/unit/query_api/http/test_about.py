"""Probes, and the page that renders the OpenAPI document."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re

import pytest

from common.errors import Unavailable
from query_api.request.limits import Limits
from tests.support.api import KnownKeys, context_of
from tests.unit.query_api.conftest import Client


async def _answers() -> None:
    """As a system that is there."""


async def _is_away() -> None:
    raise Unavailable("Connection refused.")


async def _hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("path", ["/livez", "/health", "/api/health/"])
async def test_livez_is_200(path: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(checks={"kafka": _is_away}))

    response = await client.get(path)

    assert (response.status, await response.json()) == (200, {"status": "ok"})


async def test_readyz_is_200_if_every_system_responds(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(checks={"kafka": _answers, "clickhouse": _answers}))

    response = await client.get("/readyz")

    assert (response.status, await response.json()) == (200, {"status": "ready"})


async def test_readyz_names_missing_systems_with_reasons(aiohttp_client: Client) -> None:
    checks = {"kafka": _is_away, "clickhouse": _answers, "postgres": _hangs}
    client = await aiohttp_client(context_of(checks=checks, limits=Limits(check_s=0.01)))

    response = await client.get("/readyz")

    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert await response.json() == {
        "status": "not ready",
        "waiting_for": {"kafka": "Connection refused.", "postgres": "No answer within 0.01 s."},
    }


async def test_metrics_count_requests_by_route_and_status(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of())
    await client.get("/livez")
    await client.get("/no/such/path")

    text = await (await client.get("/metrics")).text()

    assert 'clearspan_http_request_seconds_count{method="GET",route="/livez",status="200"}' in text
    assert 'clearspan_http_request_seconds_count{method="GET",route="none",status="404"}' in text
    assert "/no/such/path" not in text


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
