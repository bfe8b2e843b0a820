from __future__ import annotations

from uuid import UUID

import orjson
import pytest
from pydantic import SecretStr

from common.ids import DEFAULT_PROJECT_ID, DEFAULT_USER_ID
from common.settings import HttpSettings, InvalidSettings, Settings
from query_api.http.app import check_auth
from query_api.request.route import Access, Request, Response, Route
from tests.support.api import PROJECT_A, KnownKeys, context_of, status_of
from tests.unit.query_api.conftest import Client

KEY = "abcdefgh." + "0" * 64
ADMIN = Settings(auth="on", admin_key=SecretStr("a-long-admin-key"))


async def _who(call: Request) -> Response:
    return Response(orjson.dumps({"project": str(call.project_id), "user": str(call.user_id)}))


ROUTES = (
    Route("GET", "/who", _who, "", "", None),
    Route("GET", "/public", _who, "", "", None, access=Access.PUBLIC),
    Route("GET", "/page/{rest}", _who, "", "", None, access=Access.PUBLIC, is_subtree=True),
    Route("GET", "/admin/who", _who, "", "", None, access=Access.ADMIN),
    Route("GET", "/admin/state", _who, "", "", None, access=Access.OPERATOR),
)


@pytest.mark.parametrize("authorization", [f"ApiKey {KEY}", KEY, f"apikey  {KEY}"])
async def test_key_determines_project_and_user(authorization: str, aiohttp_client: Client) -> None:
    keys = KnownKeys({KEY: PROJECT_A}, user_id=UUID(int=5))
    client = await aiohttp_client(context_of(keys=keys), routes=ROUTES)

    response = await client.get(f"/who?project_id={DEFAULT_PROJECT_ID}", headers={"Authorization": authorization})

    assert await response.json() == {"project": str(PROJECT_A), "user": str(UUID(int=5))}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "ApiKey"},
        {"Authorization": "ApiKey nobody"},
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"Access {KEY}"},
        {"Authorization": f"ApiKey {KEY} more"},
        {"Authorization": "ApiKey schlüssel"},
        {"Authorization": "ApiKey " + "x" * 5_000},
    ],
)
@pytest.mark.parametrize("path", ["/who", "/unknown/path"])
async def test_request_without_a_valid_key_is_401(headers: dict[str, str], path: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    response = await client.get(path, headers=headers)

    assert response.status == 401
    assert await response.json() == {"detail": {"message": "Unauthorized"}}


@pytest.mark.parametrize("project_id", ["null", str(UUID(int=0)), UUID(int=0).hex])
async def test_request_with_a_null_project_is_401(project_id: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    response = await client.get(f"/who?project_id={project_id}", headers={"Authorization": KEY})

    assert response.status == 401


async def test_unknown_path_is_404_with_a_key(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    response = await client.get("/unknown", headers={"Authorization": KEY})

    assert (response.status, await response.json()) == (404, {"detail": "Not Found"})


async def test_public_route_needs_no_key(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({})), routes=ROUTES)

    assert await status_of(client.get("/public")) == 200


async def test_keys_that_cannot_be_looked_up_are_503(aiohttp_client: Client) -> None:
    keys = KnownKeys({KEY: PROJECT_A})
    keys.is_away = True
    client = await aiohttp_client(context_of(keys=keys), routes=ROUTES)

    response = await client.get("/who", headers={"Authorization": KEY})

    assert (response.status, response.headers["Retry-After"]) == (503, "3")


@pytest.mark.parametrize("headers", [{}, {"Authorization": "ApiKey whatever"}, {"Authorization": "Bearer x"}])
async def test_without_authentication_all_requests_are_of_the_default_project(
    headers: dict[str, str], aiohttp_client: Client
) -> None:
    client = await aiohttp_client(context_of(), routes=ROUTES)

    response = await client.get("/who?project_id=null", headers=headers)

    assert await response.json() == {"project": str(DEFAULT_PROJECT_ID), "user": str(DEFAULT_USER_ID)}


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Access a-long-admin-key", 200),
        ("Access a-long-admin-kex", 401),
        (f"ApiKey {KEY}", 401),
        ("a-long-admin-key", 401),
        ("Access", 401),
    ],
)
async def test_admin_routes_accept_only_the_admin_key(authorization: str, status: int, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=ADMIN, keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    response = await client.get("/admin/who", headers={"Authorization": authorization})

    assert response.status == status


@pytest.mark.parametrize(
    ("authorization", "statuses"),
    [("Access a-long-admin-key", [405, 404, 401]), (f"ApiKey {KEY}", [401, 401, 404])],
)
async def test_unknown_path_is_404_only_for_a_key_with_access(
    authorization: str, statuses: list[int], aiohttp_client: Client
) -> None:
    client = await aiohttp_client(context_of(settings=ADMIN, keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    answers = [
        await client.post(path, headers={"Authorization": authorization})
        for path in ("/api/admin/who", "/admin/nobody", "/nobody")
    ]

    assert [answer.status for answer in answers] == statuses


async def test_undeclared_method_of_a_public_path_is_405_without_a_key(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    answers = [await client.request("PATCH", path) for path in ("/api/public/", "/page/a/b", "/who", "/nobody")]

    assert [answer.status for answer in answers] == [405, 405, 401, 401]


@pytest.mark.parametrize(
    ("authorization", "status"), [("Access a-long-admin-key", 200), (f"ApiKey {KEY}", 401), ("", 401)]
)
async def test_operator_routes_need_the_admin_key(authorization: str, status: int, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=ADMIN, keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    response = await client.get("/admin/state", headers={"Authorization": authorization})

    assert response.status == status


async def test_without_authentication_operator_routes_need_no_key_and_admin_routes_do(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(), routes=ROUTES)

    statuses = [await status_of(client.get(path)) for path in ("/admin/state", "/admin/who", "/admin/nobody")]

    assert statuses == [200, 401, 404]


async def test_admin_routes_are_401_without_an_admin_key_in_the_settings(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({})), routes=ROUTES)

    assert await status_of(client.get("/admin/who", headers={"Authorization": "Access "})) == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_without_authentication_only_loopback_is_allowed(host: str) -> None:
    with pytest.raises(InvalidSettings, match="CLEARSPAN_AUTH=off listens on loopback only"):
        check_auth(Settings(auth="off", api_host=host))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.3.2.1"])
def test_without_authentication_loopback_is_allowed(host: str) -> None:
    check_auth(Settings(auth="off", api_host=host))
    check_auth(Settings(auth="on", api_host="0.0.0.0"))


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
@pytest.mark.parametrize("path", ["/who", "/admin/state"])
async def test_other_web_sites_are_rejected_while_authentication_is_off(
    path: str, site: str, status: int, aiohttp_client: Client
) -> None:
    client = await aiohttp_client(context_of(), routes=ROUTES)

    response = await client.get(path, headers={"Sec-Fetch-Site": site})

    assert response.status == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("localhost:8080", 200),
        ("LOCALHOST.", 200),
        ("clearspan.localhost", 200),
        ("192.0.2.1", 200),
        ("traces.internal:8080", 200),
        ("", 200),
        ("attacker.example:8080", 403),
        ("localhost.attacker.example", 403),
        ("127.0.0.1.attacker.example", 403),
        ("attacker.example@localhost:8080", 403),
        ("localhost@attacker.example", 403),
        ("internal", 403),
        ("%", 403),
    ],
)
@pytest.mark.parametrize("path", ["/who", "/admin/state", "/nobody"])
async def test_page_whose_name_leads_to_loopback_is_rejected_while_authentication_is_off(
    path: str, host: str, status: int, aiohttp_client: Client
) -> None:
    """DNS rebinding: the browser sees one site, and sends no `Sec-Fetch-Site` to an address without TLS."""
    http = HttpSettings(allowed_hosts="other.example, Traces.internal")
    client = await aiohttp_client(context_of(settings=Settings(auth="off", http=http)), routes=ROUTES)

    response = await client.get(path, headers={"Host": host})

    assert response.status == (404 if status == 200 and path == "/nobody" else status)
    if status == 403:
        assert "CLEARSPAN_HTTP__ALLOWED_HOSTS" in (await response.json())["detail"]


async def test_any_host_may_be_named_with_a_key(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    response = await client.get("/who", headers={"Host": "traces.example.org", "Authorization": KEY})

    assert response.status == 200


async def test_other_web_sites_may_use_a_key(aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(keys=KnownKeys({KEY: PROJECT_A})), routes=ROUTES)

    response = await client.get("/who", headers={"Sec-Fetch-Site": "cross-site", "Authorization": KEY})

    assert response.status == 200
