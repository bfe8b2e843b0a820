"""Client commands against one stack: their examples, their exit codes, and how they fail."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from clearspan.cli import make_parser
from clearspan.command import CommandParser
from tests.support.command_line import RunCommand, runner
from tests.support.shell_pages import COMMAND_LINE
from tests.support.stack import RunningStack

ROOT = Path(__file__).parents[2]
NOTHING_FOUND, PIPE_CLOSED, INTERRUPTED = 3, 141, 130
HOSTILE = "\x1b[2Jevil\u202etxt [red]markup[/red]"


@pytest.fixture(scope="module")
def shop(stack: RunningStack) -> RunningStack:
    """The stack, with an expensive call, a failed payment and a span whose name is hostile."""
    spans = [
        _span("a1", "chat", {**CALL, "ag.type.span": "chat"}),
        _span("a2", "pay", status_code="STATUS_CODE_ERROR", parent_id="00000000000000a1"),
        _span("a3", HOSTILE, parent_id="00000000000000a1"),
    ]
    stack.ask("/tracing/spans/ingest", {"spans": spans})
    _commit_twice(stack)
    stack.ask("/simple/queries/", {"query": {"slug": "failed-answers", "data": {"filtering": {"conditions": [OURS]}}}})
    stack.ask_until("/spans/query", {"filtering": {"conditions": [OURS]}}, lambda answer: answer["count"] == 3)
    return stack


@pytest.fixture
def run(shop: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    return runner(monkeypatch, capsys, shop.environment)


OURS = {"field": "trace_id", "value": "c1" * 16}


def _commit_twice(stack: RunningStack) -> None:
    application = stack.ask("/applications/", {"application": {"slug": "faq-bot"}})["application"]
    new = {"application_id": application["id"], "slug": "faq-bot.concise"}
    variant = stack.ask("/applications/variants/", {"application_variant": new})["application_variant"]
    for message, prompt, limit in (("first", "Be kind.", 5), ("tighter\x1b[2J", "Be kind\nand brief.", "5")):
        data = {"parameters": {"prompt": prompt, "limit": limit}}
        revision = {"application_variant_id": variant["id"], "message": message, "data": data}
        stack.ask("/applications/revisions/commit", {"application_revision": revision})


CALL = {
    "ag.metrics.costs.incremental.total": 0.02,
    "ag.meta.request.model": "gpt-4.1",
    "ag.data.inputs": {"messages": [{"role": "user", "content": "A \x1b[2J table?"}]},
    "ag.data.outputs": {"messages": [{"role": "assistant", "content": "Yes."}]},
}


def _span(span_id: str, name: str, attributes: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "trace_id": "c1" * 16,
        "span_id": f"00000000000000{span_id}",
        "span_name": name,
        "start_time": "2026-05-01T12:00:00Z",
        "end_time": "2026-05-01T12:00:02.5Z",
        "attributes": {"cart.items": 3, **(attributes or {})},
        **more,
    }


SOME_TRACE = "3e62f5b20306a7b90576815eceddda07"
"""The trace of the examples: ``clearspan up --detach`` sends it."""

COMMANDS = {
    command.prog.removeprefix("clearspan "): command
    for command in make_parser().with_all_below()
    if "server" in getattr(command.get_default("command"), "options", {})
}
"""Every command that speaks to an API."""


def examples_of(parser: CommandParser) -> list[str]:
    """Return the commands in the help that follow the word ``examples``; explanations follow two spaces or more."""
    lines = re.findall(r"^  (clearspan .*)$", parser.epilog or "", re.MULTILINE)
    return [re.split(r"\s{3,}", line)[0] for line in lines]


DELETING = {"projects retention"}
"""Their examples would delete what other tests store; tests of their own run them."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    """Among its own, or among those of its group."""
    examples = [example for parser in make_parser().with_all_below() for example in examples_of(parser)]

    assert any(example.startswith(f"clearspan {command}") for example in examples)


@pytest.mark.parametrize(
    "command", [name for name, parser in COMMANDS.items() if examples_of(parser) and name not in DELETING]
)
def test_examples_of_the_help_run(
    shop: RunningStack, run: RunCommand, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in examples_of(COMMANDS[command]):
        line = example.replace(SOME_TRACE, "c1" * 16) + (" --last 1d --limit 1" if command == "tail" else "")
        if set(line) & set("|<>;$&"):
            ended = in_shell(line, shop, tmp_path)
            assert ended.returncode == 0, f"{line}\n{ended.stderr}"
        else:
            done = run(*shlex.split(line)[1:])
            assert done.code == 0, f"{line}\n{done.stderr}"


def in_shell(example: str, stack: RunningStack, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", COMMAND_LINE + example],
        env={**stack.environment, "PYTHONPATH": str(ROOT)},
        cwd=directory, capture_output=True, text=True, timeout=120, check=False,
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
            (
                ["foo", "=", "3"],
                2,
                "“foo” is not a field. Write attributes.foo for an attribute, scores.foo for a score.",
            ),
            (["--columns", "foo"], 2, "'foo' is not a field; allowed:"),
            (["--last", "1h", "--oldest", "-2h"], 2, "--last and --oldest both set"),
            (["--sort", "cost", "--limit", "2000"], 2, "--sort returns at most 1,000 spans"),
            (["--project", "nobody"], 2, "the key belongs to the project 'default', not to 'nobody'"),
            (["--url", "localhost:8080"], 2, "'localhost:8080' is not the address of an API"),
            (["--key", "a\nb"], 2, "the key contains characters that no key has"),
            (["--query", "none"], 1, "404 There is no revision of a saved query"),
            (["--oldest", "-15y"], 1, "400 windowing.oldest: '-15y' is not a relative time"),
            (["--filter", '{"field": "x"}'], 1, "400 filtering.conditions[0].field: 'x' is not a field"),
            (["--filter", '{"operator": "xor"}'], 1, "422 body.filtering.operator: Input should be 'and', 'or'"),
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

    @pytest.mark.parametrize("form", ["--json", ""])
    def test_closed_pipe_ends_quietly(self, shop: RunningStack, tmp_path: Path, form: str) -> None:
        example = f"clearspan query {form} > /dev/null; clearspan query {form} | true; echo ${{PIPESTATUS[0]}} >&2"
        ended = in_shell(f"set +e +o pipefail; {example}", shop, tmp_path)

        assert ended.stderr.strip() == str(PIPE_CLOSED)


class TestTrace:
    ID = "c1" * 16

    def test_tree_shows_children_below_their_parents(self, run: RunCommand) -> None:
        ended = run("trace", self.ID)

        summary, _empty, _titles, _rule, *rows = ended.stdout.splitlines()
        assert summary.startswith("chat   2026-05-01 12:00:00.000 UTC   2.50 s   3 spans")
        assert summary.rstrip().endswith("$0.020   1 failed")
        assert [row.split("  ")[0] for row in rows] == [
            "chat",
            "├─ ✗ pay",
            "└─ \\x1b[2Jevil\\u202etxt [red]markup[/red]",
        ]

    def test_objects_are_the_spans_in_the_order_of_the_tree(self, run: RunCommand) -> None:
        assert [(span["span_name"], span["level"]) for span in lines_of(run, "trace", self.ID)] == [
            ("chat", 0),
            ("pay", 1),
            (HOSTILE, 1),
        ]

    def test_messages_are_the_conversation(self, run: RunCommand) -> None:
        assert run("trace", self.ID, "--messages").stdout.splitlines()[1:] == [
            "  user",
            "    A \\x1b[2J table?",
            "  assistant",
            "    Yes.",
            "",
        ]
        assert [line["side"] for line in lines_of(run, "trace", self.ID, "--messages")] == ["input", "output"]

    @pytest.mark.parametrize("options", [[], ["--messages"], ["--json"]])
    def test_unknown_trace_is_not_found(self, run: RunCommand, options: list[str]) -> None:
        ended = run("trace", "f" * 32, *options)

        assert (ended.code, ended.stdout) == (NOTHING_FOUND, "")
        assert ended.stderr == f"There is no trace {'f' * 32}.\n"

    def test_text_that_is_no_id_is_an_error(self, run: RunCommand) -> None:
        ended = run("trace", "../admin/status")

        assert ended.code == 1
        assert "400 Invalid trace_id" in ended.stderr

    def test_limit_says_what_it_left_out(self, run: RunCommand) -> None:
        ended = run("trace", self.ID, "--limit", "1")

        assert "2 more spans" in ended.stderr
        assert "pay" not in ended.stdout


class TestTail:
    def test_errors_of_the_last_day_are_one_line_each(self, run: RunCommand) -> None:
        ended = run("tail", "--last", "1d", "--errors", "trace_id", "is", "c1" * 16, "--limit", "1")

        assert ended.code == 0
        assert ended.stdout == f"12:00:00.000  ✗ pay  task  2.50 s  {'c1' * 16}\n"

    def test_it_begins_now_and_prints_what_arrives(self, shop: RunningStack, run: RunCommand) -> None:
        printed = threading.Event()

        def send() -> None:  # again and again: the command may begin late
            for number in count(0xB001):
                late = {**_span(f"{number:x}"[-2:], "late"), "trace_id": f"{number:x}" * 8}
                shop.ask("/tracing/spans/ingest", {"spans": [late]})
                if printed.wait(1.0):
                    return

        sending = threading.Thread(target=send)
        sending.start()
        try:
            (found,) = lines_of(run, "tail", "span_name", "in", "late,chat", "--limit", "1")
        finally:
            printed.set()
            sending.join()

        assert found["span_name"] == "late"

    def test_it_reconnects_and_continues_where_it_was(
        self,
        other_server: HTTPServer,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        monkeypatch.setattr("clearspan.client.tail.RETRY_S", 0.01)
        page = {"spans": [], "windowing": {"next": "a"}}
        answers = [_ok(page), b"HTTP/1.1 503 Away\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", b"",
                   _ok({"spans": [_span("a1", "found")], "windowing": {"next": "b"}})]  # fmt: skip
        Silent.answers = iter(answers)
        environment = {"CLEARSPAN_URL": _address(other_server), "CLEARSPAN_DATA_DIR": str(tmp_path)}

        ended = runner(monkeypatch, capsys, environment)("tail", "--json", "--limit", "1")

        assert (ended.code, json.loads(ended.stdout)["span_name"]) == (0, "found")
        assert ended.stderr.count("Reconnecting") == 2
        cursors = [json.loads(body)["windowing"].get("next") for body in Silent.bodies]
        assert cursors == [None, "a", "a", "a"]

    def test_it_fails_at_once_if_it_cannot_begin(self, run: RunCommand) -> None:
        ended = run("tail", "--url", "http://127.0.0.1:1")

        assert ended.code == 1
        assert "does not answer" in ended.stderr


class TestGroups:
    def test_groups_are_measured(self, run: RunCommand) -> None:
        measures = "count,errors,duration.max,cart.items.sum"
        (group,) = lines_of(run, "groups", *TestQuery.IN_TRACE, "--by", "trace_id", "--measures", measures)

        assert group["by"] == {"trace_id": "c1" * 16}
        assert group["values"] == {"count": 3, "errors": 1, "duration": {"max": 2500.0}, "cart.items": {"sum": 9}}

    def test_table_has_a_bar_for_each_group(self, run: RunCommand) -> None:
        rows = run("groups", *TestQuery.IN_TRACE, "--by", "model").stdout.splitlines()[2:]

        assert [row.split()[0] for row in rows] == ["(none)", "gpt-4.1"]
        assert [row.count("█") for row in rows] == [20, 10]

    def test_interval_makes_rows_or_lines_of_blocks(self, run: RunCommand) -> None:
        assert "2026-05-01 12:00" in run("groups", *TestQuery.IN_TRACE, "--interval", "1h").stdout
        assert (
            "count since 2026-05-01 12:00"
            in run("groups", *TestQuery.IN_TRACE, "--interval", "1h", "--by", "model").stdout
        )

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["--measures", "cost.median"], 2, "'cost.median' is not a measure; allowed: count, errors"),
            (["--by", "nope"], 2, "'nope' is not a field"),
            (["--by", "a.a,b.b,c.c,d.d"], 1, "422 body.group_by"),
            (["--limit", "5000"], 1, "422 body.limit"),
        ],
        ids=lambda value: value[-1] if isinstance(value, list) else "",
    )
    def test_failure_is_a_sentence(self, run: RunCommand, arguments: list[str], code: int, message: str) -> None:
        ended = run("groups", *arguments)

        assert (ended.code, ended.stdout) == (code, "")
        assert message in ended.stderr


class TestApplications:
    def test_log_lists_the_commits_backwards(self, run: RunCommand) -> None:
        assert [each["message"] for each in lines_of(run, "applications", "log", "faq-bot")] == [
            "tighter\x1b[2J",
            "first",
        ]
        printed = run("applications", "log", "faq-bot").stdout
        assert "tighter\\x1b[2J" in printed
        assert "\x1b" not in printed

    def test_show_prints_a_version(self, run: RunCommand) -> None:
        assert '"prompt": "Be kind."' in run("applications", "show", "faq-bot", "--version", "0").stdout
        (head,) = lines_of(run, "applications", "show", "faq-bot")
        assert head["version"] == "1"

    def test_diff_shows_the_last_change_by_default(self, run: RunCommand) -> None:
        by_default, named = run("applications", "diff", "faq-bot"), run("applications", "diff", "faq-bot", "0", "1")

        assert by_default == named
        assert "/parameters/prompt\n  -Be kind.\n  +Be kind\n  +and brief.\n" in named.stdout
        assert '/parameters/limit\n  -5\n  +"5"\n' in named.stdout

    def test_diff_as_json_has_the_changes(self, run: RunCommand) -> None:
        changes = lines_of(run, "applications", "diff", "faq-bot", "0", "1")

        assert [(change["op"], change["path"]) for change in changes] == [
            ("changed", "/parameters/prompt"),
            ("changed", "/parameters/limit"),
        ]

    @pytest.mark.parametrize("words", ["log nope", "show nope", "show faq-bot --version 7", "diff nope", "diff faq-bot 0 9",
                                       "log faq-bot --variant nope"])  # fmt: skip
    def test_unknown_is_not_found(self, run: RunCommand, words: str) -> None:
        ended = run("applications", *words.split())

        assert (ended.code, ended.stdout) == (NOTHING_FOUND, "")
        assert ended.stderr.startswith("There is no ")


def _ok(answer: dict[str, Any]) -> bytes:
    body = json.dumps(answer).encode()
    return (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
        + body
    )


def _address(server: HTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


class Silent(BaseHTTPRequestHandler):
    """Sends one of ``answers`` to every request, the last one again and again; without one, nothing at all."""

    answers: Iterator[bytes] = iter(())
    bodies: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        answer = next(self.answers, None)
        if answer is None:
            self.server.heard.set()  # type: ignore[attr-defined]
            self.server.closing.wait(60)  # type: ignore[attr-defined]
        else:
            self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


@pytest.fixture
def other_server() -> Iterator[HTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.heard = threading.Event()  # type: ignore[attr-defined]
    server.closing = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.closing.set()  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()
    Silent.answers = iter(())
    Silent.bodies.clear()


def _start(server: HTTPServer, tmp_path: Path, command: str = "query") -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "CLEARSPAN_DATA_DIR": str(tmp_path)}
    # A background job of a shell ignores SIGINT, and so would this child.
    of_the_test = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "clearspan", command],
            env={**environment, "CLEARSPAN_URL": _address(server)},
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, of_the_test)


@pytest.mark.parametrize("command", ["query", "tail"])
def test_interrupted_command_ends_quietly(other_server: HTTPServer, tmp_path: Path, command: str) -> None:
    with _start(other_server, tmp_path, command) as query:
        assert other_server.heard.wait(60)  # type: ignore[attr-defined]
        query.send_signal(signal.SIGINT)
        printed = query.communicate(timeout=60)

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
    other_server: HTTPServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: bytes,
    message: str,
) -> None:
    Silent.answers = iter([answer])
    environment = {"CLEARSPAN_DATA_DIR": str(tmp_path), "CLEARSPAN_URL": _address(other_server)}

    ended = runner(monkeypatch, capsys, environment)("query")

    assert (ended.code, ended.stdout) == (1, "")
    assert message in ended.stderr
    assert "\x1b" not in ended.stderr
    assert "Traceback" not in ended.stderr
