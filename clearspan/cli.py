"""The command line: every command with its summary and the module that defines it.

A module is imported when its command is called: some take a second to import, and ``--help`` needs none of them.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from argparse import SUPPRESS
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FrameType
from typing import Final, NoReturn

from clearspan.command import CommandParser, fill
from clearspan.program import ShowVersion
from common.left_out import FOR_DATA_FRAMES, leave_out

DESCRIPTION: Final = """\
Clearspan stores and queries the spans of LLM and agent applications:
services publish spans to Kafka, a worker stores them in ClickHouse, and an HTTP API answers questions about them.
"""
EXAMPLES: Final = """\
on a laptop
  clearspan up                  run everything in this terminal: broker, Postgres, engine, worker, API
  clearspan up --detach         the same in the background
  clearspan down                drain and stop it

on servers
  clearspan migrate             create or update the tables in ClickHouse and Postgres; safe to run twice
  clearspan ingest              run the worker, which moves spans from Kafka to ClickHouse
  clearspan serve               run the HTTP API
  clearspan deliver             deliver subscriptions, evaluate alerts, delete old spans
  clearspan reset-offsets       after a restore of ClickHouse, read again what it lacks

projects and keys
  clearspan projects create checkout            create a project, whose data no other project sees
  clearspan keys create laptop --project checkout
  clearspan audit-log --last 1d                 show who changed what, and who was refused

is everything there that was sent?
  clearspan audit                               send marked spans and read them back
  clearspan audit --verify                      compare what Kafka still holds with what is stored
  clearspan doctor                              show what each instrumentation sends, and what to set

how large must it be?
  clearspan plan --spans-per-second 200000 --retention 30d      print partitions, workers, shards, disks and cost

spans, from any deployment (CLEARSPAN_URL, CLEARSPAN_KEY)
  clearspan query --last 1h --errors            find spans
  clearspan tail --errors                       print failed spans as they arrive
  clearspan trace ID --messages                 show one trace, or its conversation
  clearspan groups --by model --last 1d         count spans, tokens and costs by model
  clearspan export spans.parquet --last 7d      write spans to a file
  clearspan subscriptions list                  what is delivered to other systems
  clearspan alerts list                         what is watched, and what is in breach

Exit codes: 0 success, 1 failure, 2 wrong usage or settings, 3 nothing found and 4 not known (where the help says so),
130 interrupted.
Settings are environment variables; `clearspan settings` lists them.
"""

INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
"""What a shell reports of programs that SIGPIPE ends."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "up": ("clearspan.processes", "start the embedded stack"),
    "down": ("clearspan.processes", "drain and stop the embedded stack"),
    "status": ("clearspan.processes", "show what runs, and where; exit code 1 if it is not ready"),
    "env": ("clearspan.processes", "print the address of the running stack for a shell"),
    "logs": ("clearspan.processes", "follow the log of the embedded stack"),
    "reset": ("clearspan.processes", "stop the embedded stack and delete its data"),
    "migrate": ("clearspan.processes", "create or update the tables in ClickHouse and Postgres"),
    "reset-offsets": (
        "clearspan.processes",
        "after a restore of ClickHouse, let the worker read again what the tables lack",
    ),
    "ingest": ("clearspan.processes", "run the worker, which moves spans from Kafka to ClickHouse"),
    "serve": ("clearspan.processes", "run the HTTP API"),
    "settings": ("clearspan.processes", "list every setting"),
    "query": ("clearspan.client.query", "find spans"),
    "trace": ("clearspan.client.trace", "show one trace"),
    "tail": ("clearspan.client.tail", "print new spans as they arrive"),
    "groups": ("clearspan.client.groups", "group spans and measure them"),
    "export": ("clearspan.client.export", "write spans to a file"),
    "deliver": ("clearspan.processes", "deliver subscriptions to their targets"),
    "subscriptions": ("clearspan.client.subscriptions", "deliver spans to other systems as they are stored"),
    "alerts": ("clearspan.client.alerts", "send a message when a measure of spans passes a bound"),
    "applications": ("clearspan.client.applications", "read the history of applications"),
    "mcp": ("clearspan.processes", "serve spans to language models (MCP)"),
    "dead-letters": ("clearspan.client.dead_letters", "list, show, replay or drop rejected records and spans"),
    "keys": ("clearspan.keys", "create, list, rotate or revoke API keys"),
    "projects": ("clearspan.projects", "create, list, limit, mask or delete projects"),
    "audit-log": ("clearspan.client.audit_log", "show who changed what, and who was refused"),
    "audit": ("clearspan.client.audit", "check that what is sent is stored, and found"),
    "doctor": ("clearspan.client.doctor", "show what each instrumentation sends, and what to set for the rest"),
    "prices": ("clearspan.prices", "show or update the prices from which costs of model calls are computed"),
    "plan": ("clearspan.planning", "say how many machines a rate of spans needs, and which limit comes first"),
    "completion": ("clearspan.processes", "print a script for the completion of your shell"),
}
"""The module and the summary of each command, in the order of the help.

The module has the command under its name, with underscores.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 success, 1 failure, 2 wrong usage or settings, 3 nothing found."""
    signal.signal(signal.SIGTERM, _exit)
    if arguments is None:  # else it is part of another program
        leave_out(FOR_DATA_FRAMES)
    try:
        try:
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        code = PIPE_CLOSED
    except OSError as exc:
        if exc.errno not in _FULL:
            raise
        _discard_output()
        print(f"clearspan: {exc.filename or 'standard output'}: {exc.strerror}.", file=sys.stderr)
        code = 1
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run one command and return its exit code; ``--help`` and wrong usage raise ``SystemExit``."""
    parser = make_parser(arguments[:1])
    if unreadable := [argument for argument in arguments if argument.encode(errors="replace").decode() != argument]:
        parser.error(f"{unreadable[0]!a} is not text in UTF-8")
    parsed = parser.parse_args(arguments)
    from clearspan.console import run_command, wide_tables  # noqa: PLC0415 - see the module docstring

    with wide_tables(is_wide=getattr(parsed, "wide", False)):
        return run_command(parsed.command, parsed.command.values(parsed))


def _discard_output() -> None:
    """Let Python's own flush at the exit succeed if the output cannot be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    """Exit on SIGTERM, until a command installs its own handler.

    The kernel does not end the first process of a container by a signal that it does not handle.
    """
    sys.exit(128 + number)


def make_parser(names: Sequence[str] = tuple(COMMANDS)) -> CommandParser:
    """Return the parser; only the named commands, by default all, have their options."""
    parser = CommandParser(prog="clearspan", description=DESCRIPTION, epilog=EXAMPLES)
    summary = "print the versions of Clearspan and of Python"
    parser.add_argument("--version", action=ShowVersion, nargs=0, default=SUPPRESS, help=summary)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in names:
            fill(command, getattr(import_module(module), name.replace("-", "_")), summary)
    return parser
