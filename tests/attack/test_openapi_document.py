"""The API keeps what its OpenAPI document says, whatever is sent (`make attack REQUESTS=10000` sends more)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from pydantic import SecretStr

from common.clickhouse.store import ColumnStore
from common.kafka.cluster import ensure_topics
from common.postgres.pool import Database
from common.postgres.projects import WantedAccount, open_accounts
from common.settings import Encoding, PostgresSettings, Settings, TopicSettings
from query_api.http.app import open_api
from query_api.http.routes import ROUTES
from tests.support.attack import attack
from tests.support.kafka import Broker

ADMIN_KEY: Final = "attack-admin-key"
REQUESTS: Final = int(os.environ.get("ATTACK_REQUESTS", "1000"))
REQUESTS_FEW: Final = 100
"""Of `make test`, whose operations follow from the seed."""

REQUESTS_OF_ALL: Final = 10_000
"""With this many requests, each operation answers 2xx at least once, except those in ``WITHOUT_SUCCESS``."""

UNLUCKY_MAX: Final = 25
"""Operations, of about 240, that may get no valid request among fewer; 2 to 9 were seen among 1,000."""

CHECKS: Final = (
    "allow_header_conformance",
    "content_type_conformance",
    "ensure_resource_availability",
    "ignored_auth",
    "missing_required_header",
    "negative_data_rejection",
    "not_a_server_error",
    "object_level_authorization",
    "positive_data_acceptance",
    "response_headers_conformance",
    "response_schema_conformance",
    "status_code_conformance",
    "unsupported_method",
    "use_after_free",
)
SEED: Final = int(os.environ.get("ATTACK_SEED", "20261123"))


@pytest.fixture
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a target that a request names reach nothing outside of this machine."""
    resolve = socket.getaddrinfo

    def resolve_loopback(host: Any, *arguments: Any, **named: Any) -> Any:
        if host not in ("127.0.0.1", b"127.0.0.1", "localhost", None):
            raise socket.gaierror(socket.EAI_NONAME, "tests resolve no names")
        return resolve(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_loopback)


@pytest.fixture
async def address(
    store: ColumnStore,
    shared_postgres: PostgresSettings,
    embedded: Broker,
    unique: str,
    _loopback_only: None,
) -> AsyncIterator[str]:
    kafka = embedded.settings(
        dead_letter_topic=f"{unique}.dead_letter",
        stored_topic=f"{unique}.stored",
        topics={
            unique: TopicSettings(encoding=Encoding.SPAN_JSON),
            f"{unique}.otlp": TopicSettings(encoding=Encoding.OTLP_PROTO),
        },
        intake_topic=unique,
        otlp_topic=f"{unique}.otlp",
    )
    await ensure_topics(kafka)
    settings = Settings(
        auth="on",
        admin_key=SecretStr(ADMIN_KEY),
        api_port=0,
        otlp_http_port=0,
        otlp_grpc_port=0,
        kafka=kafka,
        postgres=shared_postgres,
    )
    async with open_api(settings, store=store) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.timeout(7_200)
@pytest.mark.filterwarnings("default:Generating overly large repr")  # of a request that hypothesis shows
@pytest.mark.parametrize("requests", [REQUESTS_FEW, pytest.param(REQUESTS, marks=pytest.mark.long)])
async def test_every_response_is_as_the_document_says(address: str, shared_database: Database, requests: int) -> None:
    accounts = await open_accounts(
        shared_database, {"attacker": WantedAccount(f"attacker{requests}@example.org", with_key=True)}
    )
    key = accounts["attacker"].key
    assert key is not None

    report = await asyncio.to_thread(
        attack,
        address,
        key=key,
        admin_key=ADMIN_KEY,
        project_id=accounts["attacker"].project.id,
        requests=requests,
        seed=SEED,
    )

    sys.stdout.write(f"\n{report}\n")
    assert not report.failures, "\n\n".join(report.failures)
    assert report.requests >= requests
    if requests > REQUESTS_FEW:
        assert {f"{route.method} {route.path}" for route in ROUTES} - report.operations == {
            "GET /openapi.json"
        }  # it was read
        assert report.checks >= set(CHECKS)
        unlucky_max = 0 if requests >= REQUESTS_OF_ALL else UNLUCKY_MAX
        assert len(report.never_succeeded()) <= unlucky_max, report.never_succeeded()
