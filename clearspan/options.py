"""Options that several commands have, and checks of the texts that people give for options."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final, NamedTuple, TypeAlias
from uuid import UUID

from clearspan.command import Operand, Option, Titled
from common.scopes import KeyScope

NAME_CHARACTERS_MAX: Final = 200
LIMIT_MAX: Final = 1_000_000

_DURATION: Final = re.compile(r"[1-9][0-9]{0,8}[smhdw]")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


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


_ADDRESS: Final = (
    "address of the API (default: CLEARSPAN_URL, else the running embedded stack, else http://127.0.0.1:8080)"
)


class ServerOptions(NamedTuple):
    """Which API a command speaks to. ``None``: what the environment says."""

    url: Annotated[str | None, Option("URL", _ADDRESS)] = None
    key: Annotated[str | None, Option("KEY", "API key (default: CLEARSPAN_KEY, which other users cannot see)")] = None
    project: Annotated[str | None, Option("PROJECT", "name or id of a project; fail unless the key belongs to it")] = (
        None
    )


class SpanOptions(NamedTuple):
    """Which spans a command is about; they must fulfil all of it."""

    words: Annotated[
        Sequence[str],
        Operand("CONDITION", "field operator value, with `and`, `or`, `not` and brackets; or words to find", nargs="*"),
    ] = ()
    filter: Annotated[str | None, Option("JSON", "a filter as JSON, as in the member `filtering` of a request")] = None
    query: Annotated[str | None, Option("SLUG", "the slug of a saved query; the other conditions narrow it")] = None
    errors: Annotated[bool, Option(None, "only spans with the status STATUS_CODE_ERROR")] = False


class WindowOptions(NamedTuple):
    """A window of time. ``last`` is a duration such as ``15m``."""

    oldest: Annotated[str | None, Option("TIME", "start of the window: ISO 8601, or relative such as -1h")] = None
    newest: Annotated[str | None, Option("TIME", "end of the window")] = None
    last: Annotated[str | None, Option("DURATION", "only those of the last 15m, 1h, 7d (s m h d w)", type=duration)] = (
        None
    )


class OrderOptions(NamedTuple):
    """Which results come first, and how many. ``sort`` is a value to rank by, ``order`` ascending or descending."""

    sort: Annotated[str | None, Option("VALUE", "the first by duration, tokens, cost or a number attribute")] = None
    order: Annotated[
        str | None,
        Option(
            None,
            "order of --sort, else of start_time (default: descending)",
            choices=("ascending", "descending"),
        ),
    ] = None
    limit: Annotated[int, Option("N", "print at most N spans (default: 100)", type=limit)] = 100


Server: TypeAlias = Annotated[ServerOptions, Titled("server")]
AdminKey: TypeAlias = Annotated[str | None, Option("KEY", "key of the administrator (default: CLEARSPAN_ADMIN_KEY)")]
