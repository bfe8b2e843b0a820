"""`docker-compose.yml` as people run it: started on an empty machine, used, killed, upgraded, stopped.

The only tests that may be skipped in CI. Without an engine or images of this machine they run in an engine of their own
with stand-ins (`stand_ins.py`). What they cover is tested elsewhere against chDB, real Apache Kafka and real Postgres;
only here are the image, the compose files and the ports of ClickHouse's server run.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import Statement
from common.settings import ClickHouseSettings
from tests.containers.engine import ROOT, NoContainers, check_machine, engine_of_machine, own_engine
from tests.containers.sender import send_by_grpc, send_by_http, send_by_kafka, sending
from tests.containers.stack import Stack, copied_stack, start
from tests.containers.stand_ins import build_stand_ins, fetch_official_images, fetch_parts, official_images
from tests.support.ports import free_ports
from tests.support.process_guard import ProcessGuard
from tests.support.produce import produce
from tests.support.span_rows import span_row, span_table

PROCESSES = ("ingest", "serve", "deliver")
SERVERS = ("kafka", "clickhouse", "postgres")
pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.timeout(1800)]
with_variables = pytest.mark.parametrize("stack", ["variables"], indirect=True, scope="module")
with_secrets = pytest.mark.parametrize("stack", ["secrets"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def engine(process_guard: ProcessGuard) -> Iterator[Mapping[str, str]]:
    """The variables of an engine that has the images of the stack."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            of_machine = engine_of_machine()
            if of_machine is not None:
                fetch_official_images(of_machine)
                yield from _set(patch, of_machine)
                return
            check_machine()
            fetch_parts()  # before there is a network without a way out
            with own_engine(process_guard) as variables:
                build_stand_ins(variables)
                yield from _set(patch, variables)
        except NoContainers as exc:
            pytest.skip(str(exc))


def _set(patch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    for name, value in variables.items():
        patch.setenv(name, value)
    yield variables


@pytest.fixture
def clickhouse(engine: Mapping[str, str]) -> Iterator[ClickHouseSettings]:
    container = (
        DockerContainer(official_images()["clickhouse"])
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
    container.get_docker_client().client.close()


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
def stack(
    request: pytest.FixtureRequest, engine: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The stack after the first commands of `docs/deployment.md`, with passwords from variables or from files."""
    directory = tmp_path_factory.mktemp("checkout")
    with copied_stack(directory, engine, has_secrets=request.param == "secrets") as copied:
        yield start(copied)


@with_variables
def test_every_way_in_leads_to_a_query(stack: Stack):
    send_by_kafka(stack, "by Kafka")
    send_by_http(stack, "by HTTP")
    send_by_grpc(stack, "by gRPC")

    stack.finds(["by Kafka", "by HTTP", "by gRPC"])


@with_variables
def test_requests_without_a_key_are_rejected(stack: Stack):
    with pytest.raises(urllib.error.HTTPError) as rejected:
        stack.get("/spans/query")

    assert rejected.value.code == 401


@with_variables
def test_a_record_that_is_no_spans_is_a_dead_letter(stack: Stack):
    [coordinates] = produce(stack.address("CLEARSPAN_KAFKA_PORT"), "otlp_spans", [b"no spans"])
    send_by_kafka(stack, "after a dead letter")

    stack.finds(["after a dead letter"])
    stack.until(lambda: bool(_dead_letters(stack)), what="the record is a dead letter")
    [letter] = _dead_letters(stack)
    assert (letter["topic"], letter["offset"]) == ("otlp_spans", coordinates.offset)


def _dead_letters(stack: Stack) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in stack.inside("serve", "clearspan", "dead-letters", "list", "--json").splitlines()
    ]


@with_variables
def test_a_subscription_reaches_its_receiver_also_after_a_kill(stack: Stack):
    target = {"kind": "webhook", "url": "http://receiver:9000/"}
    body = json.dumps({"subscription": {"slug": "all", "target": target}}).encode()
    stack.send("/subscriptions/", body, content_type="application/json")

    send_by_http(stack, "delivered")
    stack.until(
        lambda: "received delivered\n" in stack.compose("logs", "--no-log-prefix", "receiver"), what="a delivery"
    )
    stack.compose("kill", "deliver")
    send_by_http(stack, "delivered-late")
    stack.compose("up", "--detach", "--wait", "--no-deps", "deliver")

    stack.until(
        lambda: "received delivered-late\n" in stack.compose("logs", "--no-log-prefix", "receiver"),
        what="a delivery after the kill",
    )


@with_variables
@pytest.mark.parametrize("service", [*PROCESSES, *SERVERS])
def test_no_container_runs_as_root_or_gains_rights(stack: Stack, service: str):
    status = dict(re.findall(r"^(\w+):\s+(\S+)", stack.inside(service, "cat", "/proc/1/status"), re.MULTILINE))

    assert status["Uid"] != "0"
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == 0


@with_variables
@pytest.mark.parametrize("service", PROCESSES)
def test_our_containers_have_no_capabilities_and_a_root_that_is_read_only(stack: Stack, service: str):
    status = dict(re.findall(r"^(\w+):\s+(\S+)", stack.inside(service, "cat", "/proc/1/status"), re.MULTILINE))
    [options] = re.findall(r"^\S+ / \S+ (\S+)", stack.inside(service, "cat", "/proc/1/mounts"), re.MULTILINE)

    assert {name: int(status[name], 16) for name in ("CapPrm", "CapBnd", "CapInh", "CapAmb")} == {
        "CapPrm": 0,
        "CapBnd": 0,
        "CapInh": 0,
        "CapAmb": 0,
    }
    assert "ro" in options.split(",")
    stack.inside(service, "touch", "/tmp/a-file")
    with pytest.raises(AssertionError, match="Read-only file system"):
        stack.inside(service, "touch", "/opt/clearspan/a-file")


@with_variables
def test_every_container_has_a_limit_of_memory(stack: Stack):
    containers = stack.compose("ps", "--all", "--quiet").split()

    limits = stack.run(
        "docker",
        "inspect",
        "--format",
        '{{.HostConfig.Memory}} {{index .Config.Labels "com.docker.compose.service"}}',
        *containers,
    )

    unlimited = {line.split()[1] for line in limits.splitlines() if line.startswith("0 ")}
    assert unlimited == {"receiver"}


@with_variables
def test_metrics_are_on_this_machine_and_where_prometheus_asks(stack: Stack):
    for port in ("CLEARSPAN_WORKER_PORT", "CLEARSPAN_DELIVER_PORT", "CLEARSPAN_API_PORT"):
        assert b"clearspan_not_ready" in stack.get("/metrics", port=port)
    configuration = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    targets = re.findall(r"names: \[(\w+)\], type: A, port: (\d+)", configuration)
    program = (
        "import sys, urllib.request as u; print([u.urlopen(f'http://{each}/metrics').status for each in sys.argv[1:]])"
    )

    statuses = stack.inside("serve", "python", "-c", program, *(":".join(each) for each in targets))

    assert sorted(name for name, _ in targets) == sorted(PROCESSES)
    assert statuses.strip() == "[200, 200, 200]"


@with_variables
@pytest.mark.parametrize("service", [*SERVERS, "ingest", "serve"])
def test_killed_container_loses_no_span(stack: Stack, service: str):
    with sending(stack, f"while {service} is killed") as sender:
        sender.goes_on()
        stack.compose("kill", service)
        stack.compose("up", "--detach", "--wait", "--no-deps", service)
        sender.goes_on()

    stack.finds(sender.acknowledged)


@with_variables
def test_second_worker_gets_a_port_of_a_range(stack: Stack):
    """As `docs/deployment.md` says; one worker again at the end."""
    ports = free_ports(10)
    published_ports = f"CLEARSPAN_WORKER_PORT={ports[0]}-{ports[-1]}"
    try:
        with sending(stack, "while a second worker comes") as sender:
            sender.goes_on()
            stack.run(
                "env", published_ports, "docker", "compose", "up", "--detach", "--wait", "--scale", "ingest=2", "ingest"
            )
            sender.goes_on()
        published = [each["Publishers"] for each in _containers(stack) if each["Service"] == "ingest"]
        workers = {publisher["PublishedPort"] for each in published for publisher in each} - {0}
        metrics = [urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).status for port in workers]
    finally:
        stack.compose("up", "--detach", "--wait", "--scale", "ingest=1", "ingest")

    assert metrics == [200, 200]
    stack.finds(sender.acknowledged)


@with_variables
def test_stopped_and_removed_containers_keep_spans(stack: Stack):
    send_by_kafka(stack, "before the end")
    stack.finds(["before the end"])
    names = stack.names()

    stack.compose("stop")
    exit_codes = {each["Service"]: each["ExitCode"] for each in _containers(stack)}
    stack.compose("down")
    assert _containers(stack) == []
    stack.compose("up", "--detach", "--wait")

    assert {name: exit_codes[name] for name in PROCESSES} == dict.fromkeys(PROCESSES, 0)
    assert stack.names() == names


def _containers(stack: Stack) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stack.compose("ps", "--all", "--format", "json").splitlines()]


@with_variables
def test_upgraded_image_loses_no_span(stack: Stack):
    """As `docs/upgrade.md` says, in a checkout of the next release."""
    for name, before, after in (
        ("pyproject.toml", 'version = "0.1.0"', 'version = "0.1.1"'),
        ("docker-compose.yml", "image: clearspan:0.1.0", "image: clearspan:0.1.1"),
    ):
        file = stack.directory / name
        assert before in file.read_text()
        file.write_text(file.read_text().replace(before, after))

    with sending(stack, "while the image is replaced") as sender:
        sender.goes_on()
        stack.run("bash", "-c", "docker compose build && docker compose up --detach --wait")
        sender.goes_on()

    stack.finds(sender.acknowledged)
    for service in PROCESSES:
        assert "0.1.1" in stack.inside(service, "clearspan", "--version")


@with_secrets
def test_passwords_from_files_reach_every_process(stack: Stack):
    send_by_http(stack, "with passwords from files")

    stack.finds(["with passwords from files"])
    assert stack.admin("/admin/status")
    shown = stack.run("bash", "-c", "docker inspect $(docker compose ps --all --quiet)")
    assert (stack.directory / "secrets/admin_key").read_text() not in shown
