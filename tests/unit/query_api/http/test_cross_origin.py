"""The responses to pages of other web sites that send spans, from allowed and from other origins (CORS)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from common.settings import HttpSettings, Settings
from tests.support.api import PROJECT_A, KnownKeys, context_of
from tests.unit.query_api.conftest import Client

KEY = "abcdefgh." + "0" * 64
SHOP = "https://shop.example.org"
PATHS = ("/v1/traces", "/otlp/v1/traces", "/api/otlp/v1/traces/")
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
PAGE = {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}
JSON = b'{"resourceSpans": []}'


def settings(origins: str, *, auth: str = "off") -> Settings:
    return Settings.model_validate({"auth": auth, "http": {"allowed_origins": origins}})


def cors(headers: object) -> dict[str, str]:
    assert hasattr(headers, "items")
    return {name: value for name, value in headers.items() if name.lower().startswith("access-control")}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("auth", ["off", "on"])
async def test_page_of_an_allowed_origin_may_send_spans(path: str, auth: str, aiohttp_client: Client) -> None:
    keys = KnownKeys({KEY: PROJECT_A}) if auth == "on" else None
    context = context_of(settings=settings(f"https://other.example.org, {SHOP}", auth=auth), keys=keys)
    client = await aiohttp_client(context)

    async with client.options(path, headers={**ASKS, "Origin": SHOP}) as response:
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Origin"] == SHOP
        assert response.headers["Access-Control-Allow-Methods"] == "POST"
        allowed = response.headers["Access-Control-Allow-Headers"].split(", ")
        assert {"authorization", "content-encoding", "content-type"} <= set(allowed)
        assert int(response.headers["Access-Control-Max-Age"]) > 0
        assert response.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in response.headers
    async with client.post(path, data=JSON, headers={**PAGE, "Origin": SHOP, "Authorization": KEY}) as response:
        assert response.status == 200
        assert response.headers["Access-Control-Allow-Origin"] == SHOP
        assert "Retry-After" in response.headers["Access-Control-Expose-Headers"]


async def test_page_of_an_allowed_origin_may_read_why_its_request_failed(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=settings(SHOP, auth="on"), keys=KnownKeys({KEY: PROJECT_A})))

    async with client.post("/v1/traces", data=JSON, headers={**PAGE, "Origin": SHOP}) as response:
        assert response.status == 401
        assert response.headers["Access-Control-Allow-Origin"] == SHOP


@pytest.mark.parametrize(
    ("origins", "origin"),
    [
        ("", SHOP),
        (SHOP, "https://evil.example.org"),
        (SHOP, "http://shop.example.org"),
        (SHOP, "https://shop.example.org:8443"),
        (SHOP, "https://shop.example.org.evil.example"),
        (SHOP, "null"),
        (SHOP, ""),
    ],
)
@pytest.mark.parametrize("path", PATHS)
async def test_other_origins_get_the_usual_responses(
    path: str, origins: str, origin: str, aiohttp_client: Client
) -> None:
    client, usual = await aiohttp_client(context_of(settings=settings(origins))), await aiohttp_client(context_of())

    async with client.options(path, headers={**ASKS, "Origin": origin}) as response, usual.options(path) as known:
        assert (response.status, await response.json()) == (known.status, await known.json())
        assert response.headers["Allow"] == known.headers["Allow"]
        assert cors(response.headers) == {}
    async with client.post(path, data=JSON, headers={**PAGE, "Origin": origin}) as response:
        assert response.status == 403
        assert cors(response.headers) == {}


@pytest.mark.parametrize("path", ["/spans/query", "/v1/metrics", "/v1/logs", "/traces/", "/admin/status", "/unknown"])
async def test_only_otlp_traces_take_pages(path: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=settings("*")))

    async with client.options(path, headers={**ASKS, "Origin": SHOP}) as response:
        assert response.status in {404, 405}
        assert cors(response.headers) == {}
    async with client.post(path, data=b"{}", headers={**PAGE, "Origin": SHOP}) as response:
        assert response.status == 403
        assert cors(response.headers) == {}


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", ""])
async def test_only_post_is_allowed(method: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=settings(SHOP)))

    headers = {"Origin": SHOP, "Access-Control-Request-Method": method}
    async with client.options("/v1/traces", headers=headers) as response:
        assert response.status == 405
        assert cors(response.headers) == {}


@pytest.mark.parametrize("origin", [SHOP, "http://localhost:3000", "null"])
async def test_any_origin_is_an_explicit_value_and_never_with_credentials(origin: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=settings("*")))

    async with client.options("/v1/traces", headers={**ASKS, "Origin": origin}) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in response.headers
        assert "Vary" not in response.headers


async def test_response_to_other_clients_only_varies(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=settings(SHOP)))

    async with client.post("/v1/traces", data=JSON, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 200
        assert cors(response.headers) == {}
        assert response.headers["Vary"] == "Origin"


@pytest.mark.parametrize("origins", ["shop.example.org", "https://shop.example.org/", "https://*.example.org", "a b"])
def test_setting_that_is_no_origin_is_refused(origins: str) -> None:
    with pytest.raises(ValidationError, match="Input should be origins such as"):
        HttpSettings(allowed_origins=origins)


def test_origins_are_compared_as_browsers_send_them() -> None:
    assert HttpSettings(
        allowed_origins=" HTTPS://Shop.Example.org ,,http://[::1]:3000,chrome-extension://abc"
    ).allowed_origins
