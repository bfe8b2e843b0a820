"""The command line: every command with its options, and the function that runs it (``module:function``).

The function gets the settings, then the options as keywords. Its module is imported when the command runs: some take
seconds to import, and ``--help``, wrong usage and wrong settings are reported before.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn
from uuid import UUID

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

DEAD_LETTERS_DESCRIPTION: Final = """\
Manage dead letters: the records and spans that were rejected, with their original bytes. A replay publishes them to the
topic from which they came.
"""
DEAD_LETTERS_EXAMPLES: Final = """\
examples
  clearspan dead-letters list
  clearspan dead-letters show 0-17 --raw > record.bin
  clearspan dead-letters replay 0-17 0-18
  clearspan dead-letters drop 0-17
"""

KEYS_DESCRIPTION: Final = """\
Manage API keys. A key belongs to one project and decides which data a request sees. It is shown once: when it is
created.
"""
KEYS_EXAMPLES: Final = """\
examples
  clearspan keys create laptop
  clearspan keys create ci --project checkout --user ci@example.org
  clearspan keys list --project checkout
  clearspan keys revoke ID --project checkout

Send a key in the header:  Authorization: ApiKey KEY
"""

PROJECTS_DESCRIPTION: Final = """\
Manage projects. Spans, applications, saved queries and keys belong to one project each, and no project sees the data of
another. Spans that name no project belong to the default project.
"""
PROJECTS_EXAMPLES: Final = """\
a project for a team, and a key for it
  clearspan projects create checkout
  clearspan keys create laptop --project checkout

Over HTTP, the key decides the project of spans. In Kafka, the record header `project-id` does, else the resource
attribute `project.id`, else the project that is configured for the topic. Both hold the id, which `list` shows.
"""

PRICES_DESCRIPTION: Final = """\
Show the price table. A model call whose span has a model and tokens but no cost gets a cost from this table: list
prices, in US dollars per million tokens. A model that is not in the table gets no cost. Stored costs never change.
"""
PRICES_EXAMPLES: Final = """\
what a model costs, and which row says so
  clearspan prices --model gpt-4o-mini-2024-07-18

replace the table with your own prices
  clearspan prices --csv > prices.csv           start with a copy; lines that begin with # are comments
  clearspan prices --file prices.csv            check that it can be read
  export CLEARSPAN_INGEST__PRICES_FILE=$PWD/prices.csv

columns: provider,model,input,cached_input,cache_write,output. An empty cached_input or cache_write means the price of
input, for tokens that were read from or written to the provider's cache; an empty output means no charge. The name of a
model also covers its dated snapshots.
"""

NAME_CHARACTERS_MAX: Final = 200


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 success, 1 failure, 2 wrong usage or settings."""
    signal.signal(signal.SIGTERM, _exit)
    parser = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if unreadable := [argument for argument in given if argument.encode(errors="replace").decode() != argument]:
        parser.error(f"{unreadable[0]!a} is not text in UTF-8")
    parsed = vars(parser.parse_args(given))
    try:
        from clearspan.console import run_command  # noqa: PLC0415 - see the module docstring

        code = run_command(parsed.pop("function"), parsed)
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
    up = _add(commands, "up", "clearspan.embedded.commands:up", "start the embedded stack")
    up.add_argument(
        "--detach", action="store_true", help="run it in the background; return when a first span was found"
    )
    _add(commands, "down", "clearspan.embedded.commands:down", "drain and stop the embedded stack")
    _add(commands, "status", "clearspan.embedded.commands:status", "show what runs, and where")
    _add(commands, "logs", "clearspan.embedded.commands:logs", "follow the log of the embedded stack")
    reset = _add(commands, "reset", "clearspan.embedded.commands:reset", "stop the embedded stack and delete its data")
    reset.add_argument("--yes", action="store_true", help="delete without asking")
    _add(commands, "migrate", "clearspan.migrate:run", "create or update the tables")
    _add(commands, "ingest", "ingest.app:run", "run the worker")
    _add(commands, "serve", "query_api.http.app:run", "run the HTTP API")
    _add(commands, "settings", None, "list every setting")
    _add_dead_letters(commands)
    _add_keys(commands)
    _add_projects(commands)
    _add_prices(commands)
    return parser


def _add(commands: Any, name: str, function: str | None, summary: str, **texts: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter, **texts
    )
    command.set_defaults(function=function)
    return command


def _add_group(commands: Any, name: str, summary: str, description: str, examples: str) -> Any:
    group = _add(commands, name, None, summary, description=description, epilog=examples)
    return group.add_subparsers(title="actions", metavar="ACTION", required=True)


def _add_dead_letters(commands: Any) -> None:
    summary = "list, show, replay or drop rejected records and spans"
    actions = _add_group(commands, "dead-letters", summary, DEAD_LETTERS_DESCRIPTION, DEAD_LETTERS_EXAMPLES)
    summary = "list the dead letters that are neither replayed nor dropped, oldest first"
    listing = _add(actions, "list", "clearspan.dead_letters:list_open", summary)
    show = _add(actions, "show", "clearspan.dead_letters:show", "show one dead letter with its original bytes")
    show.add_argument("dead_letter_id", metavar="ID", help="the id that the list shows, for example 0-17")
    output = show.add_mutually_exclusive_group()
    output.add_argument(
        "--json", dest="as_json", action="store_true", help="print a JSON object, with the bytes in value_base64"
    )
    output.add_argument("--raw", action="store_true", help="write only the bytes")
    summary = "publish dead letters again to the topics from which they came"
    replay = _add(actions, "replay", "clearspan.dead_letters:replay", summary)
    summary = "mark dead letters as done without replaying them; their bytes stay in the topic"
    drop = _add(actions, "drop", "clearspan.dead_letters:drop", summary)
    drop.add_argument("--yes", action="store_true", help="drop without asking")
    for action in (replay, drop):
        action.add_argument(
            "dead_letter_ids", metavar="ID", nargs="+", help="an id that the list shows, for example 0-17"
        )
    _add_json(listing, replay, drop)


def _add_keys(commands: Any) -> None:
    actions = _add_group(commands, "keys", "create, list or revoke API keys", KEYS_DESCRIPTION, KEYS_EXAMPLES)
    create = _add(actions, "create", "clearspan.keys:create", "create a key and show it once")
    create.add_argument("name", metavar="NAME", type=_key_name, help="what the key is for, for example laptop")
    create.add_argument(
        "--user",
        metavar="EMAIL",
        type=_short_text,
        help="the author of changes that are made with the key; created if new (default: no particular user)",
    )
    summary = "list the keys of a project, including revoked ones, without the secrets"
    listing = _add(actions, "list", "clearspan.keys:list_all", summary)
    summary = "revoke a key; every running API rejects it within seconds"
    revoke = _add(actions, "revoke", "clearspan.keys:revoke", summary)
    revoke.add_argument("key_id", metavar="ID", type=UUID, help="the id that the list shows")
    for action in (create, listing, revoke):
        action.add_argument(
            "--project", metavar="PROJECT", help="name or id of the project (default: the default project)"
        )
    _add_json(create, listing, revoke)


def _add_projects(commands: Any) -> None:
    actions = _add_group(commands, "projects", "create or list projects", PROJECTS_DESCRIPTION, PROJECTS_EXAMPLES)
    create = _add(actions, "create", "clearspan.projects:create", "create a project")
    create.add_argument(
        "name", metavar="NAME", type=_project_name, help="a name for people; commands accept it instead of the id"
    )
    listing = _add(actions, "list", "clearspan.projects:list_all", "list all projects, oldest first")
    _add_json(create, listing)


def _add_prices(commands: Any) -> None:
    summary = "show the prices from which costs of model calls are computed"
    texts = {"description": PRICES_DESCRIPTION, "epilog": PRICES_EXAMPLES}
    prices = _add(commands, "prices", "clearspan.prices:show", summary, **texts)
    prices.add_argument(
        "--model",
        metavar="NAME",
        help="show the row of one model, and what 1,000 tokens cost; exit code 1 if there is none",
    )
    prices.add_argument("--file", metavar="FILE", type=Path, help="read the prices from this file")
    output = prices.add_mutually_exclusive_group()
    _add_json(output)
    output.add_argument("--csv", action="store_true", help="print the file itself")


def _add_json(*actions: Any) -> None:
    for action in actions:
        action.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object per line")


def _key_name(text: str) -> str:
    if _is_id(text):
        raise argparse.ArgumentTypeError(f"{text} is an id, not a name; name the project with --project {text}")
    return _short_text(text)


def _project_name(text: str) -> str:
    if _is_id(text):
        raise argparse.ArgumentTypeError("a name must not look like an id")
    return _short_text(text)


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _short_text(text: str) -> str:
    """Check a name or an address. Raises ``ArgumentTypeError``."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    if len(text) > NAME_CHARACTERS_MAX:
        raise argparse.ArgumentTypeError(f"has {len(text)} characters; at most {NAME_CHARACTERS_MAX} are allowed")
    return text
