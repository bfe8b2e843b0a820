"""What the commands share: which installation they talk to, how they report failures, and texts they take and print."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import SecretStr

from clearspan.embedded.layout import Layout, Running
from common.environment import read_settings
from common.errors import ServiceError, Unavailable
from common.settings import Settings

if TYPE_CHECKING:
    from common.postgres.pool import Database

NAME_CHARACTERS_MAX: Final = 200

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""The control characters of Unicode, which can command a terminal; and the characters that end a line or change the
direction of what follows, which can make one row look like another (UAX #9)."""


def target_settings() -> Settings:
    """Return the settings, with the addresses of the embedded stack if one runs on the data directory."""
    settings = read_settings()
    running = Running.read(Layout(settings.data_dir.resolve()))
    if running is None:
        return settings
    return settings.model_copy(
        update={
            "kafka": settings.kafka.model_copy(update={"bootstrap": running.kafka}),
            "postgres": settings.postgres.model_copy(update={"dsn": SecretStr(running.postgres)}),
        }
    )


def run_on_postgres(run: Callable[[Database], Awaitable[None]]) -> int:
    """Run a command on the database; return its exit code."""
    from common.postgres.pool import open_database  # noqa: PLC0415 - loaded only by commands that need it

    async def run_on_database() -> int:
        async with open_database(target_settings().postgres) as database:
            await run(database)
        return 0

    return report_failures(run_on_database(), "postgres")


def report_failures(command: Coroutine[Any, Any, int], system: Literal["kafka", "postgres"]) -> int:
    """Run a command and return its exit code; a ``ServiceError`` becomes a sentence on standard error, and 1."""
    try:
        return asyncio.run(command)
    except ServiceError as exc:
        print(f"clearspan: {_explained(exc, system)}", file=sys.stderr)
        return 1


def _explained(failure: ServiceError, system: Literal["kafka", "postgres"]) -> str:
    """Return what failed; if ``system`` is unavailable and no setting names it, add that no embedded stack runs."""
    settings = read_settings()
    is_named = system in settings.model_fields_set
    if not isinstance(failure, Unavailable) or is_named or Running.read(Layout(settings.data_dir.resolve())):
        return failure.detail
    return (
        f"{failure.detail}\nNo embedded stack runs in {settings.data_dir}: `make up` starts one, and "
        f"CLEARSPAN_{system.upper()}__… names a server."
    )


def printable(text: str, *, keep: str = "") -> str:
    """Return the text with control characters escaped, as in ``\\x1b`` and ``\\u202e``, except those in ``keep``."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else _escaped(ord(found[0])), text)


def _escaped(code_point: int) -> str:
    return f"\\x{code_point:02x}" if code_point < 0x100 else f"\\u{code_point:04x}"


def short_text(text: str) -> str:
    """Check a name or an address given as an argument. Raises ``ArgumentTypeError``."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it must not be empty")
    if len(text) > NAME_CHARACTERS_MAX:
        raise argparse.ArgumentTypeError(f"it has {len(text)} characters; at most {NAME_CHARACTERS_MAX} are allowed")
    return text


def confirm(question: str) -> bool:
    """Ask on standard error; return whether the reply is yes. The end of the input is a no."""
    try:
        print(question, end="", file=sys.stderr, flush=True)
        return input().strip().lower() in {"y", "yes"}
    except EOFError:
        return False
