"""``clearspan mcp``: its options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_server

DESCRIPTION: Final = """\
Serve the spans of one project to language models, as tools of the Model Context Protocol (MCP): find spans, read a
trace in compact form, group, list attributes and sessions. The tools only read. Over standard input and output, which
is the default, the key of this command decides what they see; over HTTP, the Authorization header of each caller does.
"""
EXAMPLES: Final = """\
in the configuration of an assistant
  {"mcpServers": {"clearspan": {"command": "clearspan", "args": ["mcp"], "env": {"CLEARSPAN_KEY": "KEY"}}}}

examples
  clearspan mcp < /dev/null           what an assistant starts; it ends with its standard input

With --listen 8090 it serves http://127.0.0.1:8090/mcp instead (streamable HTTP). docs/mcp.md describes the tools.
"""


def add(commands: Any) -> None:
    """Add the command."""
    texts = {"description": DESCRIPTION, "epilog": EXAMPLES}
    mcp = add_command(
        commands, "mcp", "clearspan.mcp_server.server:mcp", "serve spans to language models (MCP)", **texts
    )
    mcp.add_argument("--listen", metavar="[HOST:]PORT", help="serve over HTTP at a loopback address, not over stdio")
    add_server(mcp)
