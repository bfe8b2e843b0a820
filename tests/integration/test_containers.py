"""Real servers in containers, for machines that have an engine: the images that `docker-compose.yml` names.

The only tests that may be skipped in CI. What they cover is tested elsewhere against the engine in chDB, real Apache
Kafka and real Postgres; only here is ClickHouse a server, and only here is the compose file run.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from testcontainers.compose import DockerCompose
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import Statement
from common.settings import ClickHouseSettings
from tests.support.produce import produce
from tests.support.span_rows import span_row, span_table

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/data/samples/pydantic-ai-agent-01.otlp_proto.bin"
pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    """Ask the socket itself: the client library leaves one open if nothing responds."""
    if "DOCKER_HOST" in os.environ:
        return
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect("/var/run/docker.sock")
    except OSError as exc:
        pytest.skip(f"needs a container engine, and /var/run/docker.sock says: {exc.strerror}")


def _image(service: str) -> str:
    """Return the image that the compose file names, so that the two cannot differ."""
    text = (ROOT / "docker-compose.yml").read_text()
    found = re.search(rf"^  {service}:\n    image: (\S+)$", text, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseSettings]:
    container = (
        DockerContainer(_image("clickhouse"))
        .with_env("CLICKHOUSE_USER", "clearspan")
        .with_env("CLICKHOUSE_PASSWORD", "secret")
        .with_exposed_ports(8123)
        .waiting_for(LogMessageWaitStrategy("Ready for connections"))
    )
    with container:
        yield ClickHouseSettings(
            host=container.get_container_host_ip(),
            port=int(container.get_exposed_port(8123)),
            username="clearspan",
            password=SecretStr("secret"),
        )


async def test_tables_and_repeated_insert_on_a_real_server(clickhouse: ClickHouseSettings, tmp_path: Path):
    applied = await migrate(clickhouse, data_dir=tmp_path)
    applied_again = await migrate(clickhouse, data_dir=tmp_path)
    store = open_store(clickhouse, data_dir=tmp_path)
    rows = span_table([span_row(number) for number in range(100)])
    for _ in range(2):
        await store.insert("spans", rows, dedup_token="one", deadline_s=60.0)

    counts = await store.select(
        Statement("SELECT (SELECT count() FROM spans) AS spans, (SELECT count() FROM span_versions) AS versions"),
        deadline_s=30,
    )
    await store.close()

    assert applied
    assert applied_again == []
    assert counts.to_pylist() == [{"spans": 100, "versions": 100}]


@pytest.fixture(scope="module")
def compose() -> Iterator[DockerCompose]:
    with DockerCompose(ROOT, build=True, wait=True) as compose:
        yield compose


def test_compose_file_stores_a_record_and_returns_its_spans(compose: DockerCompose):
    made, _, _ = compose.exec_in_container(["clearspan", "keys", "create", "test", "--json"], "serve")
    key = json.loads(made)["key"]

    produce("127.0.0.1:9092", "otlp_spans", [SAMPLE.read_bytes()])

    deadline_s = time.monotonic() + 60
    while _count("http://127.0.0.1:8080/spans/query", key) != 7:
        assert time.monotonic() < deadline_s
        time.sleep(0.5)


def test_compose_file_rejects_requests_without_a_key(compose: DockerCompose):
    with pytest.raises(urllib.error.HTTPError) as refused:
        _count("http://127.0.0.1:8080/spans/query", "nobody")
    refused.value.close()

    assert refused.value.code == 401


def _count(url: str, key: str) -> int:
    headers = {"content-type": "application/json", "authorization": f"ApiKey {key}"}
    request = urllib.request.Request(url, data=b"{}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        result: dict[str, Any] = json.load(response)
    return int(result["count"])
