"""Dead letters in a topic, as the worker publishes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from common.kafka.record import Coordinates, Header, Publisher, Record
from common.times import format_us
from tests.fakes.kafka import MemoryBroker

TOPIC = "spans.dead_letter"
BEGIN_S = 1_750_000_000


class StallingBroker(MemoryBroker):
    """A broker that sends only the first ``reads_left`` ranges, until ``go_on`` is set."""

    def __init__(self, *, partitions: int = 1) -> None:
        super().__init__(partitions=partitions)
        self.reads_left = 1_000
        self.go_on = asyncio.Event()
        self.read_count = 0

    async def read_ranges(self, topic: str, ranges: Mapping[int, range]) -> AsyncIterator[Sequence[Record]]:
        if not any(ranges.values()):
            return
        if not self.reads_left:
            await self.go_on.wait()
        else:
            self.reads_left -= 1
        async for records in super().read_ranges(topic, ranges):
            self.read_count += len(records)
            yield records


def created_at(at_s: float) -> str:
    """Return the time of rejection of a dead letter that was published at ``at_s``."""
    return format_us(round((BEGIN_S + at_s) * 1_000_000))


def headers_of(
    offset: int,
    *,
    at_s: float = 0.0,
    topic: str = "spans",
    code: str = "undecodable",
    reason: str = "No JSON.",
    more: tuple[Header, ...] = (),
) -> list[Header]:
    """Return the headers of a dead letter of the record at ``offset``."""
    texts = {
        "clearspan-topic": topic,
        "clearspan-partition": "1",
        "clearspan-offset": str(offset),
        "clearspan-timestamp": "7",
        "clearspan-code": code,
        "clearspan-reason": reason,
        "clearspan-time": created_at(at_s),
    }
    return [*more, *((name, text.encode()) for name, text in texts.items())]


async def add_dead_letter(
    broker: MemoryBroker,
    offset: int,
    *,
    at_s: float = 0.0,
    published_s: float | None = None,
    value: bytes = b"no json",
    key: bytes = b"k",
    **rest: str,
) -> str:
    """Publish one that was rejected at ``at_s``, by default at once; return its id."""
    broker.now_ms = round((BEGIN_S + (at_s if published_s is None else published_s)) * 1_000)
    more = (("project-id", rest.pop("project").encode()),) if "project" in rest else ()
    headers = headers_of(offset, at_s=at_s, more=more, **rest)
    where = await broker.append(TOPIC, value, key=key, headers=headers)
    return id_of(where)


async def publish_dead_letter(
    publisher: Publisher, offset: int, *, value: bytes = b"no json", topic: str = TOPIC, source: str = "spans"
) -> str:
    """Publish one to a broker; return its id."""
    return id_of(await publisher.publish(topic, value, headers=headers_of(offset, at_s=offset, topic=source)))


def id_of(where: Coordinates) -> str:
    return f"{where.partition}-{where.offset}"
