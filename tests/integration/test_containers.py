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
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
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
from tests.support.ports import free_port
from tests.support.produce import produce
from tests.support.span_rows import span_row, span_table

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/data/samples/pydantic-ai-agent-01.otlp_proto.bin"
ADMIN_KEY = "an-admin-key-of-a-test-that-is-long-enough"
PROCESSES = ("migrate", "ingest", "serve", "deliver")
PORTS = ("CLEARSPAN_API_PORT", "CLEARSPAN_KAFKA_PORT", "CLEARSPAN_OTLP_GRPC_PORT", "CLEARSPAN_OTLP_HTTP_PORT")
COMPOSE_FILES = {"variables": [], "secrets": ["deploy/compose-secrets.yml"]}
pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]


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


@dataclass(frozen=True, slots=True)
class ComposeStack:
    """What the compose files started: addresses on this machine, and a key of the default project."""

    compose: DockerCompose
    api: str
    kafka: str
    key: str

    def count(self, *, authorization: str | None = None) -> int:
        """Return how many spans the API finds."""
        headers = {"content-type": "application/json", "authorization": authorization or f"ApiKey {self.key}"}
        request = urllib.request.Request(f"{self.api}/spans/query", data=b"{}", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            result: dict[str, Any] = json.load(response)
        return int(result["count"])

    def wait_for_spans(self, count: int) -> None:
        """Return when the API finds this many spans."""
        deadline_s = time.monotonic() + 120
        while (found := self.count()) != count:
            assert time.monotonic() < deadline_s, f"{found} spans are found, not {count}"
            time.sleep(0.5)


@pytest.fixture(scope="module", params=COMPOSE_FILES)
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """Run the compose files with ports and volumes that no other stack has: the volumes are deleted at the end."""
    directory = tmp_path_factory.mktemp("compose")
    for name in ("clickhouse_password", "postgres_password", "admin_key"):
        (directory / name).write_text(ADMIN_KEY)
    ports = {name: str(free_port()) for name in PORTS}
    variables = {
        "COMPOSE_PROJECT_NAME": f"clearspan-test-{uuid.uuid4().hex[:12]}",
        "SECRETS_DIR": str(directory),
        "CLEARSPAN_ADMIN_KEY": ADMIN_KEY,
        **ports,
    }
    env_file = directory / "variables"
    env_file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    files = ["docker-compose.yml", *COMPOSE_FILES[request.param]]
    with pytest.MonkeyPatch.context() as patch:
        for name in variables:
            patch.delenv(name, raising=False)  # it would win over the file
        with DockerCompose(ROOT, compose_file_name=files, env_file=str(env_file), build=True, wait=True) as compose:
            made, _, _ = compose.exec_in_container(["clearspan", "keys", "create", "test", "--json"], "serve")
            yield ComposeStack(
                compose,
                api=f"http://127.0.0.1:{ports['CLEARSPAN_API_PORT']}",
                kafka=f"127.0.0.1:{ports['CLEARSPAN_KAFKA_PORT']}",
                key=json.loads(made)["key"],
            )


def test_compose_files_keep_spans_while_they_are_stopped(stack: ComposeStack):
    produce(stack.kafka, "otlp_spans", [SAMPLE.read_bytes()])
    stack.wait_for_spans(7)

    stack.compose.stop(down=False)
    ended = {each.Service: each.ExitCode for each in stack.compose.get_containers(include_all=True)}
    stack.compose.start()

    assert {name: ended[name] for name in PROCESSES} == dict.fromkeys(PROCESSES, 0)
    assert stack.count() == 7


def test_compose_files_reject_requests_without_a_key(stack: ComposeStack):
    with pytest.raises(urllib.error.HTTPError) as refused:
        stack.count(authorization="ApiKey nobody")
    refused.value.close()

    assert refused.value.code == 401


def test_compose_files_pass_on_the_admin_key(stack: ComposeStack):
    request = urllib.request.Request(f"{stack.api}/admin/status", headers={"authorization": f"Access {ADMIN_KEY}"})

    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.status == 200


@pytest.mark.parametrize("address", ["ingest:8081", "serve:8080", "deliver:8082"])
def test_other_containers_reach_the_health_of_each_process(stack: ComposeStack, address: str):
    program = f"import urllib.request as u; print(u.urlopen('http://{address}/readyz', timeout=60).status)"

    printed, _, _ = stack.compose.exec_in_container(["python", "-c", program], "serve")

    assert printed.strip() == "200"
