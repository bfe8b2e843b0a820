"""``clearspan dead-letters``: what was rejected, as tables for people and JSON for programs."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeAlias

from clearspan.audited import audited_if_possible
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.command import Group, Json, Operand, Option, command
from clearspan.console import at_running_stack, confirm, print_json, print_result, report_failures
from common.kafka import dead_letters as topic
from common.kafka.dead_letters import DeadLetter
from common.kafka.log import KafkaLog
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Publisher
from common.printable import printable
from common.settings import KafkaSettings, Settings

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

Options = ParamSpec("Options")

Ids: TypeAlias = Annotated[Sequence[str], Operand("ID", "an id that the list shows, for example 0-17", nargs="+")]

_COLUMNS: Final = (
    TableColumn("id", is_whole=True),
    TableColumn("from", is_whole=True),
    TableColumn("span", "right", is_whole=True),
    TableColumn("code", is_whole=True),
    TableColumn("bytes", "right", is_whole=True),
    TableColumn("reason"),
)
_OF_SHARED: Final = ("span_count", "codes")
_NOT_SHOWN: Final = ("project", "published_ms")


def on_kafka(
    function: Callable[Concatenate[KafkaLog, KafkaSettings, Options], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Settings, Options], int]:
    """Give a function the Kafka of the installation; return its exit code."""

    def run(settings: Settings, /, *args: Options.args, **options: Options.kwargs) -> int:
        kafka = at_running_stack(settings).kafka
        return report_failures(function(KafkaLog(kafka), kafka, *args, **options), settings, "kafka")

    return run


@command("list the dead letters that are neither replayed nor dropped, oldest first", is_table=True, via=on_kafka)
async def list_open(log: KafkaLog, kafka: KafkaSettings, *, as_json: Json = False) -> None:
    """List the dead letters that are neither replayed nor dropped, oldest first."""
    found = await topic.list_dead_letters(log, kafka.dead_letter_topic, progress=_progress)
    _end_progress()
    if as_json:
        print_objects(map(_members, found.dead_letters))
    elif found.dead_letters:
        print_table(_COLUMNS, map(_row, found.dead_letters))
    else:
        print("There are no dead letters.")
    if not found.is_complete:
        print("There are more: replay or drop some of these first.", file=sys.stderr)


@command("show one dead letter with its original bytes", via=on_kafka)
async def show(
    log: KafkaLog,
    kafka: KafkaSettings,
    *,
    dead_letter_id: Annotated[str, Operand("ID", "the id that the list shows, for example 0-17")],
    as_json: Annotated[
        bool, Option(None, "print a JSON object, with the bytes in value_base64", flag="--json", one_of="output")
    ] = False,
    raw: Annotated[bool, Option(None, "write only the bytes", one_of="output")] = False,
) -> None:
    """Show one dead letter with its original bytes."""
    dead_letter, value = await topic.show(log, kafka.dead_letter_topic, dead_letter_id)
    if raw:
        sys.stdout.buffer.write(value)
    elif as_json:
        print_json({**_members(dead_letter), "value_base64": base64.b64encode(value).decode()})
    else:
        for name, member in _members(dead_letter).items():
            if member is not None:
                text = json.dumps(member) if isinstance(member, dict) else str(member)
                print(f"{name:<12} {printable(text)}")
        print(f"{'value':<12} {_readable(value)}")


@command("publish dead letters again to the topics from which they came")
def replay(settings: Settings, *, dead_letter_ids: Ids, as_json: Json = False) -> int:
    """Publish dead letters again to the topics from which they came."""
    return _replay(settings, settings, list(dict.fromkeys(dead_letter_ids)), as_json=as_json)


@on_kafka
async def _replay(
    log: KafkaLog, kafka: KafkaSettings, settings: Settings, dead_letter_ids: Sequence[str], *, as_json: bool
) -> None:
    await topic.require_open(log, kafka.dead_letter_topic, dead_letter_ids)
    await topic.require_read(log, kafka.dead_letter_topic, dead_letter_ids, topics=kafka.topics)
    recording = audited_if_possible(settings, "dead-letters replay", ids=dead_letter_ids)
    async with recording, _publisher(kafka) as publisher:
        for dead_letter_id in dead_letter_ids:
            where = await topic.replay(log, publisher, kafka.dead_letter_topic, dead_letter_id)
            text = f"{dead_letter_id} went to {where.topic}, partition {where.partition}, offset {where.offset}."
            print_result({"id": dead_letter_id, **where._asdict()}, text, as_json=as_json)


@command("mark dead letters as done without replaying them; their bytes stay in the topic")
def drop(
    settings: Settings,
    *,
    yes: Annotated[bool, Option(None, "drop without asking")] = False,
    dead_letter_ids: Ids,
    as_json: Json = False,
) -> int:
    """Ask, then mark dead letters as done without replaying them."""
    dead_letter_ids = list(dict.fromkeys(dead_letter_ids))
    if not yes and not confirm(f"Drop {', '.join(dead_letter_ids)}? [y/N] "):
        print("Nothing was dropped.", file=sys.stderr)
        return 1
    return _drop(settings, settings, dead_letter_ids, as_json=as_json)


@on_kafka
async def _drop(
    log: KafkaLog, kafka: KafkaSettings, settings: Settings, dead_letter_ids: Sequence[str], *, as_json: bool
) -> None:
    await topic.require_open(log, kafka.dead_letter_topic, dead_letter_ids)
    recording = audited_if_possible(settings, "dead-letters drop", ids=dead_letter_ids)
    async with recording, _publisher(kafka) as publisher:
        for dead_letter_id in dead_letter_ids:
            await topic.drop(log, publisher, kafka.dead_letter_topic, dead_letter_id)
            text = f"{dead_letter_id} is dropped."
            print_result({"id": dead_letter_id, "is_dropped": True}, text, as_json=as_json)


dead_letters: Final = Group(
    {"list": list_open, "show": show, "replay": replay, "drop": drop}, description=DESCRIPTION, epilog=EXAMPLES
)


@asynccontextmanager
async def _publisher(kafka: KafkaSettings) -> AsyncIterator[Publisher]:
    publisher = KafkaPublisher(kafka)
    try:
        yield publisher
    finally:
        await publisher.close()


def _members(dead_letter: DeadLetter) -> dict[str, Any]:
    """Return the members of contract §7; ``span_count`` and ``codes`` only if several spans share the dead letter."""
    return {
        name: member
        for name, member in dead_letter._asdict().items()
        if name not in _NOT_SHOWN and (name not in _OF_SHARED or member is not None)
    }


def _row(dead_letter: DeadLetter) -> Sequence[object]:
    source = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}"
    span = "all" if dead_letter.span_index is None else str(dead_letter.span_index)
    if dead_letter.span_count is not None:
        span = f"×{dead_letter.span_count}"
    return dead_letter.id, source, span, dead_letter.code, dead_letter.bytes_count, dead_letter.reason


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
