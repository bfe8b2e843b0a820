"""What the parsers of all commands share: how a command and a group are added, common options, and checks of texts."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator, MutableMapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.scopes import KeyScope

NAME_CHARACTERS_MAX: Final = 200
LIMIT_MAX: Final = 1_000_000

_DURATION: Final = re.compile(r"[1-9][0-9]{0,8}[smhdw]")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_STARTS_LIKE_A_NUMBER: Final = re.compile(r"-[0-9.]")


class ServerOptions(NamedTuple):
    """Which API a command speaks to. ``None``: what the environment says."""

    url: str | None = None
    key: str | None = None
    project: str | None = None
    """The name or id of a project; the command fails unless the key belongs to it."""


class SpanOptions(NamedTuple):
    """Which spans a command is about; they must fulfil all of it."""

    words: Sequence[str] = ()
    filter: str | None = None
    """A filter as JSON."""
    query: str | None = None
    """The slug of a saved query."""
    errors: bool = False


class WindowOptions(NamedTuple):
    """A window of time. ``last`` is a duration such as ``15m``."""

    oldest: str | None = None
    newest: str | None = None
    last: str | None = None


class OrderOptions(NamedTuple):
    """Which results come first, and how many. ``sort`` is a value to rank by, ``order`` ascending or descending."""

    sort: str | None = None
    order: str | None = None
    limit: int = 100


class CommandParser(argparse.ArgumentParser):
    """A parser whose options are not abbreviated, and for which ``-15m`` and ``-1`` are values."""

    def __init__(self, **texts: Any) -> None:
        super().__init__(**texts, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._negative_number_matcher = _STARTS_LIKE_A_NUMBER
        self.summary = ""
        """What the list of commands shows of it."""

    def with_all_below(self) -> Iterator[CommandParser]:
        """Yield this parser and those of all commands below it."""
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    yield from command.with_all_below()


def add_command(commands: Any, name: str, function: str | None, summary: str, **texts: str) -> CommandParser:
    """Add a command that ``function`` (``module:function``) runs; ``None`` lists the settings.

    ``texts`` are ``description`` and ``epilog``; without a description, the summary is shown as a sentence.
    """
    description = texts.pop("description", f"{summary[0].upper()}{summary[1:]}.")
    command: CommandParser = commands.add_parser(name, help=summary, description=description, **texts)
    command.set_defaults(function=function)
    command.summary = summary
    return command


def add_group(commands: Any, name: str, summary: str, *, description: str, epilog: str) -> Any:
    """Add a group of commands; add its actions to what this returns."""
    group = add_command(commands, name, None, summary, description=description, epilog=epilog)
    return group.add_subparsers(title="actions", metavar="ACTION", required=True)


def add_json(*commands: Any) -> None:
    """Add ``--json``, which becomes ``as_json``."""
    for command in commands:
        command.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object per line")


def add_table(*commands: Any) -> None:
    """Add ``--wide`` to commands that print tables, which ``clearspan.console.wide_tables`` is for."""
    for command in commands:
        command.add_argument(
            "--wide", action="store_true", help="show every column, and values that are not cut to a width"
        )


def add_server(*commands: CommandParser) -> None:
    """Add the options of commands that speak to an API, which get them as ``server``."""
    for command in commands:
        server = command.add_argument_group("server")
        server.add_argument(
            "--url",
            metavar="URL",
            help="address of the API (default: CLEARSPAN_URL, else the running embedded stack, else"
            " http://127.0.0.1:8080)",
        )
        server.add_argument(
            "--key", metavar="KEY", help="API key (default: CLEARSPAN_KEY, which other users cannot see)"
        )
        server.add_argument(
            "--project", metavar="PROJECT", help="name or id of a project; fail unless the key belongs to it"
        )
        gather(command, "server", ServerOptions)


def add_filter(command: CommandParser) -> None:
    """Add the options that choose spans; the function gets them as ``spans``."""
    command.add_argument(
        "words", metavar="CONDITION", nargs="*", help="field operator value, further conditions after the word `and`"
    )
    command.add_argument("--filter", metavar="JSON", help="a filter as JSON, as in the member `filtering` of a request")
    command.add_argument("--query", metavar="SLUG", help="the slug of a saved query; the other conditions narrow it")
    command.add_argument("--errors", action="store_true", help="only spans with the status STATUS_CODE_ERROR")
    gather(command, "spans", SpanOptions)


def add_window(command: CommandParser, results: str = "spans that started") -> None:
    """Add the options that choose a window of time; the function gets them as ``window``."""
    command.add_argument("--oldest", metavar="TIME", help="start of the window: ISO 8601, or relative such as -1h")
    command.add_argument("--newest", metavar="TIME", help="end of the window")
    command.add_argument(
        "--last", metavar="DURATION", type=duration, help=f"only {results} in the last 15m, 1h, 7d (s m h d w)"
    )
    gather(command, "window", WindowOptions)


def add_order(command: CommandParser, results: str) -> None:
    """Add the options that choose which results come first; the function gets them as ``order``."""
    command.add_argument("--sort", metavar="VALUE", help="the first by duration, tokens, cost or a number attribute")
    command.add_argument(
        "--order",
        choices=("ascending", "descending"),
        help="order of --sort, else of start_time (default: descending)",
    )
    command.add_argument(
        "--limit", metavar="N", type=limit, default=100, help=f"print at most N {results} (default: 100)"
    )
    gather(command, "order", OrderOptions)


def gather_options(parsed: MutableMapping[str, Any]) -> None:
    """Replace options that belong together by one value: what ``add_server`` and others add."""
    for name, options in (parsed.pop("gathered", None) or {}).items():
        parsed[name] = options(**{field: parsed.pop(field) for field in options._fields})


def gather(command: CommandParser, name: str, options: type[NamedTuple]) -> None:
    """Let a function get the options that are fields of a type as one value, ``name``."""
    command.set_defaults(gathered={**(command.get_default("gathered") or {}), name: options})


def limit(text: str) -> int:
    """Read a number of results. Raises ``ArgumentTypeError``."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= LIMIT_MAX:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {LIMIT_MAX:,}")
    return int(text)


def duration(text: str) -> str:
    """Check a duration such as 15m. Raises ``ArgumentTypeError``."""
    if _DURATION.fullmatch(text) is None:
        raise argparse.ArgumentTypeError("must be a whole number above 0 and one of the units s m h d w, such as 15m")
    return text


def time_span(text: str) -> timedelta:
    """Return a duration such as 90d. Raises ``ArgumentTypeError``."""
    checked = duration(text)
    try:
        return timedelta(**{_UNITS[checked[-1]]: int(checked[:-1])})
    except OverflowError:
        raise argparse.ArgumentTypeError("is too long") from None


def positive_number(text: str) -> float:
    """Check a number above 0. Raises ``ArgumentTypeError``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("must be a number above 0")
    return number


def positive_integer(text: str) -> int:
    """Check a whole number above 0. Raises ``ArgumentTypeError``."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return int(text)


def id_text(text: str) -> UUID:
    """Read an id. Raises ``ArgumentTypeError``."""
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an id, such as 0197d2a4-0000-7000-8000-000000000000"
        ) from None


def scope(text: str) -> KeyScope:
    """Read a scope of a key. Raises ``ArgumentTypeError``."""
    try:
        return KeyScope(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(KeyScope)}") from None


def key_name(text: str) -> str:
    """Check the name of a key. Raises ``ArgumentTypeError``."""
    if _is_id(text):
        raise argparse.ArgumentTypeError(f"{text} is an id, not a name; name the project with --project {text}")
    return short_text(text)


def project_name(text: str) -> str:
    """Check the name of a new project. Raises ``ArgumentTypeError``."""
    if _is_id(text):
        raise argparse.ArgumentTypeError("a name must not look like an id")
    return short_text(text)


def short_text(text: str) -> str:
    """Check a name or an address. Raises ``ArgumentTypeError``."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    if len(text) > NAME_CHARACTERS_MAX:
        raise argparse.ArgumentTypeError(f"has {len(text)} characters; at most {NAME_CHARACTERS_MAX} are allowed")
    return text


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
