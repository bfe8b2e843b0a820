from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest
from multidict import CIMultiDict

from common.errors import DeadlineExceeded, InvalidInput, Overloaded
from common.kafka.record import Coordinates, EndOffsets
from common.settings import QuerySettings, Settings
from common.stored_position import ALL_PROJECTS, StoredPosition
from query_api.freshness.headers import COORDINATES_MAX, Wanted, read_wanted, sign_coordinates, wait_until_stored
from query_api.request.context import ApiContext
from query_api.request.limits import Limits
from query_api.request.progress import REFRESH_INTERVAL_S, KnownEndOffsets
from query_api.request.route import Request
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A, KnownKeys, context_of


class TestReading:
    def test_plain_and_signed_coordinates_may_be_mixed(self) -> None:
        call = _call(_context())
        signed = sign_coordinates([Coordinates("spans", 1, 5)], project_id=PROJECT_A, secret=b"secret")

        wanted = read_wanted(f"spans/0/7 ,{signed},, otlp_spans/3/0", call)

        assert [each.coordinates for each in wanted] == [
            [Coordinates("spans", 0, 7)],
            [Coordinates("spans", 1, 5)],
            [Coordinates("otlp_spans", 3, 0)],
        ]

    def test_plain_coordinates_of_a_project_mean_its_own_record(self) -> None:
        for sees_all in (True, False):
            (wanted,) = read_wanted("spans/0/7", _call(_context(sees_all=sees_all)))
            assert wanted.is_own_record is not sees_all

    @pytest.mark.parametrize("sees_all", [True, False])
    @pytest.mark.parametrize(
        "text",
        [
            "spans",
            "spans/0",
            "spans/0/-1",
            "spans/0/x",
            "spans/0/1.0",
            "spans//1",
            "/0/1",
            "spans/0/²",
            f"spans/0/{10**18}",
        ],
    )
    def test_invalid_coordinates_are_rejected_with_a_message(self, text: str, sees_all: bool) -> None:
        with pytest.raises(InvalidInput, match=r"nor topic/partition/offset"):
            read_wanted(f"spans/0/1,{text}", _call(_context(sees_all=sees_all)))

    def test_message_contains_the_beginning_of_a_long_text(self) -> None:
        with pytest.raises(InvalidInput, match=r"'x{100}' is neither"):
            read_wanted("x" * 10_000, _call(_context()))

    def test_topic_that_is_not_read_is_rejected(self) -> None:
        with pytest.raises(InvalidInput, match=r"the topic of 'spans\.dead_letter/0/1' is not read; allowed: .*spans"):
            read_wanted("spans.dead_letter/0/1", _call(_context()))

    def test_a_project_does_not_learn_which_topics_are_read(self) -> None:
        assert read_wanted("spans.dead_letter/0/1", _call(_context(sees_all=False)))

    def test_number_of_coordinates_is_limited(self) -> None:
        named = [f"spans/{partition}/0" for partition in range(COORDINATES_MAX + 1)]

        assert len(read_wanted(",".join(named[:-1]), _call(_context()))) == COORDINATES_MAX
        with pytest.raises(InvalidInput, match="at most 200"):
            read_wanted(",".join(named), _call(_context()))


def _context(
    *, ends: EndOffsets | None = None, clock: ManualClock | None = None, sees_all: bool = True, **query: float
) -> ApiContext:
    clock = clock or ManualClock()
    return context_of(
        settings=Settings(auth="off" if sees_all else "on", query=QuerySettings(**query)),
        keys=None if sees_all else KnownKeys({"a": PROJECT_A}),
        clock=clock,
        ends=KnownEndOffsets(ends or MemoryBroker().ends("spans"), clock),
        limits=Limits(end_offsets_s=0.01),
    )


def _call(context: ApiContext) -> Request:
    sees_all = context.keys is None
    return Request(context, PROJECT_A, {}, query=None, body=None, headers=CIMultiDict(), sees_all_projects=sees_all)


async def _wait(context: ApiContext, *places: tuple[int, int]) -> None:
    """Wait for places in the topic ``spans``, given by partition and offset, of which the caller may know everything."""
    wanted = [
        Wanted(f"spans/{partition}/{offset}", [Coordinates("spans", partition, offset)]) for partition, offset in places
    ]
    await wait_until_stored(_call(context), wanted)


def _learn(
    context: ApiContext, offset: int, *, partition_id: str = "memory/spans/0", project: UUID = ALL_PROJECTS
) -> None:
    context.stored.learn([StoredPosition(project, partition_id, offset, 1, 1)])


class TestWaiting:
    async def test_stored_record_is_not_waited_for(self) -> None:
        context = _context()
        _learn(context, 7)

        await _wait(context, (0, 7))

    async def test_wait_ends_when_the_last_coordinate_is_stored(self) -> None:
        context = _context()
        waiting = asyncio.create_task(_wait(context, (0, 7), (1, 1)))
        for offset, partition_id in ((6, "memory/spans/0"), (1, "memory/spans/1")):
            await _until_waiting(context)
            _learn(context, offset, partition_id=partition_id)
        await _until_waiting(context)
        assert not waiting.done()

        _learn(context, 7)

        await asyncio.wait_for(waiting, 30.0)

    async def test_timeout_names_what_is_missing(self) -> None:
        context = _context(wait_for_max_s=0.05)
        _learn(context, 7)

        with pytest.raises(DeadlineExceeded, match=r"not queryable after 0.05 s: spans/1/3\.$"):
            await _wait(context, (0, 7), (1, 3))

    async def test_position_of_one_project_does_not_end_the_wait(self) -> None:
        context = _context(wait_for_max_s=0.05)
        _learn(context, 7, project=PROJECT_A)

        with pytest.raises(DeadlineExceeded):
            await _wait(context, (0, 7))

    async def test_partition_of_a_replaced_broker_does_not_count(self) -> None:
        broker = MemoryBroker()
        broker.cluster_id = "renewed"
        context = _context(ends=broker.ends("spans"), wait_for_max_s=0.05)
        _learn(context, 5_000)

        with pytest.raises(DeadlineExceeded):
            await _wait(context, (0, 7))

    async def test_first_wait_waits_for_end_offsets_not_for_news(self) -> None:
        """A process that has just started knows no logs, and all may be stored already."""
        context = _context(ends=_LateEnds(), wait_for_max_s=60.0)
        _learn(context, 7)

        async with asyncio.timeout(30.0):
            await _wait(context, (0, 7))

    async def test_unresponsive_kafka_does_not_delay_stored_records(self) -> None:
        clock = ManualClock()
        context = _context(ends=_OnceAnswering(), clock=clock, wait_for_max_s=60.0)
        _learn(context, 7)
        await _wait(context, (0, 7))
        clock.advance(REFRESH_INTERVAL_S)

        async with asyncio.timeout(30.0):
            await _wait(context, (0, 7))

    async def test_wait_beyond_the_limit_is_429(self) -> None:
        context = _context(waiting_max=1, wait_for_max_s=60.0, queue_s=0.05)
        first = asyncio.create_task(_wait(context, (0, 7)))
        await _until_waiting(context)

        with pytest.raises(Overloaded):
            await _wait(context, (0, 7))

        _learn(context, 7)
        await first


class _LateEnds:
    """Says where the log of ``spans/0`` ends, after a while."""

    async def ask(self) -> Mapping[str, int]:
        await asyncio.sleep(0.1)
        return {"memory/spans/0": 8}

    async def close(self) -> None:
        """Nothing is open."""


class _OnceAnswering:
    """Says where the log of ``spans/0`` ends, and never again."""

    def __init__(self) -> None:
        self._is_silent = False

    async def ask(self) -> Mapping[str, int]:
        if self._is_silent:
            await asyncio.Event().wait()
        self._is_silent = True
        return {"memory/spans/0": 8}

    async def close(self) -> None:
        """Nothing is open."""


async def _until_waiting(context: ApiContext) -> None:
    async with asyncio.timeout(30.0):
        await asyncio.sleep(0)
        while not context.stored.waiting_count:  # noqa: ASYNC110 - nobody announces that a call waits
            await asyncio.sleep(0.001)
