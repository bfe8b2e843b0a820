"""A server that speaks ClickHouse's HTTP interface over chDB: what our driver needs of it, and faults on demand.

``python -m tests.fakes.clickhouse_http --path DIR [--port 0] [--password TEXT] [--backups DIR]`` prints its port and serves until it is
ended. Each request has a chDB handle of its own, as each has a session of its own on a real server, so that ``SET`` and
``USE`` touch nobody else. Source: https://clickhouse.com/docs/interfaces/http.

``POST /faults?kind=hang|refuse|reset|error&after=0|1&code=N&times=N&inserts=0|1`` arms a fault for the next statements, by
default for one: ``after`` lets a statement take effect first; ``inserts`` leaves all others alone. ``times=0`` disarms.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import chdb
from aiohttp import web
from chdb._exceptions import ChdbError  # `chdb.ChdbError` is another class when pip installs chdb-core before chdb

NOT_SETTINGS: Final = frozenset({
    "query",
    "database",
    "user",
    "password",
    "query_id",
    "session_id",
    "wait_end_of_query",
    "compress",
    "decompress",
    "buffer_size",
    "role",
    "client_protocol_version",
    "default_format",
    "enable_http_compression",
    "send_progress_in_http_headers",
    "http_headers_progress_interval_ms",
    "cancel_http_readonly_queries_on_client_close",
    "quota_key",
})  # fmt: skip
STATUS_OF_CODE: Final = {60: 404, 62: 400, 81: 404, 159: 408, 202: 503, 516: 403}
INSERT_WITH_DATA: Final = re.compile(rb"(INSERT INTO .+?) FORMAT (\w+)\s*\n?", re.DOTALL | re.IGNORECASE)
FORMAT: Final = re.compile(r"\bFORMAT\s+(\w+)\s*$", re.IGNORECASE)


class Fault(NamedTuple):
    """What goes wrong with the next ``times`` statements, or inserts."""

    kind: str
    after: bool
    code: int
    times: int = 1
    inserts: bool = False


class Request(NamedTuple):
    """A statement as it arrived: text and data still in one piece."""

    sql: bytes
    database: str
    settings: dict[str, str]
    parameters: dict[str, str]
    default_format: str


class ClickHouseHttp:
    """The server: one chDB path, any number of requests at once."""

    def __init__(self, path: Path, password: str, backups: Path | None) -> None:
        self._path = str(path) if backups is None else f"{path}?backups.allowed_path={backups}"
        self._password = password
        self._keeps_the_engine_open = chdb.connect(self._path)
        self._fault: Fault | None = None

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/ping", self._ping)
        app.router.add_post("/faults", self._arm)
        app.router.add_route("*", "/", self._statement)
        return app

    async def _ping(self, _request: web.Request) -> web.Response:
        return web.Response(text="Ok.\n")

    async def _arm(self, request: web.Request) -> web.Response:
        query = request.query
        fault = Fault(
            query["kind"],
            query.get("after") == "1",
            int(query.get("code", "0")),
            int(query.get("times", "1")),
            query.get("inserts") == "1",
        )
        self._fault = fault if fault.times else None
        return web.Response()

    async def _statement(self, request: web.Request) -> web.Response:
        if not self._is_welcome(request):
            return _error(516, "Code: 516. DB::Exception: default: Authentication failed. (AUTHENTICATION_FAILED)")
        try:
            received = await _read(request)
        except ConnectionResetError:  # the client is gone, so nobody reads this response
            return web.Response()
        fault = self._fault_of(received)
        if fault is not None and not fault.after:
            return await _act_out(fault, request)
        try:
            body = await asyncio.to_thread(self._run, received)
        except ChdbError as exc:
            text = str(exc)
            return _error(int(text.split("Code: ", 1)[1].split(".", 1)[0]), text)
        if fault is not None:
            return await _act_out(fault, request)
        return _answer(received, body)

    def _fault_of(self, received: Request) -> Fault | None:
        """Return what goes wrong with this statement, and count it."""
        fault = self._fault
        if fault is None or (fault.inserts and not received.sql.lstrip().upper().startswith(b"INSERT")):
            return None
        self._fault = fault._replace(times=fault.times - 1) if fault.times > 1 else None
        return fault

    def _is_welcome(self, request: web.Request) -> bool:
        if not self._password:
            return True
        basic = base64.b64encode(f"default:{self._password}".encode()).decode()
        return (
            request.headers.get("Authorization") == f"Basic {basic}"
            or request.headers.get("X-ClickHouse-Key") == self._password
            or request.query.get("password") == self._password
        )

    def _run(self, received: Request) -> bytes:
        handle = chdb.connect(self._path)
        try:
            if received.database:
                handle.query(f"USE `{received.database}`")
            for name, value in received.settings.items():
                escaped = value.replace("\\", "\\\\").replace("'", "\\'")
                handle.query(f"SET {name} = '{escaped}'")
            return _run_on(handle, received)
        finally:
            handle.close()


def _run_on(handle: Any, received: Request) -> bytes:
    insert = INSERT_WITH_DATA.match(received.sql)
    if insert is None:
        result = handle.query(received.sql.decode(), received.default_format, params=received.parameters)
        return bytes(result.bytes() or b"")
    with tempfile.NamedTemporaryFile(suffix=".data") as file:
        file.write(received.sql[insert.end() :])
        file.flush()
        handle.query(f"{insert[1].decode()} FROM INFILE '{file.name}' FORMAT {insert[2].decode()}")
    return b""


async def _read(request: web.Request) -> Request:
    values = dict(request.query)
    if request.content_type == "multipart/form-data":
        values |= {name: str(value) for name, value in (await request.post()).items()}
        body = b""
    else:
        body = await request.read()
    query = values.get("query", "").encode()
    return Request(
        sql=query + b"\n" + body if query else body,
        database=values.get("database", ""),
        settings={k: v for k, v in values.items() if k not in NOT_SETTINGS and not k.startswith("param_")},
        parameters={k.removeprefix("param_"): v for k, v in values.items() if k.startswith("param_")},
        default_format=values.get("default_format", "TabSeparated"),
    )


async def _act_out(fault: Fault, request: web.Request) -> web.Response:
    if fault.kind == "hang":
        await asyncio.sleep(3600)
    if fault.kind == "refuse":
        return web.Response(status=503, text="upstream is unavailable")
    if fault.kind == "reset" and request.transport is not None:
        request.transport.abort()
    return _error(fault.code, f"Code: {fault.code}. DB::Exception: armed. (ARMED)")


def _answer(received: Request, body: bytes) -> web.Response:
    format_clause = FORMAT.search(received.sql.decode(errors="replace"))
    headers = {
        "X-ClickHouse-Summary": json.dumps({"read_rows": "0", "written_rows": "0", "elapsed_ns": "1"}),
        "X-ClickHouse-Timezone": "UTC",
    }
    if body:
        headers["X-ClickHouse-Format"] = format_clause[1] if format_clause else received.default_format
    return web.Response(body=body, headers=headers)


def _error(code: int, text: str) -> web.Response:
    return web.Response(
        status=STATUS_OF_CODE.get(code, 500), text=text, headers={"X-ClickHouse-Exception-Code": str(code)}
    )


def tls_context(certificate: Path, client_authority: Path) -> ssl.SSLContext:
    """Return a context that asks clients for a certificate of this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(client_authority)
    return context


async def serve(app: ClickHouseHttp, host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Serve on the loopback interface until cancelled; the port stands on the first line of the output."""
    runner = web.AppRunner(app.app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    await site.start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201  # the parent reads it
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--password", default="")
    parser.add_argument("--backups", type=Path, help="the directory of BACKUP and RESTORE")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--certificate", type=Path, help="its certificate and key: it then speaks TLS")
    parser.add_argument("--client-authority", type=Path)
    given = parser.parse_args()
    tls = tls_context(given.certificate, given.client_authority) if given.certificate else None
    asyncio.run(serve(ClickHouseHttp(given.path, given.password, given.backups), given.host, given.port, tls))
