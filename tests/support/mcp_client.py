"""The client of the `mcp` package, connected to ``clearspan mcp``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.ports import free_port
from tests.support.stack import RunningStack

ROOT = Path(__file__).parents[2]
START_TRIES = 1_200


@asynccontextmanager
async def over_stdio(stack: RunningStack) -> AsyncIterator[ClientSession]:
    """Start the command, as an assistant does."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "clearspan", "mcp"], env=dict(stack.environment), cwd=ROOT
    )
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> Any:
    """Return the JSON object or the text of a tool."""
    result = await session.call_tool(tool, arguments)
    text = "".join(getattr(part, "text", "") for part in result.content)
    assert not result.isError, text
    return json.loads(text) if text.startswith("{") else text


async def failure(session: ClientSession, tool: str, **arguments: Any) -> str:
    """Return the text of a failed call."""
    result = await session.call_tool(tool, arguments)
    assert result.isError
    return "".join(getattr(part, "text", "") for part in result.content)


@asynccontextmanager
async def over_http(stack: RunningStack, **environment: str) -> AsyncIterator[str]:
    """Serve over HTTP; yield the address."""
    port = free_port()
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "clearspan", "mcp", "--listen", str(port),
        cwd=ROOT, env={**stack.environment, **environment}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert started.stdout is not None
        line = (await asyncio.wait_for(started.stdout.readline(), 120)).decode()
        assert str(port) in line
        address = f"http://127.0.0.1:{port}/mcp"
        async with httpx.AsyncClient() as client:
            for _ in range(START_TRIES):
                try:
                    await client.get(address)
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.05)
        yield address
    finally:
        started.terminate()
        await started.wait()


@asynccontextmanager
async def http_session(address: str, **headers: str) -> AsyncIterator[ClientSession]:
    """Connect over HTTP, with headers."""
    async with (
        httpx.AsyncClient(headers=headers, timeout=120) as client,
        streamable_http_client(address, http_client=client) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session
