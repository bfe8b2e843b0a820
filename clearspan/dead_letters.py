"""``clearspan dead-letters``: what was refused, as tables for people and JSON for machines."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from clearspan.terminal import shown

if TYPE_CHECKING:
    from common.kafka.log import KafkaLog
    from common.settings import KafkaSettings
    from ingest.replay import DeadLetter


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add list, show, replay and drop."""
    listing = actions.add_parser("list", help="what is neither replayed nor dropped, oldest first")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    listing.set_defaults(command=_list)
    show = actions.add_parser("show", help="one letter with its original bytes")
    show.add_argument("id", metavar="ID", help="as the list shows it, for example 0-17")
    kind = show.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="a JSON object, the bytes in value_base64")
    kind.add_argument("--raw", action="store_true", help="only the bytes")
    show.set_defaults(command=_show)
    replay = actions.add_parser("replay", help="publish letters again to where they came from")
    replay.add_argument("ids", metavar="ID", nargs="+")
    replay.add_argument("--json", action="store_true", help="one JSON object a line")
    replay.set_defaults(command=_replay)
    drop = actions.add_parser("drop", help="give letters up; their bytes stay in the topic")
    drop.add_argument("ids", metavar="ID", nargs="+")
    drop.add_argument("--yes", action="store_true", help="do not ask")
    drop.add_argument("--json", action="store_true", help="one JSON object a line")
    drop.set_defaults(command=_drop)


def _list(arguments: argparse.Namespace) -> int:
    from ingest.replay import list_dead_letters  # noqa: PLC0415 - rooms are loaded by the command that needs them

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        found = await list_dead_letters(log, kafka.dead_letter_topic, progress=_progress)
        _end_progress()
        if arguments.json:
            for letter in found.letters:
                print(json.dumps(_members(letter)))
        elif not found.letters:
            print("There are no dead letters.")
        else:
            _print_table(found.letters)
        if not found.is_complete:
            print("There are more: replay or drop some of these first.", file=sys.stderr)
        return 0

    return _with_kafka(run)


def _show(arguments: argparse.Namespace) -> int:
    from ingest.replay import show  # noqa: PLC0415 - as above

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        letter, value = await show(log, kafka.dead_letter_topic, arguments.id)
        if arguments.raw:
            sys.stdout.buffer.write(value)
        elif arguments.json:
            print(json.dumps({**_members(letter), "value_base64": base64.b64encode(value).decode()}))
        else:
            for name, member in _members(letter).items():
                if member is not None:
                    text = json.dumps(member) if isinstance(member, dict) else str(member)
                    print(f"{name:<12} {shown(text)}")
            print(f"{'value':<12} {_readable(value)}")
        return 0

    return _with_kafka(run)


def _replay(arguments: argparse.Namespace) -> int:
    from common.kafka.producer import KafkaPublisher  # noqa: PLC0415 - as above
    from ingest.replay import replay, require_open, require_read  # noqa: PLC0415

    letter_ids = list(dict.fromkeys(arguments.ids))

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        await require_open(log, kafka.dead_letter_topic, letter_ids)
        await require_read(log, kafka.dead_letter_topic, letter_ids, topics=kafka.topics)
        publisher = KafkaPublisher(kafka)
        try:
            for letter_id in letter_ids:
                went_to = await replay(log, publisher, kafka.dead_letter_topic, letter_id)
                if arguments.json:
                    print(json.dumps({"id": letter_id, **went_to._asdict()}))
                else:
                    print(
                        f"{letter_id} went to {went_to.topic}, partition {went_to.partition}, offset {went_to.offset}."
                    )
        finally:
            await publisher.close()
        return 0

    return _with_kafka(run)


def _drop(arguments: argparse.Namespace) -> int:
    from common.kafka.producer import KafkaPublisher  # noqa: PLC0415 - as above
    from ingest.replay import drop, require_open  # noqa: PLC0415

    letter_ids = list(dict.fromkeys(arguments.ids))
    if not arguments.yes and not _confirmed(f"Give up {', '.join(letter_ids)}? [y/N] "):
        print("Nothing was dropped.", file=sys.stderr)
        return 1

    async def run(log: KafkaLog, kafka: KafkaSettings) -> int:
        await require_open(log, kafka.dead_letter_topic, letter_ids)
        publisher = KafkaPublisher(kafka)
        try:
            for letter_id in letter_ids:
                await drop(log, publisher, kafka.dead_letter_topic, letter_id)
                if arguments.json:
                    print(json.dumps({"id": letter_id, "is_dropped": True}))
                else:
                    print(f"{letter_id} is dropped.")
        finally:
            await publisher.close()
        return 0

    return _with_kafka(run)


def _with_kafka(run: Callable[[KafkaLog, KafkaSettings], Coroutine[Any, Any, int]]) -> int:
    from clearspan.target import explained, target_settings  # noqa: PLC0415 - as above
    from common.errors import ServiceError  # noqa: PLC0415
    from common.kafka.log import KafkaLog  # noqa: PLC0415

    kafka = target_settings().kafka
    try:
        return asyncio.run(run(KafkaLog(kafka), kafka))
    except ServiceError as exc:
        print(f"clearspan: {explained(exc, 'kafka')}", file=sys.stderr)
        return 1


def _members(letter: DeadLetter) -> dict[str, Any]:
    """The members of contract §7; those of a shared letter only where it is one."""
    of_many = ("span_count", "codes")
    return {name: member for name, member in letter._asdict().items() if name not in of_many or member is not None}


def _print_table(letters: list[DeadLetter]) -> None:
    print(f"{'id':<10} {'from':<28} {'span':>6} {'code':<24} {'bytes':>9}  reason")
    for letter in letters:
        source = f"{letter.topic}/{letter.partition}/{letter.offset}"
        span = "all" if letter.span_index is None else str(letter.span_index)
        if letter.span_count is not None:
            span = f"×{letter.span_count}"
        print(
            f"{letter.id:<10} {source:<28} {span:>6} {letter.code:<24} {letter.bytes_count:>9}  {shown(letter.reason)}"
        )


def _readable(value: bytes) -> str:
    try:
        return shown(value.decode(), keeps="\n\t")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode() + "   (base64; --raw writes the bytes)"


def _progress(records_count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{records_count:,} records read …", end="", file=sys.stderr, flush=True)


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)


def _confirmed(question: str) -> bool:
    try:
        print(question, end="", file=sys.stderr, flush=True)
        return input().strip().lower() in {"y", "yes"}
    except EOFError:
        return False
