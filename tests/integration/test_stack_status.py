"""Whether the embedded stack is ready, asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from clearspan.embedded import commands
from clearspan.embedded.layout import Layout, Running, hold
from common.settings import Settings
from tests.support.ports import free_port


def stack_at(address: str, *, has_own_broker: bool = True) -> Running:
    """Return an embedded stack whose API and worker have this address."""
    return Running(1, address, address, "kafka.example:9", "p", has_own_broker=has_own_broker)


@contextmanager
def responding(status: int, body: bytes = b"{}") -> Iterator[str]:
    """Serve this response; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_readiness_is_asked_without_the_http_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    with responding(200) as address:
        assert commands._waiting_for(stack_at(address)) == ""


def test_reason_of_a_stack_that_waits_is_repeated() -> None:
    with responding(503, b'{"status": "not ready", "waiting_for": {"store": "ClickHouse is unavailable."}}') as address:
        assert commands._waiting_for(stack_at(address)) == "The API waits: ClickHouse is unavailable."


@pytest.mark.parametrize(
    ("has_own_broker", "reason"),
    [
        (True, "The API does not answer yet."),
        (False, "The API does not answer yet. Is Kafka at kafka.example:9 (CLEARSPAN_KAFKA__BOOTSTRAP)?"),
    ],
)
def test_address_of_kafka_is_doubted_if_it_was_configured(has_own_broker: bool, reason: str) -> None:
    stack = stack_at(f"http://127.0.0.1:{free_port()}", has_own_broker=has_own_broker)

    assert commands._waiting_for(stack) == reason


@pytest.mark.parametrize(("as_of", "is_warned"), [("2026-01", True), ("9999-01-01", False)])
def test_status_warns_of_old_prices(
    tmp_path: Path, as_of: str, is_warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(f"# as of {as_of}\nprovider,model,input,cached_input,cache_write,output\nme,mine,1,,,2\n")
    layout = Layout(tmp_path)
    with responding(200) as address, hold(layout):
        stack_at(address).write(layout)

        assert commands.status(Settings(data_dir=tmp_path)) == 0

    assert ("Warning: The prices of models are of 2026-01-01" in capsys.readouterr().out) is is_warned
