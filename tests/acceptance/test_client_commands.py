"""Client commands against one stack: their examples, their exit codes, and how they fail."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from clearspan.cli import _parser
from tests.support.command_line import RunCommand, runner
from tests.support.stack import RunningStack

ROOT = Path(__file__).parents[2]
NOTHING_FOUND, PIPE_CLOSED, INTERRUPTED = 3, 141, 130
HOSTILE = "\x1b[2Jevil\u202etxt [red]markup[/red]"


@pytest.fixture(scope="module")
def shop(stack: RunningStack) -> RunningStack:
    """The stack, with an expensive call, a failed payment and a span whose name is hostile."""
    spans = [
        _span("a1", "chat", cost=0.02, model="gpt-4.1"),
        _span("a2", "pay", status_code="STATUS_CODE_ERROR", parent_id="00000000000000a1"),
        _span("a3", HOSTILE, parent_id="00000000000000a1"),
    ]
    stack.ask("/tracing/spans/ingest", {"spans": spans})
    stack.ask_until("/spans/query", {"filtering": {"conditions": [OURS]}}, lambda answer: answer["count"] == 3)
    return stack


@pytest.fixture
def run(shop: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    return runner(monkeypatch, capsys, shop.environment)


OURS = {"field": "trace_id", "value": "c1" * 16}


def _span(
    span_id: str, name: str, *, cost: float | None = None, model: str | None = None, **more: Any
) -> dict[str, Any]:
    metrics = {} if cost is None else {"ag.metrics.costs.incremental.total": cost, "ag.meta.request.model": model}
    return {
        "trace_id": "c1" * 16,
        "span_id": f"00000000000000{span_id}",
        "span_name": name,
        "start_time": "2026-05-01T12:00:00Z",
        "end_time": "2026-05-01T12:00:02.5Z",
        "attributes": {"cart.items": 3, **metrics},
        **more,
    }


def client_commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command that speaks to an API, with its name."""
    waiting: list[argparse.ArgumentParser] = [_parser()]
    while waiting:
        parser = waiting.pop()
        if "server" in (parser.get_default("gathered") or {}):
            yield parser.prog.removeprefix("clearspan "), parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()


COMMANDS = dict(client_commands())


def examples_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the commands in the help that follow the word ``examples``; explanations follow two spaces or more."""
    lines = re.findall(r"^  (clearspan .*)$", parser.epilog or "", re.MULTILINE)
    return [re.split(r"\s{3,}", line)[0] for line in lines]


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_run(shop: RunningStack, run: RunCommand, command: str, tmp_path: Path) -> None:
    examples = examples_of(COMMANDS[command])
    assert examples, f"the help of `clearspan {command}` has no example"

    for example in examples:
        if set(example) & set("|>;$&"):
            ended = in_shell(example, shop, tmp_path)
            assert ended.returncode == 0, f"{example}\n{ended.stderr}"
        else:
            done = run(*shlex.split(example)[1:])
            assert done.code == 0, f"{example}\n{done.stderr}"


def in_shell(example: str, stack: RunningStack, directory: Path) -> subprocess.CompletedProcess[str]:
    at_hand = f'clearspan() {{ "{sys.executable}" -m clearspan "$@"; }}\n'
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", at_hand + example],
        env={**stack.environment, "PYTHONPATH": str(ROOT)},
        cwd=directory, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def lines_of(run: RunCommand, *arguments: str) -> list[dict[str, Any]]:
    """Run a command with ``--json``; return its objects."""
    ended = run(*arguments, "--json")
    assert ended.code == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def names(spans: Sequence[dict[str, Any]]) -> set[str]:
    return {span["span_name"] for span in spans}


class TestQuery:
    IN_TRACE = ("trace_id", "is", "c1" * 16)

    def test_words_filter_and_errors_narrow_each_other(self, run: RunCommand) -> None:
        assert names(lines_of(run, "query", *self.IN_TRACE)) == {"chat", "pay", HOSTILE}
        assert names(lines_of(run, "query", *self.IN_TRACE, "--errors")) == {"pay"}
        chat = json.dumps({"field": "span_name", "value": "chat"})
        assert names(lines_of(run, "query", *self.IN_TRACE, "--filter", chat)) == {"chat"}
        assert lines_of(run, "query", *self.IN_TRACE, "--filter", chat, "--errors") == []

    def test_pages_are_read_until_the_limit(self, run: RunCommand) -> None:
        assert len(lines_of(run, "query", *self.IN_TRACE, "--limit", "2")) == 2

    def test_columns_are_the_members_of_the_objects(self, run: RunCommand) -> None:
        columns = "span_name,cost,duration,cart.items,resource.service.name"
        found = lines_of(run, "query", *self.IN_TRACE, "--columns", columns, "--sort", "cost")

        assert found == [
            {"span_name": "chat", "cost": 0.02, "duration": 2500.0, "cart.items": 3, "resource.service.name": None}
        ]

    def test_window_excludes_spans_outside(self, run: RunCommand) -> None:
        assert lines_of(run, "query", *self.IN_TRACE, "--last", "1m") == []
        assert len(lines_of(run, "query", *self.IN_TRACE, "--oldest", "2026-05-01", "--newest", "2026-05-02")) == 3

    def test_saved_query_is_narrowed(self, shop: RunningStack, run: RunCommand) -> None:
        data = {"filtering": {"conditions": [OURS]}}
        shop.ask("/simple/queries/", {"query": {"slug": "ours", "data": data}})

        assert names(lines_of(run, "query", "--query", "ours", "span_name", "is", "chat")) == {"chat"}

    def test_table_escapes_what_commands_a_terminal(self, run: RunCommand) -> None:
        printed = run("query", *self.IN_TRACE).stdout

        assert "\\x1b[2Jevil\\u202etxt [red]markup[/red]" in printed
        assert "\x1b" not in printed
        assert "✗ pay" in printed

    def test_nothing_found_is_success_unless_the_exit_code_should_say_so(self, run: RunCommand) -> None:
        nothing = run("query", "span_name", "is", "no such span")

        assert (nothing.code, nothing.stdout, nothing.stderr.strip()) == (0, "", "No span matches.")
        assert run("query", "span_name", "is", "no such span", "--exit-code").code == NOTHING_FOUND

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["foo", "is", "3"], 2, "'foo' is not a field; allowed:"),
            (["--columns", "foo"], 2, "'foo' is not a field; allowed:"),
            (["--last", "1h", "--oldest", "-2h"], 2, "--last and --oldest both set"),
            (["--sort", "cost", "--limit", "2000"], 2, "--sort returns at most 1,000 spans"),
            (["--project", "nobody"], 2, "the key belongs to the project 'default', not to 'nobody'"),
            (["--url", "localhost:8080"], 2, "'localhost:8080' is not the address of an API"),
            (["--key", "a\nb"], 2, "the key contains characters that no key has"),
            (["--query", "none"], 1, "404 There is no revision of a saved query"),
            (["--oldest", "-15y"], 1, "400 windowing.oldest: '-15y' is not a relative time"),
            (["--filter", '{"field": "x"}'], 1, "400 filtering.conditions[0].field: 'x' is not a field"),
            (["--filter", '{"operator": "xor"}'], 1, "422 body.filtering.conditions.0"),
            (["--url", "http://127.0.0.1:1"], 1, "http://127.0.0.1:1 does not answer: Connection refused"),
        ],
        ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
    )
    def test_failure_is_a_sentence_and_an_exit_code(
        self, run: RunCommand, arguments: list[str], code: int, message: str
    ) -> None:
        ended = run("query", *arguments)

        assert (ended.code, ended.stdout) == (code, "")
        assert message in ended.stderr
        assert "Traceback" not in ended.stderr
        if " 400 " in message:
            assert re.search(r"\(request [0-9a-f]{32}\)$", ended.stderr.strip())

    def test_closed_pipe_ends_quietly(self, shop: RunningStack, tmp_path: Path) -> None:
        example = "clearspan query --json > /dev/null; clearspan query --json | true; echo ${PIPESTATUS[0]} >&2"
        ended = in_shell(f"set +e +o pipefail; {example}", shop, tmp_path)

        assert ended.stderr.strip() == str(PIPE_CLOSED)


class Silent(BaseHTTPRequestHandler):
    """Sends ``answer`` to every request; ``None``: nothing at all."""

    answer: bytes | None = None

    def do_POST(self) -> None:
        if self.answer is None:
            self.server.heard.set()  # type: ignore[attr-defined]
            threading.Event().wait(20)
        else:
            self.wfile.write(self.answer)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


@pytest.fixture
def other_server() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Silent)
    server.heard = threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    Silent.answer = None
    server.socket.close()


def _query(server: HTTPServer, tmp_path: Path) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "CLEARSPAN_DATA_DIR": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-m", "clearspan", "query"],
        env={**environment, "CLEARSPAN_URL": f"http://127.0.0.1:{server.server_port}"},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_interrupted_command_ends_quietly(other_server: HTTPServer, tmp_path: Path) -> None:
    with _query(other_server, tmp_path) as query:
        assert other_server.heard.wait(20)  # type: ignore[attr-defined]
        query.send_signal(signal.SIGINT)
        printed = query.communicate(timeout=10)

    assert (query.returncode, *printed) == (INTERRUPTED, "", "")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "did not return a JSON object"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://other/\x1b[2J\r\nContent-Length: 0\r\n\r\n", "302 Found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "the connection broke"),
        (
            b"HTTP/1.1 429 Too\r\nRetry-After: 5\r\nContent-Length: 26\r\n\r\n" + b'{"detail": "\\u001b[2J busy"}'[:26],
            "429",
        ),
        (b"HTTP/1.1 401 No\r\nContent-Length: 39\r\n\r\n" + b'{"detail": {"message": "Unauthorized"}}', "Give a key"),
    ],
    ids=["page", "redirect", "broken", "busy", "key"],
)
def test_answer_of_something_else_is_a_sentence(
    other_server: HTTPServer, tmp_path: Path, answer: bytes, message: str
) -> None:
    Silent.answer = answer
    with _query(other_server, tmp_path) as query:
        out, errors = query.communicate(timeout=20)

    assert (query.returncode, out) == (1, "")
    assert message in errors
    assert "\x1b" not in errors
    assert "Traceback" not in errors
