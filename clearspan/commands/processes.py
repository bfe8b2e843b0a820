"""The embedded stack and the processes of servers: commands without the options of clients."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_json

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


def add(commands: Any) -> None:
    """Add the commands."""
    texts = {"description": UP_DESCRIPTION, "epilog": UP_EXAMPLES}
    up = add_command(commands, "up", "clearspan.embedded.commands:up", "start the embedded stack", **texts)
    up.add_argument(
        "--detach", action="store_true", help="run it in the background; return when a first span was found"
    )
    add_command(commands, "down", "clearspan.embedded.commands:down", "drain and stop the embedded stack")
    summary = "show what runs, and where; exit code 1 if it is not ready"
    add_command(commands, "status", "clearspan.embedded.commands:status", summary)
    texts = {"description": ENV_DESCRIPTION, "epilog": ENV_EXAMPLES}
    summary = "print the address of the running stack for a shell"
    add_command(commands, "env", "clearspan.embedded.commands:env", summary, **texts)
    add_command(commands, "logs", "clearspan.embedded.commands:logs", "follow the log of the embedded stack")
    summary = "stop the embedded stack and delete its data"
    reset = add_command(commands, "reset", "clearspan.embedded.commands:reset", summary)
    reset.add_argument("--yes", action="store_true", help="delete without asking")
    summary = "create or update the tables in ClickHouse and Postgres"
    add_command(commands, "migrate", "clearspan.migrate:run", summary)
    summary = "after a restore of ClickHouse, let the worker read again what the tables lack"
    texts = {"description": RESET_DESCRIPTION, "epilog": RESET_EXAMPLES}
    reset_offsets = add_command(commands, "reset-offsets", "clearspan.reset_offsets:run", summary, **texts)
    reset_offsets.add_argument("--dry-run", action="store_true", help="change nothing")
    add_json(reset_offsets)
    add_command(commands, "ingest", "ingest.app:run", "run the worker, which moves spans from Kafka to ClickHouse")
    add_command(commands, "serve", "query_api.http.app:run", "run the HTTP API")
    add_command(commands, "settings", None, "list every setting")
