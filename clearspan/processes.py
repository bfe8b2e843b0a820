"""The embedded stack, the processes of servers, and other commands whose programs are imported only to run them."""

# ruff: noqa: PLC0415 - each command imports its program: some take seconds, and some need the extra `embedded`

from __future__ import annotations

from typing import Annotated, Final

from clearspan.command import Json, Operand, Option, command
from clearspan.options import Server
from common.settings import Settings

UP_DESCRIPTION: Final = """\
Start the embedded stack: broker, Postgres, engine, worker and API in one process, without containers. It runs until it
is stopped, in this terminal or, with --detach, in the background. Data is kept in CLEARSPAN_DATA_DIR.
"""
UP_EXAMPLES: Final = """\
examples
  clearspan up                              run in this terminal; Ctrl-C drains and stops
  clearspan up --detach                     run in the background, and send and find a first trace
  CLEARSPAN_API_PORT=8090 clearspan up      use another port for the API, now and at later starts
  CLEARSPAN_EMBEDDED_BROKER=off CLEARSPAN_KAFKA__BOOTSTRAP=127.0.0.1:9092 clearspan up
                                            use a Kafka that runs already
"""
ENV_DESCRIPTION: Final = """\
Print a command that sets CLEARSPAN_URL to the address of the embedded stack that runs in CLEARSPAN_DATA_DIR. Clients
and the pages of the documentation read that variable. It fails if no stack runs there.
"""
ENV_EXAMPLES: Final = """\
examples
  eval "$(clearspan env)"                   set CLEARSPAN_URL in this shell
  curl "$CLEARSPAN_URL/readyz"              use it
"""
RESET_DESCRIPTION: Final = """\
Let the worker read again what the tables lack. After ClickHouse was restored from a backup, the consumer group has
committed offsets beyond what the restored tables hold. This moves the group back to there, and never forward. Stop
every worker before, and start them after it. It is for servers, not for the embedded stack. docs/backup.md describes
the whole procedure.
"""
RESET_EXAMPLES: Final = """\
examples
  clearspan reset-offsets --dry-run      show what would be read again
  clearspan reset-offsets                move the consumer group back

The exit code is 1 if Kafka has deleted records that the tables lack: their spans cannot be restored.
"""
DELIVER_DESCRIPTION: Final = """\
Deliver subscriptions: read the feed of each and send its spans to its target. Any number of these processes share the
subscriptions; the embedded stack (`clearspan up`) needs none. Serves /livez, /readyz and /metrics on
CLEARSPAN_DELIVER_PORT.
"""
MCP_DESCRIPTION: Final = """\
Serve the spans of one project to language models, as tools of the Model Context Protocol (MCP): find spans, read a
trace in compact form, group, list attributes and sessions. The tools only read. Over standard input and output, which
is the default, the key of this command decides what they see; over HTTP, the Authorization header of each caller does.
"""
MCP_EXAMPLES: Final = """\
in the configuration of an assistant
  {"mcpServers": {"clearspan": {"command": "clearspan", "args": ["mcp"], "env": {"CLEARSPAN_KEY": "KEY"}}}}

examples
  clearspan mcp < /dev/null           what an assistant starts; it ends with its standard input

With --listen 8090 it serves http://127.0.0.1:8090/mcp instead (streamable HTTP). docs/mcp.md describes the tools.
"""
COMPLETION_DESCRIPTION: Final = """\
Print a script that completes commands and options with the Tab key.
"""
COMPLETION_EXAMPLES: Final = """\
in bash, for this shell; add it to ~/.bashrc for all
  source <(clearspan completion bash)

in zsh, for all shells
  clearspan completion zsh > ~/.zfunc/_clearspan      in a directory that fpath lists, before compinit runs
"""


@command(description=UP_DESCRIPTION, epilog=UP_EXAMPLES)
def up(
    settings: Settings,
    *,
    detach: Annotated[bool, Option(None, "run it in the background; return when a first span was found")] = False,
) -> int:
    """Start the embedded stack."""
    from clearspan.embedded import commands

    return commands.up(settings, detach=detach)


@command()
def down(settings: Settings) -> int:
    """Stop the embedded stack."""
    from clearspan.embedded import commands

    return commands.down(settings)


@command()
def status(settings: Settings) -> int:
    """Show what runs."""
    from clearspan.embedded import commands

    return commands.status(settings)


@command(description=ENV_DESCRIPTION, epilog=ENV_EXAMPLES)
def env(settings: Settings) -> int:
    """Print the address of the stack."""
    from clearspan.embedded import commands

    return commands.env(settings)


@command()
def logs(settings: Settings) -> int:
    """Follow the log of the stack."""
    from clearspan.embedded import commands

    return commands.logs(settings)


@command()
def reset(settings: Settings, *, yes: Annotated[bool, Option(None, "delete without asking")] = False) -> int:
    """Delete the data of the stack."""
    from clearspan.embedded import commands

    return commands.reset(settings, yes=yes)


@command()
def migrate(settings: Settings) -> int:
    """Create or update the tables."""
    from clearspan.migrate import run

    return run(settings)


@command(description=RESET_DESCRIPTION, epilog=RESET_EXAMPLES)
def reset_offsets(
    settings: Settings, *, dry_run: Annotated[bool, Option(None, "change nothing")] = False, as_json: Json = False
) -> int:
    """Move the consumer group back."""
    from clearspan.reset_offsets import run

    return run(settings, dry_run=dry_run, as_json=as_json)


@command()
def ingest(settings: Settings) -> int:
    """Run a worker."""
    from ingest.app import run

    return run(settings)


@command()
def serve(settings: Settings) -> int:
    """Run an API."""
    from query_api.http.app import run

    return run(settings)


@command(description=DELIVER_DESCRIPTION)
def deliver(settings: Settings) -> int:
    """Deliver subscriptions."""
    from clearspan.deliver import run

    return run(settings)


@command(description=MCP_DESCRIPTION, epilog=MCP_EXAMPLES)
def mcp(
    settings: Settings,
    *,
    listen: Annotated[
        str | None, Option("[HOST:]PORT", "serve over HTTP at a loopback address, not over stdio")
    ] = None,
    server: Server,
) -> int:
    """Serve tools to language models."""
    from clearspan.mcp_server.server import mcp as run

    return run(settings, server=server, listen=listen)


@command(needs_settings=False)
def settings(_none: None) -> int:
    """Print every setting with its default."""
    from clearspan.environment import describe_settings

    for line in describe_settings():
        print(f"{line.name} = {line.default or '(empty)'}")
        print(f"    {line.meaning}{f' Allowed: {line.allowed}.' if line.allowed else ''}")
    return 0


@command(description=COMPLETION_DESCRIPTION, epilog=COMPLETION_EXAMPLES)
def completion(
    _settings: Settings, *, shell: Annotated[str, Operand(None, "the shell", choices=("bash", "zsh"))]
) -> int:
    """Print the script for a shell."""
    import shtab

    from clearspan.cli import make_parser

    parser = make_parser()
    for each in parser.with_all_below():
        each.description = each.summary  # which a shell shows next to the command
    print(shtab.complete(parser, shell=shell))
    return 0
