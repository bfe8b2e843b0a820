"""What the server of tools says of itself when a client connects."""

from __future__ import annotations

from importlib.metadata import version

from mcp.shared.memory import create_connected_server_and_client_session

from clearspan.mcp_server.tools import build_server


async def test_client_sees_the_name_and_the_version_of_clearspan() -> None:
    server = build_server(lambda _context: (_ for _ in ()).throw(AssertionError("no tool is called")))

    async with create_connected_server_and_client_session(server) as session:
        shown = (await session.initialize()).serverInfo

    assert (shown.name, shown.version) == ("clearspan", version("clearspan"))
