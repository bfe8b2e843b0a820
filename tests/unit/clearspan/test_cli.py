"""What the command line reports before it runs a command, and what it passes to one."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from clearspan.cli import main
from clearspan.command import Command
from common.settings import Settings

WRONG_USAGE = 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["keys", "create", "caf\udce9"], "'caf\\udce9' is not text in UTF-8"),
        (["keys", "create", "laptop", "--project", "\udcff"], "is not text in UTF-8"),
        (["keys", "create", "x" * 201], "has 201 characters; at most 200 are allowed"),
        (["keys", "create", " "], "must not be empty"),
        (["keys", "create", "laptop", "--user", "x" * 201], "at most 200 are allowed"),
        (["keys", "create", "00000000-0000-7000-8000-000000000001"], "is an id, not a name"),
        (["projects", "create", "x" * 201], "at most 200 are allowed"),
        (["projects", "create", ""], "must not be empty"),
        (["query", "--last", "-1h"], "must be a whole number above 0 and one of the units s m h d w"),
        (["keys", "create", "ci", "--expires", "0d"], "must be a whole number above 0 and one of the units s m h d w"),
        (["keys", "create", "x", "--scope", "foo"], "--scope: 'foo' is not one of ingest, read, write, admin"),
        (["keys", "rotate", "nope"], "ID: 'nope' is not an id"),
        (["keys", "revoke", "nope"], "ID: 'nope' is not an id"),
        (["projects", "delete", "nope"], "ID: 'nope' is not an id"),
        (["audit-log", "--key-id", "nope"], "--key-id: 'nope' is not an id"),
        (["query", "--limit", "0"], "must be a whole number from 1 to"),
        (["query", "--lim", "5"], "unrecognized arguments: --lim"),
        (["projects", "create", "00000000-0000-7000-8000-000000000001"], "must not look like an id"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value)[:30].encode(errors="replace").decode(),
)
def test_invalid_argument_is_wrong_usage(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == WRONG_USAGE
    assert message in capsys.readouterr().err


COMMANDS = (
    "up",
    "down",
    "status",
    "env",
    "logs",
    "reset",
    "migrate",
    "ingest",
    "serve",
    "dead-letters list",
    "dead-letters show 0-1",
    "dead-letters replay 0-1",
    "dead-letters drop 0-1",
    "keys create laptop",
    "keys list",
    "keys revoke 00000000-0000-7000-8000-000000000001",
    "projects create checkout",
    "projects list",
    "prices",
    "prices --model gpt-4o --json",
    "prices unknown --last 7d --limit 5",
    "prices update --keep --dry-run --as-of 2026-11-27 litellm.whl",
    "query --last 1h span_type is chat",
    "deliver",
    "subscriptions create failed --webhook https://hooks.example.org/ --where cost gt 1 --errors",
    "subscriptions list --status paused",
    "subscriptions show failed",
    "subscriptions edit failed --kafka 127.0.0.1:9092 --topic copy",
    "subscriptions pause failed",
    "subscriptions resume failed",
    "subscriptions replay failed --from beginning",
    "subscriptions skip failed",
    "subscriptions test failed",
    "subscriptions delete failed --yes",
    "subscriptions create t --otlp https://o.example.org --header x:y --header z:1 --ag",
    "subscriptions create t --parquet file:///spans",
    "alerts create failing --ratio errors count --above 0.05 --window 10m --by model --webhook https://h.example.org/",
    "alerts create slow --measure duration:p95 --below -1 --window 10m --every 30s --kafka h:1 --topic t --errors",
    "alerts list --status paused --breaching",
    "alerts show failing",
    "alerts edit failing --above 0.1",
    "alerts pause failing",
    "alerts resume failing",
    "alerts skip failing",
    "alerts test failing",
    "alerts delete failing --yes",
    "trace 3e62f5b20306a7b90576815eceddda07 --messages",
    "tail --errors",
    "groups --by model",
    "applications list",
    "applications log faq-bot",
    "applications show faq-bot",
    "applications diff faq-bot",
    "plan --spans-per-second 200000 --retention 30d --bytes 2000 --hot 7d --limits",
    "completion bash",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_its_options(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(command: Command, options: Mapping[str, Any]) -> int:
        function = inspect.unwrap(command.run)  # of `on_api`, which takes `server`
        of_function = {key: value for key, value in options.items() if function is command.run or key != "server"}
        inspect.signature(function).bind(Settings(), **of_function)
        return 0

    monkeypatch.setattr("clearspan.console.run_command", take)

    with pytest.raises(SystemExit) as ended:
        main(command.split())

    assert ended.value.code == 0


@pytest.mark.parametrize(
    ("command", "code", "unneeded"),
    [
        ("--help", 0, {"pydantic", "asyncio", "rich"}),
        ("up", 2, {"pyarrow", "asyncpg", "aiokafka", "aiohttp"}),
    ],
)
def test_help_and_wrong_settings_do_not_wait_for_imports(command: str, code: int, unneeded: set[str]) -> None:
    program = f"""
import atexit, sys
from clearspan.cli import main
from clearspan.command import Command
atexit.register(lambda: print("imported:", *{unneeded} & set(sys.modules)))
main(["{command}"])
"""
    environment = {"CLEARSPAN_NO_SUCH_SETTING": "1"}

    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (code, "imported:")


def _name(command: str) -> str:
    """Return the command without its options and operands."""
    first, *rest = command.split()
    return (
        f"{first} {rest[0]}"
        if first in {"dead-letters", "keys", "projects", "applications", "subscriptions", "alerts"}
        else first
    )


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["", *dict.fromkeys(_name(each) for each in COMMANDS)])
def test_every_help_describes_the_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(command, capsys)
    text = shown.partition("options:")[0].partition("usage:")[2]

    assert re.search(r"\n\n[A-Z].*\.", text, re.DOTALL), text
