"""`make up`, `make down` and `make status`, as a person on a laptop uses them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from clearspan.embedded.layout import Layout
from tests.support.left_over import is_free, processes_below
from tests.support.missing import missing
from tests.support.otlp_grpc import TRACES
from tests.support.stack import ask, clearspan, stack_environment

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return stack_environment(tmp_path / "data")


def _otlp_traces(address: str) -> int:
    request = urllib.request.Request(
        f"{address}/v1/traces", data=b"", headers={"content-type": "application/x-protobuf"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return int(answer.status)


def _grpc_traces(address: str) -> bytes:
    with grpc.insecure_channel(address) as channel:
        response: bytes = channel.unary_unary(TRACES)(b"", timeout=120)
    return response


def _without_what_varies(printed: str) -> str:
    """The text with the same spaces, partition, offset, port and durations in every run."""
    varies = r"(?<=partition )\d+|(?<=offset )\d+|(?<=127\.0\.0\.1:)\d+|[\d.]+(?= s later| ms)"
    return re.sub(r" +", " ", re.sub(varies, "0", printed))


@dataclass(frozen=True)
class Detached:
    """What ``clearspan`` printed from the first ``up --detach`` to ``down``, and what the stack returned meanwhile."""

    environment: Mapping[str, str]
    first: subprocess.CompletedProcess[str]
    second: subprocess.CompletedProcess[str]
    status: subprocess.CompletedProcess[str]
    found: dict[str, Any]
    """The response to the query of the README."""
    otlp_status: int
    """The status of an export to the port of OTLP."""
    grpc_response: bytes
    """The response to an empty export over gRPC."""
    stopped: subprocess.CompletedProcess[str]
    again: subprocess.CompletedProcess[str]
    """A start in a shell without the variables of the ports."""


@pytest.fixture(scope="module")
def detached(tmp_path_factory: pytest.TempPathFactory) -> Detached:
    environment = stack_environment(tmp_path_factory.mktemp("detached") / "data")
    first = clearspan(environment, "up", "--detach")
    assert first.returncode == 0, first.stderr
    second = clearspan(environment, "up", "--detach")
    status = clearspan(environment, "status")
    [query] = re.findall(r"/spans/query\" .* -d '(.*?)'$", README.read_text(), re.DOTALL | re.MULTILINE)
    found = ask(f"http://127.0.0.1:{environment['CLEARSPAN_API_PORT']}", "/spans/query", json.loads(query))
    otlp_status = _otlp_traces(f"http://127.0.0.1:{environment['CLEARSPAN_OTLP_HTTP_PORT']}")
    grpc_response = _grpc_traces(f"127.0.0.1:{environment['CLEARSPAN_OTLP_GRPC_PORT']}")
    stopped = clearspan(environment, "down")
    without_ports = {name: value for name, value in environment.items() if not name.endswith("_PORT")}
    again = clearspan(without_ports, "up", "--detach")
    assert clearspan(without_ports, "down").returncode == 0
    return Detached(environment, first, second, status, found, otlp_status, grpc_response, stopped, again)


def test_up_prints_a_first_trace_as_the_readme_shows_it(detached: Detached):
    [shown] = re.findall(r"^```\n(A first trace: .*?)^ +…\n```$", README.read_text(), re.DOTALL | re.MULTILINE)

    assert _without_what_varies(shown) in _without_what_varies(detached.first.stdout)
    assert (detached.found["count"], detached.found["spans"][0]["span_name"]) == (1, "execute_tool roll_die")


def test_second_up_changes_nothing(detached: Detached):
    assert detached.second.returncode == 0
    assert "nothing was changed" in detached.second.stdout
    assert detached.status.returncode == 0, detached.status.stdout


def test_port_of_otlp_is_printed_and_accepts_spans(detached: Detached):
    line = f"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{detached.environment['CLEARSPAN_OTLP_HTTP_PORT']})"

    assert line in detached.first.stdout
    assert line in detached.status.stdout
    assert detached.otlp_status == 200


def test_port_of_otlp_over_grpc_is_printed_and_accepts_spans(detached: Detached):
    line = (
        f"(over gRPC: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{detached.environment['CLEARSPAN_OTLP_GRPC_PORT']})"
    )

    assert line in detached.first.stdout
    assert line in detached.status.stdout
    assert detached.grpc_response == b""


def test_start_without_the_variables_uses_the_ports_of_the_last_start(detached: Detached):
    def addresses(printed: str) -> list[str]:
        return re.findall(r"^  (?:page|API|OTLP|Kafka|worker) .*$", printed, re.MULTILINE)

    assert detached.again.returncode == 0, detached.again.stderr
    assert addresses(detached.again.stdout) == addresses(detached.first.stdout) != []


def test_down_leaves_no_process_and_frees_the_ports(detached: Detached):
    ports = [detached.environment[f"CLEARSPAN_{name}_PORT"] for name in ("API", "WORKER", "KAFKA")]

    assert detached.stopped.returncode == 0, detached.stopped.stderr
    assert processes_below(detached.environment["CLEARSPAN_DATA_DIR"]) == []
    assert [is_free(port) for port in ports] == [True, True, True]


@pytest.fixture(scope="module")
def started_with_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a start printed with keys, on free ports, on IPv6 if the machine has it, and with the default ports of
    OTLP taken.
    """
    environment = stack_environment(tmp_path_factory.mktemp("with_keys") / "data")
    del environment["CLEARSPAN_OTLP_HTTP_PORT"], environment["CLEARSPAN_OTLP_GRPC_PORT"]
    environment |= {f"CLEARSPAN_{name}_PORT": "0" for name in ("API", "WORKER", "KAFKA")}
    environment["CLEARSPAN_API_HOST"] = "::1" if socket.has_dualstack_ipv6() else "127.0.0.1"
    environment["CLEARSPAN_AUTH"] = "on"
    with ExitStack() as holders:
        for port in (4317, 4318):
            holder = holders.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # another program may hold it already
                holder.bind(("127.0.0.1", port))
                holder.listen()
        started = clearspan(environment, "up", "--detach")
    assert started.returncode == 0, started.stderr
    yield started.stdout
    assert clearspan(environment, "down").returncode == 0


def test_stack_with_authentication_prints_how_to_get_a_key(started_with_keys: str):
    assert "clearspan keys create" in started_with_keys


def test_free_ports_are_printed_and_ipv6_addresses_are_in_brackets(started_with_keys: str):
    if not socket.has_dualstack_ipv6():
        missing("this machine has no IPv6")

    assert re.search(r"API +http://\[::1\]:[1-9]\d+\n", started_with_keys)
    assert re.search(r"worker +http://127.0.0.1:[1-9]\d+/metrics", started_with_keys)


def test_default_ports_of_otlp_are_left_out_if_they_are_taken(started_with_keys: str):
    [api] = re.findall(r"API +(\S+)\n", started_with_keys)

    assert f"OTEL_EXPORTER_OTLP_ENDPOINT={api}/otlp; Port 4318 is taken" in started_with_keys
    assert "gRPC is off: Port 4317 is taken" in started_with_keys


def test_taken_port_is_named_with_its_holder_and_its_setting(environment: Mapping[str, str]):
    port = environment["CLEARSPAN_API_PORT"]
    with socket.create_server(("127.0.0.1", int(port))):
        refused = clearspan(environment, "up", "--detach")

    assert refused.returncode == 1
    assert re.search(rf"Port {port} is taken by \S+ \(process {os.getpid()}\)", refused.stderr)
    assert "CLEARSPAN_API_PORT" in refused.stderr


def test_two_servers_on_one_port_are_rejected(environment: Mapping[str, str]):
    port = environment["CLEARSPAN_API_PORT"]

    refused = clearspan({**environment, "CLEARSPAN_WORKER_PORT": port}, "up")

    assert refused.returncode == 1
    assert f"CLEARSPAN_API_PORT and CLEARSPAN_WORKER_PORT are both {port}." in refused.stderr


def test_stack_without_authentication_listens_on_loopback_only(environment: Mapping[str, str]):
    refused = clearspan({**environment, "CLEARSPAN_API_HOST": "0.0.0.0"}, "up", "--detach")

    assert refused.returncode == 1
    assert "loopback" in refused.stderr


def test_an_unknown_setting_stops_the_start_with_a_sentence(environment: Mapping[str, str]):
    refused = clearspan({**environment, "CLEARSPAN_API_PRT": "1"}, "up")

    assert refused.returncode == 2
    assert "CLEARSPAN_API_PRT is not a setting of Clearspan." in refused.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLEARSPAN_INGEST__PRICES_FILE", "none.csv"),
        pytest.param("CLEARSPAN_WORKER_HOST", "nowhere.invalid", marks=pytest.mark.long),
    ],
)
def test_setting_that_the_worker_rejects_stops_the_start_with_a_sentence(
    environment: Mapping[str, str], name: str, value: str
):
    refused = clearspan({**environment, name: value}, "up")

    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("clearspan: ")
    assert value in refused.stderr.splitlines()[-1]


@pytest.mark.long
def test_stack_whose_postgres_ends_before_migrations_can_be_stopped(environment: Mapping[str, str]):
    layout = Layout(Path(environment["CLEARSPAN_DATA_DIR"]))
    log = layout.root.with_suffix(".log")
    with log.open("wb") as file:
        stack = subprocess.Popen([sys.executable, "-m", "clearspan", "up"], env=environment, stdout=file, stderr=file)
    try:
        while not layout.children.exists():
            time.sleep(0.005)
        (postgres, *_) = json.loads(layout.children.read_text())
        os.kill(postgres["pid"], signal.SIGKILL)
        while "Postgres is unavailable: " not in log.read_text():
            time.sleep(0.05)

        stack.terminate()

        assert stack.wait(120.0) == 0
    finally:
        stack.kill()


@pytest.mark.long
def test_taken_otlp_port_stops_the_start_if_it_was_set_explicitly(
    environment: Mapping[str, str],
):
    port = environment["CLEARSPAN_OTLP_HTTP_PORT"]
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", int(port)))
        holder.listen()
        refused = clearspan(environment, "up", "--detach")

    assert refused.returncode == 1
    assert f"Port {port} is taken" in refused.stderr
    assert "CLEARSPAN_OTLP_HTTP_PORT" in refused.stderr
