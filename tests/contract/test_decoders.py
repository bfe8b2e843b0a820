"""A chunk gives the same rows in a thread of the worker, in one process and in several."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import UUID

import pytest

from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from ingest.decoding.decoder import Decoder, open_decoder
from tests.support.otlp import START_NS, request

RULES = Rules(
    {"t": TopicSettings(encoding=Encoding.OTLP_PROTO), "s": TopicSettings(encoding=Encoding.SPAN_JSON)},
    SpanLimits(),
    DEFAULT_PROJECT_ID,
)
VALUES = [
    request([f"s{number}" for number in range(3_000)]),
    None,
    b"\xff\xff\xff",
    request(["bad", "good"], absurd=["bad"]),
    request(["owned"], project=str(UUID(int=7))),
    request(["odd", "odder"], attributes={"gen_ai.usage.input_tokens": "many"}),
]


@pytest.fixture(params=[0, 1, 2], ids=["thread", "process", "two processes"], scope="module")
def decoder(request: pytest.FixtureRequest) -> Iterator[Decoder]:
    """One decoder for all tests, on its own event loop: a process takes a second to start."""
    found = asyncio.run(open_decoder(RULES, processes=request.param))
    yield found
    asyncio.run(found.close())
    asyncio.run(found.close())  # closing twice is harmless


def chunk(*values: bytes | None, first_offset: int = 0) -> Chunk:
    records = [
        Record("t", 0, offset, 5, b"key", value, (("h", b"v"),)) for offset, value in enumerate(values, first_offset)
    ]
    return Chunk(records, {Partition("t", 0): "c/t/0"}, START_NS)


def comparable(decoded: DecodedChunk) -> tuple[object, ...]:
    return decoded.outcomes, decoded.claimed, decoded.rows.to_pylist()


async def test_chunk_gives_the_same_rows_wherever_it_is_decoded(decoder: Decoder) -> None:
    unknown = chunk(*VALUES).rejecting(frozenset({UUID(int=7)}))

    assert comparable(await decoder.decode(chunk(*VALUES))) == comparable(decode_chunk(chunk(*VALUES), RULES))
    assert comparable(await decoder.decode(unknown)) == comparable(decode_chunk(unknown, RULES))
    assert comparable(await decoder.decode(chunk(None))) == comparable(decode_chunk(chunk(None), RULES))


async def test_each_caller_gets_its_own_chunk(decoder: Decoder) -> None:
    given = [chunk(request([f"s{number}"]), first_offset=number) for number in range(10)]

    decoded = await asyncio.gather(*map(decoder.decode, given))

    assert [result.rows["name"].to_pylist() for result in decoded] == [[f"s{number}"] for number in range(10)]


async def test_cancelled_caller_affects_no_other(decoder: Decoder) -> None:
    first, second, third = (
        asyncio.create_task(decoder.decode(chunk(request([name] * 1)))) for name in ("first", "second", "third")
    )
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()

    assert (await third).rows["name"].to_pylist() == ["third"]
    assert (await decoder.decode(chunk(request(["later"])))).rows["name"].to_pylist() == ["later"]


async def test_defect_is_raised_to_the_caller(decoder: Decoder) -> None:
    no_such_topic = Chunk([Record("unheard-of", 0, 0, 5, None, b"x")], {Partition("unheard-of", 0): "c"}, START_NS)

    with pytest.raises(Exception, match="unheard-of"):
        await decoder.decode(no_such_topic)

    assert (await decoder.decode(chunk(request(["a"])))).rows.num_rows == 1
