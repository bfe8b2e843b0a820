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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from clearspan.embedded.layout import Layout, Running
from tests.support.missing import missing
from tests.support.produce import produce
from tests.support.stack import RunningStack, ask, clearspan, running_stack, stack_environment

pytestmark = pytest.mark.timeout(180)
README = Path(__file__).parents[2] / "README.md"
SAMPLE = Path(__file__).parents[1] / "data/samples/traceloop-sdk-01.otlp_proto.bin"
ROOT_OF_SAMPLE = {"filtering": {"conditions": [{"field": "span_name", "value": "joke_workflow.workflow"}]}}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    environment = stack_environment(tmp_path / "data")
    yield environment
    clearspan(environment, "down")


def _processes_below(directory: str) -> list[str]:
    """Return the command lines that name the data directory."""
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] and any(directory in argument for argument in process.info["cmdline"])
    ]


def _is_free(port: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(port)))
        except OSError:
            return False
    return True


def _without_what_varies(printed: str) -> str:
    """The text with the same spaces, partition, offset, port and durations in every run."""
    varies = r"(?<=partition )\d+|(?<=offset )\d+|(?<=127\.0\.0\.1:)\d+|[\d.]+(?= s later| ms)"
    return re.sub(r" +", " ", re.sub(varies, "0", printed))


def test_up_prints_a_first_trace_as_the_readme_shows_it(environment: Mapping[str, str]):
    first = clearspan(environment, "up", "--detach")
    second = clearspan(environment, "up", "--detach")
    status = clearspan(environment, "status")
    [query] = re.findall(r"/spans/query .* -d '(.*?)'$", README.read_text(), re.DOTALL | re.MULTILINE)
    found = ask(f"http://127.0.0.1:{environment['CLEARSPAN_API_PORT']}", "/spans/query", json.loads(query))
    stopped = clearspan(environment, "down")

    assert first.returncode == 0, first.stderr
    [shown] = re.findall(r"^```\n(A first trace: .*?)^ +…\n```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert _without_what_varies(shown) in _without_what_varies(first.stdout)
    assert (found["count"], found["spans"][0]["span_name"]) == (1, "execute_tool roll_die")
    assert second.returncode == 0
    assert "nothing was changed" in second.stdout
    assert status.returncode == 0, status.stdout
    assert stopped.returncode == 0, stopped.stderr
    assert _processes_below(environment["CLEARSPAN_DATA_DIR"]) == []
    ports = [environment[f"CLEARSPAN_{name}_PORT"] for name in ("API", "WORKER", "KAFKA")]
    assert [_is_free(port) for port in ports] == [True, True, True]


def test_killed_stack_leaves_no_process_and_keeps_its_dead_letters(environment: Mapping[str, str]):
    layout = Layout(Path(environment["CLEARSPAN_DATA_DIR"]))
    assert clearspan(environment, "up", "--detach").returncode == 0
    running = Running.read(layout)
    assert running is not None
    _send_large_attribute(f"http://127.0.0.1:{environment['CLEARSPAN_API_PORT']}")
    children = psutil.Process(running.pid).children(recursive=True)
    computing = [child for child in children if "query_api.compute.child" in child.cmdline()]
    produce(running.kafka, "otlp_spans", [b"not a span", b"nor is this"])
    first, second = _dead_letters(environment, count=2)
    assert clearspan(environment, "dead-letters", "drop", first["id"], "--yes").returncode == 0

    os.kill(running.pid, signal.SIGKILL)

    deadline_s = time.monotonic() + 15
    while _processes_below(str(layout.root)) or not _is_free(environment["CLEARSPAN_KAFKA_PORT"]):
        assert time.monotonic() < deadline_s, _processes_below(str(layout.root))
        time.sleep(0.1)
    assert computing
    assert psutil.wait_procs(computing, timeout=20)[1] == []
    again = clearspan(environment, "up", "--detach")
    assert again.returncode == 0, again.stdout + again.stderr
    after = _dead_letters(environment, count=2)  # the drop was only in memory
    assert after[-1]["reason"] == second["reason"]
    raw = clearspan(environment, "dead-letters", "show", after[-1]["id"], "--raw").stdout
    assert raw in {"not a span", "nor is this"}


def _send_large_attribute(address: str) -> None:
    """Send a body that the API reads in a process of its own."""
    span = {
        "trace_id": "c0ffee00c0ffee00c0ffee00c0ffee01",
        "span_id": "c0ffee0000000001",
        "attributes": {"a": "x" * 100_000},
    }
    assert ask(address, "/tracing/spans/ingest", {"spans": [span]})["count"] == 1


def _dead_letters(environment: Mapping[str, str], *, count: int) -> list[dict[str, str]]:
    deadline_s = time.monotonic() + 20
    while True:
        listed = clearspan(environment, "dead-letters", "list", "--json").stdout.splitlines()
        if len(listed) == count:
            return [json.loads(line) for line in listed]
        assert time.monotonic() < deadline_s, listed
        time.sleep(0.1)


@dataclass(frozen=True)
class Restarted:
    """A stack that was stopped with SIGTERM and started again in the same directory."""

    stack: RunningStack
    before: dict[str, Any]
    """The sample as the first stack returned it."""
    after: dict[str, Any]
    """The sample as the second one returned it, before anything was sent to it."""
    kept: dict[str, str]
    """The dead letter that was not dropped."""
    modes: dict[str, int]
    """Permissions of the data directory and of what is in it, while the first stack ran."""


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    root = tmp_path_factory.mktemp("restarted") / "data"
    root.mkdir(mode=0o755)
    (root / "clearspan.log").write_text("of an earlier stack")
    (root / "clearspan.log").chmod(0o644)
    with running_stack(root) as stack:
        modes = {path.name: path.stat().st_mode & 0o777 for path in [root, *root.iterdir()]}
        produce(stack.kafka, "otlp_spans", [SAMPLE.read_bytes()] * 3)
        before = stack.ask_until("/spans/query", ROOT_OF_SAMPLE, lambda answer: answer["count"] == 1)
        produce(stack.kafka, "otlp_spans", [b"not a span", b"nor is this"])
        first, second = _dead_letters(stack.environment, count=2)
        assert stack.command("dead-letters", "drop", first["id"], "--yes").returncode == 0
        produce(stack.kafka, "spans", [_span_json(number, b'"x"') for number in range(10_000)])
        stack.process.send_signal(signal.SIGTERM)
        stack.process.wait(60)
    with running_stack(root) as stack:
        after = stack.ask("/spans/query", ROOT_OF_SAMPLE)
        yield Restarted(stack, before, after, second, modes)


def test_spans_survive_a_restart(restarted: Restarted):
    assert restarted.after == restarted.before


def test_acknowledged_spans_are_stored_before_the_stack_ends(restarted: Restarted):
    query = {"filtering": {"conditions": [{"field": "span_name", "value": "grown"}]}, "windowing": {"limit": 10_000}}

    assert restarted.stack.ask("/spans/query", query)["count"] == 10_000


def test_dead_letters_survive_a_restart_but_not_the_dropped_ones(restarted: Restarted):
    [after] = _dead_letters(restarted.stack.environment, count=1)
    raw = restarted.stack.command("dead-letters", "show", after["id"], "--raw").stdout

    assert after["reason"] == restarted.kept["reason"]
    assert raw in {"not a span", "nor is this"}


def test_span_sent_again_to_a_fresh_broker_replaces_the_old_one(restarted: Restarted):
    created_at = restarted.before["spans"][0]["created_at"]

    produce(restarted.stack.kafka, "otlp_spans", [SAMPLE.read_bytes()])

    restarted.stack.ask_until(
        "/spans/query",
        ROOT_OF_SAMPLE,
        lambda answer: [span["created_at"] > created_at for span in answer["spans"]] == [True],
    )


def test_other_users_cannot_read_data_or_older_logs(restarted: Restarted):
    modes = dict(restarted.modes)

    assert modes.pop("data") == (0o711 if os.geteuid() == 0 else 0o700)
    assert {"clearspan.log", "clickhouse", "postgres", "running.json", "broker.log"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_stack_with_authentication_prints_how_to_get_a_key(environment: Mapping[str, str]):
    started = clearspan({**environment, "CLEARSPAN_AUTH": "on"}, "up", "--detach")

    assert started.returncode == 0, started.stderr
    assert "clearspan keys create" in started.stdout


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


def test_free_ports_are_printed_and_ipv6_addresses_are_in_brackets(environment: Mapping[str, str]):
    if not socket.has_dualstack_ipv6():
        missing("this machine has no IPv6")
    free = {"CLEARSPAN_API_HOST": "::1", "CLEARSPAN_API_PORT": "0", "CLEARSPAN_WORKER_PORT": "0"}

    started = clearspan({**environment, **free, "CLEARSPAN_KAFKA_PORT": "0"}, "up", "--detach")

    assert started.returncode == 0, started.stderr
    assert re.search(r"API +http://\[::1\]:[1-9]\d+\n", started.stdout)
    assert re.search(r"worker +http://127.0.0.1:[1-9]\d+/metrics", started.stdout)


def test_stack_without_authentication_listens_on_loopback_only(environment: Mapping[str, str]):
    refused = clearspan({**environment, "CLEARSPAN_API_HOST": "0.0.0.0"}, "up", "--detach")

    assert refused.returncode == 1
    assert "loopback" in refused.stderr


def test_an_unknown_setting_stops_the_start_with_a_sentence(environment: Mapping[str, str]):
    refused = clearspan({**environment, "CLEARSPAN_API_PRT": "1"}, "up")

    assert refused.returncode == 2
    assert "CLEARSPAN_API_PRT is not a setting of Clearspan." in refused.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("CLEARSPAN_INGEST__PRICES_FILE", "none.csv"), ("CLEARSPAN_WORKER_HOST", "nowhere.invalid")]
)
def test_setting_that_the_worker_rejects_stops_the_start_with_a_sentence(
    environment: Mapping[str, str], name: str, value: str
):
    refused = clearspan({**environment, name: value}, "up")

    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("clearspan: ")
    assert value in refused.stderr.splitlines()[-1]


def test_broker_that_is_too_large_is_replaced_without_loss(tmp_path: Path):
    padding = b'"' + b"x" * 500_000 + b'"'
    with running_stack(tmp_path / "data", CLEARSPAN_EMBEDDED_BROKER_BYTES_MAX=str(64 * 1024 * 1024)) as stack:
        produce(stack.kafka, "otlp_spans", [b"not a span"])
        for chunk in range(10):
            values = [_span_json(chunk * 20 + number, padding) for number in range(20)]
            produce(stack.kafka, "spans", values)
            time.sleep(0.2)
        _wait_for_log(tmp_path / "data.log", "The broker was replaced.")
        produce(stack.kafka, "spans", [_span_json(200, b'"after"')])

        count = _count_all(stack)
        letters = stack.command("dead-letters", "list", "--json")

    assert count == 201
    assert letters.stdout.count('"undecodable"') == 1


def _count_all(stack: RunningStack) -> int:
    """Distinct spans over all pages; a page also ends at 16 MiB."""
    deadline_s = time.monotonic() + 30
    while True:
        seen: set[str] = set()
        windowing: dict[str, object] = {"limit": 100}
        while True:
            answer = stack.ask(
                "/spans/query",
                {"filtering": {"conditions": [{"field": "span_name", "value": "grown"}]}, "windowing": windowing},
            )
            seen |= {span["span_id"] for span in answer["spans"]}
            if "windowing" not in answer:
                break
            windowing = {"limit": 100, "next": answer["windowing"]["next"]}
        if len(seen) >= 201 or time.monotonic() > deadline_s:
            return len(seen)
        time.sleep(0.2)


def _span_json(number: int, padding: bytes) -> bytes:
    head = (
        f'{{"trace_id": "{number + 1:032x}", "span_id": "{number + 1:016x}", "span_name": "grown", '
        f'"start_time": "2026-01-01T00:00:00Z", "attributes": {{"padding": '
    )
    return head.encode() + padding + b"}}"


def _wait_for_log(log: Path, words: str) -> None:
    deadline_s = time.monotonic() + 60
    while words not in log.read_text():
        assert time.monotonic() < deadline_s, log.read_text()[-3000:]
        time.sleep(0.1)


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

        assert stack.wait(30.0) == 0
    finally:
        stack.kill()


def _otlp_traces(address: str) -> int:
    request = urllib.request.Request(
        f"{address}/v1/traces", data=b"", headers={"content-type": "application/x-protobuf"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return int(answer.status)


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


def test_default_otlp_port_is_printed_or_left_out_if_it_is_taken(environment: Mapping[str, str]):
    unset = {name: value for name, value in environment.items() if name != "CLEARSPAN_OTLP_HTTP_PORT"}
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # another program may hold it already
            holder.bind(("127.0.0.1", 4318))
            holder.listen()
        left_out = clearspan(unset, "up", "--detach")
    stopped = clearspan(unset, "down")
    printed = clearspan(environment, "up", "--detach")
    status = clearspan(environment, "status")

    api, otlp = (f"http://127.0.0.1:{environment[f'CLEARSPAN_{name}_PORT']}" for name in ("API", "OTLP_HTTP"))
    assert (left_out.returncode, stopped.returncode, printed.returncode) == (0, 0, 0), left_out.stderr + printed.stderr
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT={api}/otlp; Port 4318 is taken" in left_out.stdout
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT={otlp})" in printed.stdout
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT={otlp})" in status.stdout
    assert _otlp_traces(otlp) == 200
