"""Where a portion is opened makes no difference: a thread of the worker, one process, several."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import UUID

import pytest

from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.project import DEFAULT_PROJECT_ID
from common.settings import Encoding, TopicSettings
from ingest.consume import Rules
from ingest.opening.opener import Opener, open_opener
from ingest.opening.portion import OpenedPortion, Portion, open_portion
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
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """One for all tests, each with a loop of its own: a process takes a second to start."""
    found = asyncio.run(open_opener(RULES, processes=request.param))
    yield found
    asyncio.run(found.close())
    asyncio.run(found.close())  # twice is as good as once


def portion(*values: bytes | None, first_offset: int = 0) -> Portion:
    records = [
        Record("t", 0, offset, 5, b"key", value, (("h", b"v"),)) for offset, value in enumerate(values, first_offset)
    ]
    return Portion(records, {Partition("t", 0): "c/t/0"}, START_NS)


def shown(opened: OpenedPortion) -> tuple[object, ...]:
    return opened.accounts, opened.claimed, opened.rows.to_pylist()


async def test_a_portion_gives_the_same_wherever_it_is_opened(opener: Opener) -> None:
    unknown = portion(*VALUES).refusing(frozenset({UUID(int=7)}))

    assert shown(await opener.open(portion(*VALUES))) == shown(open_portion(portion(*VALUES), RULES))
    assert shown(await opener.open(unknown)) == shown(open_portion(unknown, RULES))
    assert shown(await opener.open(portion(None))) == shown(open_portion(portion(None), RULES))


async def test_each_who_waits_gets_the_portion_that_is_theirs(opener: Opener) -> None:
    given = [portion(request([f"s{number}"]), first_offset=number) for number in range(10)]

    opened = await asyncio.gather(*map(opener.open, given))

    assert [each.rows["name"].to_pylist() for each in opened] == [[f"s{number}"] for number in range(10)]


async def test_who_no_longer_waits_disturbs_nobody(opener: Opener) -> None:
    first, second, third = (
        asyncio.create_task(opener.open(portion(request([name] * 1)))) for name in ("first", "second", "third")
    )
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()

    assert (await third).rows["name"].to_pylist() == ["third"]
    assert (await opener.open(portion(request(["later"])))).rows["name"].to_pylist() == ["later"]


async def test_a_bug_of_ours_comes_out(opener: Opener) -> None:
    no_such_topic = Portion([Record("unheard-of", 0, 0, 5, None, b"x")], {Partition("unheard-of", 0): "c"}, START_NS)

    with pytest.raises(Exception, match="unheard-of"):
        await opener.open(no_such_topic)

    assert (await opener.open(portion(request(["a"])))).rows.num_rows == 1
