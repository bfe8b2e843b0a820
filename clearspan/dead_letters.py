"""``clearspan dead-letters``: what was rejected, as tables for people and JSON for programs."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from clearspan.console import confirm, printable, report_failures, target_settings

if TYPE_CHECKING:
    from common.kafka.log import KafkaLog
    from common.kafka.record import Publisher
    from common.settings import KafkaSettings
    from ingest.replay import DeadLetter

DESCRIPTION: Final = """\
Manage dead letters: the records and spans that were rejected, with their original bytes. A replay publishes them to the
topic from which they came.
"""
EXAMPLES: Final = """\
examples
  clearspan dead-letters list
  clearspan dead-letters show 0-17 --raw > record.bin
  clearspan dead-letters replay 0-17 0-18
  clearspan dead-letters drop 0-17
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions list, show, replay and drop."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list", help="list the dead letters that are neither replayed nor dropped, oldest first"
    )
    listing.set_defaults(command=_list)
    show = actions.add_parser("show", help="show one dead letter with its original bytes")
    show.add_argument("id", metavar="ID", help="the id that the list shows, for example 0-17")
    output = show.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print a JSON object, with the bytes in value_base64")
    output.add_argument("--raw", action="store_true", help="write only the bytes")
    show.set_defaults(command=_show)
    replay = actions.add_parser("replay", help="publish dead letters again to the topics from which they came")
    replay.set_defaults(command=_replay)
    drop = actions.add_parser(
        "drop", help="mark dead letters as done without replaying them; their bytes stay in the topic"
    )
    drop.add_argument("--yes", action="store_true", help="drop without asking")
    drop.set_defaults(command=_drop)
    for action in (replay, drop):
        action.add_argument("ids", metavar="ID", nargs="+", help="an id that the list shows, for example 0-17")
    for action in (listing, replay, drop):
        action.add_argument("--json", action="store_true", help="print one JSON object per line")


def _list(arguments: argparse.Namespace) -> int:
    from ingest.replay import list_dead_letters  # noqa: PLC0415 - loaded only by commands that need it

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        found = await list_dead_letters(log, kafka.dead_letter_topic, progress=_progress)
        _end_progress()
        if arguments.json:
            for dead_letter in found.dead_letters:
                print(json.dumps(_members(dead_letter)))
        elif not found.dead_letters:
            print("There are no dead letters.")
        else:
            _print_table(found.dead_letters)
        if not found.is_complete:
            print("There are more: replay or drop some of these first.", file=sys.stderr)
        return 0

    return _run_with_kafka(run)


def _show(arguments: argparse.Namespace) -> int:
    from ingest.replay import show  # noqa: PLC0415 - as above

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        dead_letter, value = await show(log, kafka.dead_letter_topic, arguments.id)
        if arguments.raw:
            sys.stdout.buffer.write(value)
        elif arguments.json:
            print(json.dumps({**_members(dead_letter), "value_base64": base64.b64encode(value).decode()}))
        else:
            for name, member in _members(dead_letter).items():
                if member is not None:
                    text = json.dumps(member) if isinstance(member, dict) else str(member)
                    print(f"{name:<12} {printable(text)}")
            print(f"{'value':<12} {_readable(value)}")
        return 0

    return _run_with_kafka(run)


def _replay(arguments: argparse.Namespace) -> int:
    from ingest.replay import replay, require_open, require_read  # noqa: PLC0415 - as above

    dead_letter_ids = list(dict.fromkeys(arguments.ids))

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        await require_open(log, kafka.dead_letter_topic, dead_letter_ids)
        await require_read(log, kafka.dead_letter_topic, dead_letter_ids, topics=kafka.topics)
        async with _publisher(kafka) as publisher:
            for dead_letter_id in dead_letter_ids:
                where = await replay(log, publisher, kafka.dead_letter_topic, dead_letter_id)
                if arguments.json:
                    print(json.dumps({"id": dead_letter_id, **where._asdict()}))
                else:
                    print(
                        f"{dead_letter_id} went to {where.topic}, partition {where.partition}, offset {where.offset}."
                    )
        return 0

    return _run_with_kafka(run)


def _drop(arguments: argparse.Namespace) -> int:
    from ingest.replay import drop, require_open  # noqa: PLC0415 - as above

    dead_letter_ids = list(dict.fromkeys(arguments.ids))
    if not arguments.yes and not confirm(f"Drop {', '.join(dead_letter_ids)}? [y/N] "):
        print("Nothing was dropped.", file=sys.stderr)
        return 1

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        await require_open(log, kafka.dead_letter_topic, dead_letter_ids)
        async with _publisher(kafka) as publisher:
            for dead_letter_id in dead_letter_ids:
                await drop(log, publisher, kafka.dead_letter_topic, dead_letter_id)
                if arguments.json:
                    print(json.dumps({"id": dead_letter_id, "is_dropped": True}))
                else:
                    print(f"{dead_letter_id} is dropped.")
        return 0

    return _run_with_kafka(run)


@asynccontextmanager
async def _publisher(kafka: KafkaSettings) -> AsyncIterator[Publisher]:
    from common.kafka.producer import KafkaPublisher  # noqa: PLC0415 - as above

    publisher = KafkaPublisher(kafka)
    try:
        yield publisher
    finally:
        await publisher.close()


def _run_with_kafka(run: Callable[[KafkaLog, KafkaSettings], Coroutine[Any, Any, int]]) -> int:
    from common.kafka.log import KafkaLog  # noqa: PLC0415 - as above

    kafka = target_settings().kafka
    return report_failures(run(KafkaLog(kafka), kafka), "kafka")


def _members(dead_letter: DeadLetter) -> dict[str, Any]:
    """Return the members of contract §7; ``span_count`` and ``codes`` only if several spans share the dead letter."""
    shared = ("span_count", "codes")
    return {name: member for name, member in dead_letter._asdict().items() if name not in shared or member is not None}


def _print_table(dead_letters: list[DeadLetter]) -> None:
    print(f"{'id':<10} {'from':<28} {'span':>6} {'code':<24} {'bytes':>9}  reason")
    for dead_letter in dead_letters:
        source = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}"
        span = "all" if dead_letter.span_index is None else str(dead_letter.span_index)
        if dead_letter.span_count is not None:
            span = f"×{dead_letter.span_count}"
        row = f"{dead_letter.id:<10} {source:<28} {span:>6} {dead_letter.code:<24} {dead_letter.bytes_count:>9}"
        print(f"{row}  {printable(dead_letter.reason)}")


def _readable(value: bytes) -> str:
    try:
        return printable(value.decode(), keep="\n\t")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode() + "   (base64; --raw writes the bytes)"


def _progress(records_count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{records_count:,} records read …", end="", file=sys.stderr, flush=True)


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
