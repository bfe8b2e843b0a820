"""One test file owns the bodies of errors: a golden file a status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from common.errors import (
    Conflict,
    DeadlineExceeded,
    ErrorCode,
    Forbidden,
    InvalidFilter,
    InvalidStatement,
    NotFound,
    Overloaded,
    RejectedByStore,
    ServiceError,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnsupportedMedia,
)
from query_api.request.errors import STATUS, RevisionConflict, SlugTaken, response_of
from query_api.request.route import Handler, Request, Response, Route
from tests.support.api import context_of
from tests.unit.query_api.conftest import Client

GOLDEN = Path(__file__).parents[3] / "golden" / "errors"


class Body(BaseModel):
    limit: int = 1


ERRORS: dict[str, ServiceError] = {
    "400": InvalidFilter("filtering.conditions[1].operator", "'has' needs a text."),
    "401": Unauthorized(),
    "403": Forbidden(),
    "404": NotFound(),
    "409": Conflict("An initial revision already exists for this variant."),
    "409_slug": SlugTaken("faq-bot"),
    "409_revision": RevisionConflict(base_revision_id=UUID(int=1), current_revision_id=UUID(int=2)),
    "413": TooLarge(),
    "415": UnsupportedMedia(),
    "429": Overloaded(retry_after_s=1.2),
    "500": InvalidStatement("SELECT secret"),
    "503": Unavailable("Kafka is unavailable.", retry_after_s=0.2),
    "504": DeadlineExceeded(),
}


def _raising(error: BaseException) -> Handler:
    async def handler(call: Request) -> Response:
        raise error

    return handler


def _routes() -> tuple[Route, ...]:
    failing = [Route("GET", f"/fail/{name}", _raising(error), "", "", None) for name, error in ERRORS.items()]
    refused = Route("GET", "/refused", _raising(RejectedByStore("Code: 27. secret")), "", "", None)
    unexpected = Route("GET", "/unexpected", _raising(RuntimeError("secret")), "", "", None)
    return (*failing, refused, unexpected, Route("POST", "/read", _raising(AssertionError()), "", "", None, body=Body))


def test_every_code_has_a_status() -> None:
    assert set(STATUS) == set(ErrorCode)


@pytest.mark.parametrize("name", ERRORS)
async def test_body_of_each_status_is_golden(name: str, aiohttp_client: Client, request: pytest.FixtureRequest) -> None:
    client = await aiohttp_client(context_of(), routes=_routes())

    response = await client.get(f"/fail/{name}")

    assert response.status == int(name[:3])
    await _check_golden(name, await response.json(), request)


async def test_body_of_422_is_golden(aiohttp_client: Client, request: pytest.FixtureRequest) -> None:
    client = await aiohttp_client(context_of(), routes=_routes())

    response = await client.post("/read", json={"limit": "many"})

    assert response.status == 422
    await _check_golden("422", await response.json(), request)


async def test_body_of_405_is_golden(aiohttp_client: Client, request: pytest.FixtureRequest) -> None:
    client = await aiohttp_client(context_of(), routes=_routes())

    response = await client.delete("/read")

    assert (response.status, response.headers["Allow"]) == (405, "POST")
    await _check_golden("405", await response.json(), request)


@pytest.mark.parametrize(("name", "seconds"), [("429", "2"), ("503", "1")])
async def test_transient_errors_have_retry_after(name: str, seconds: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(), routes=_routes())

    response = await client.get(f"/fail/{name}")

    assert response.headers["Retry-After"] == seconds


@pytest.mark.parametrize("path", ["/unexpected", "/fail/500", "/refused"])
async def test_internal_error_contains_only_the_id_of_its_log_entry(path: str, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(), routes=_routes())

    with capture_logs() as logs:
        response = await client.get(path)

    detail = (await response.json())["detail"]
    assert response.status == 500
    assert "secret" not in await response.text()
    (line,) = [line for line in logs if line["event"] == "A request failed unexpectedly."]
    assert line["operation_id"] == detail["operation_id"]
    assert line["exc_info"]


async def _check_golden(name: str, body: Any, request: pytest.FixtureRequest) -> None:
    if name == "500":
        body["detail"]["operation_id"] = "id"
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    file = GOLDEN / f"{name}.json"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(text)
    assert text == file.read_text()


def test_bytes_of_a_header_that_are_no_text_are_replaced() -> None:
    """A message may repeat a header, and its bytes that are not UTF-8 are lone surrogates in Python."""
    response = response_of(InvalidFilter("", b"X: '\xff'".decode("utf-8", "surrogateescape")))

    assert (response.status, response.body) == (400, """{"detail":"X: '\ufffd'"}""".encode())
