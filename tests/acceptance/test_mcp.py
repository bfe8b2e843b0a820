"""``clearspan mcp``, asked by the client of the `mcp` package: over stdio and over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.command_line import RunCommand, runner
from tests.support.mcp_client import call, failure, http_session, over_http, over_stdio
from tests.support.stack import RunningStack

ROOT = Path(__file__).parents[2]
TRACE_ID = "3c" * 16
SESSION = "refund-chat"
PROMPT = [{"role": "user", "content": "Where is my refund?"}]
ANSWER = [{"role": "assistant", "content": "On its way. " + "x" * 3_000}]
TOOLS = {"query_spans", "read_trace", "read_span", "group_spans", "list_values", "list_sessions"}


@pytest.fixture(scope="module")
def shop(stack: RunningStack) -> RunningStack:
    """The stack, with one trace: an agent, a model call with messages, and a tool that fails."""
    usage = {"ag.metrics.costs.incremental.total": 0.25, "ag.metrics.tokens.incremental.total": 40}
    call = {"ag.meta.request.model": "gpt-4.1", "ag.type.span": "chat", **usage}
    messages = {"ag.data.inputs.messages": PROMPT, "ag.data.outputs.messages": ANSWER}
    spans = [
        _span("1", "support agent", attributes={"ag.type.span": "agent", "ag.session.id": SESSION}),
        _span("2", "ask model", parent_id="0" * 15 + "1", attributes={**call, **messages, "ag.session.id": SESSION}),
        _span("3", "refund", parent_id="0" * 15 + "1", status_code="STATUS_CODE_ERROR", status_message="card expired"),
    ]
    stack.ask("/tracing/spans/ingest", {"spans": spans})
    of_trace = {"conditions": [{"field": "trace_id", "value": TRACE_ID}]}
    stack.ask_until("/spans/query", {"filtering": of_trace}, lambda answer: answer["count"] == 3)
    return stack


@pytest.fixture
def run(shop: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    return runner(monkeypatch, capsys, shop.environment)


def _span(number: str, name: str, **members: Any) -> dict[str, Any]:
    times = {"start_time": "2026-05-01T12:00:00Z", "end_time": "2026-05-01T12:00:02Z"}
    return {"trace_id": TRACE_ID, "span_id": number.rjust(16, "0"), "span_name": name, **times, **members}


async def test_model_finds_reads_and_groups_spans(shop: RunningStack) -> None:
    async with over_stdio(shop) as session:
        tools = (await session.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.annotations is not None and tool.annotations.readOnlyHint for tool in tools)

        found = await call(session, "query_spans", conditions=f"trace_id is {TRACE_ID}", sort="cost")
        assert [span["span_name"] for span in found["spans"]] == ["ask model"]
        assert found["spans"][0]["cost"] == 0.25
        of_session = await call(session, "query_spans", conditions=f"session is {SESSION}")
        assert [(span["span_name"], span["session"]) for span in of_session["spans"]] == [
            ("ask model", SESSION), ("support agent", SESSION),
        ]  # fmt: skip

        pages = [await call(session, "query_spans", conditions=f"trace_id is {TRACE_ID}", limit=2)]
        pages.append(await call(session, "query_spans", conditions=f"trace_id is {TRACE_ID}", page=pages[0]["next"]))
        assert {span["span_name"] for page in pages for span in page["spans"]} == {
            "support agent", "ask model", "refund",
        }  # fmt: skip

        groups = await call(
            session,
            "group_spans",
            group_by=["model"],
            measures=[{"of": "cost", "as": ["sum"]}],
            conditions=f"trace_id is {TRACE_ID}",
            order_by={"of": "cost", "as": "sum"},
        )
        assert groups["groups"][0] == {"by": {"model": "gpt-4.1"}, "values": {"cost": {"sum": 0.25}}}

        values = await call(session, "list_values", keys=["span_type"], conditions=f"trace_id is {TRACE_ID}")
        assert {"value": "chat", "count": 1} in values["facets"][0]["values"]

        sessions = await call(session, "list_sessions", conditions=f"trace_id is {TRACE_ID}")
        assert sessions["sessions"] == [
            {
                "session_id": SESSION, "turns": 1, "last_start": "2026-05-01T12:00:00Z",
                "errors_count": 1, "tokens": 40, "cost": 0.25,
            }
        ]  # fmt: skip


async def test_trace_is_compact_and_says_what_it_leaves_out(shop: RunningStack) -> None:
    async with over_stdio(shop) as session:
        text = await call(session, "read_trace", trace_id=TRACE_ID)
        assert f"session {SESSION}" in text
        assert "  - refund [" in text or "  - refund FAILED" in text
        assert "Where is my refund?" in text
        assert "2012 more characters" in text

        short = await call(session, "read_trace", trace_id=TRACE_ID, characters_max=1_000)
        assert len(short) < 1_200
        assert "raise characters_max" in short

        span = await call(session, "read_span", trace_id=TRACE_ID, span_id="3".rjust(16, "0"))
        assert span["status_message"] == "card expired"


async def test_failures_are_sentences_for_the_model(shop: RunningStack) -> None:
    async with over_stdio(shop) as session:
        assert "“colour” is not a field" in await failure(session, "query_spans", conditions="colour = red")
        assert "is not closed" in await failure(session, "query_spans", conditions='span_name is "open')
        assert "There is no trace" in await failure(session, "read_trace", trace_id="ff" * 16)
        assert "'-1y' is not a relative time" in await failure(session, "query_spans", oldest="-1y")
        assert "100" in await failure(session, "query_spans", limit=101)


async def test_over_http_other_hosts_and_sites_are_refused(shop: RunningStack) -> None:
    async with over_http(shop) as address:
        async with http_session(address) as session:
            found = await call(session, "query_spans", conditions=f"trace_id is {TRACE_ID}")
            assert len(found["spans"]) == 3
        async with httpx.AsyncClient() as client:
            initialize = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            accepted = {"accept": "application/json, text/event-stream"}
            other_host = await client.post(address, json=initialize, headers={**accepted, "host": "evil.example"})
            other_site = await client.post(
                address, json=initialize, headers={**accepted, "origin": "http://evil.example"}
            )
            assert other_host.status_code in {403, 421}
            assert other_site.status_code == 403


@pytest.mark.parametrize(
    ("listen", "sentence"), [("0.0.0.0:8090", "loopback addresses only"), ("here", "must be a port"), ("70000", "port")]
)
def test_only_loopback_addresses_are_served(run: RunCommand, listen: str, sentence: str) -> None:
    ended = run("mcp", "--listen", listen)
    assert ended.code == 2
    assert sentence in ended.stderr


def test_program_of_the_docs_runs(shop: RunningStack) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "mcp.md").read_text(), re.DOTALL | re.MULTILINE)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**shop.environment, "PATH": path},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["spans"][0]["cost"] >= 0.25


def test_command_ends_with_its_standard_input(shop: RunningStack) -> None:
    ended = shop.command("mcp")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_wrong_address_ends_the_command_with_a_sentence(run: RunCommand) -> None:
    ended = run("mcp", "--url", "http://127.0.0.1:9")
    assert ended.code == 1
    assert "does not answer" in ended.stderr
    assert ended.stdout == ""


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def _nested(levels: int) -> bytes:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_values","arguments":{"keys":%b%b}}}'
    return call % (b"[" * levels, b"]" * levels)


async def test_over_http_json_that_cannot_be_read_is_a_bad_request(shop: RunningStack) -> None:
    bodies = [b"", b"{", b"\xff", b'"\\ud800"', b"[NaN]", b"1" * 5_000, *map(_nested, (100, 300, 900, 100_000))]
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with over_http(shop) as address, httpx.AsyncClient(headers=headers, timeout=60) as client:
        for body in bodies:
            refused = await client.post(address, content=body)
            assert refused.status_code == 400, body[:100]
            assert refused.json()["error"]["message"]
        too_large = await client.post(address, content=b" " * (1 << 21))
        assert too_large.status_code == 413
        wrong = await client.post(address, content=_nested(20))
        assert wrong.json()["result"]["isError"]
        assert (await client.post(address, content=PING)).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
