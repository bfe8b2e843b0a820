"""The rules that the worker applies now, and when it takes no records (contract §9 “Masking”)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.limits import SpanLimits
from common.masking import NO_MASKS, MaskAction, MaskRule, MaskSet, ProjectRules, pack
from common.readiness import Readiness
from common.settings import Encoding, TopicSettings
from ingest.batch import FlushPolicy
from ingest.decode import Rules
from ingest.masking.current import COMPONENT, STALE_S, CurrentMasking
from ingest.policy import Policy
from ingest.worker import Worker
from tests.fakes.clock import ManualClock
from tests.support.otlp import request
from tests.unit.ingest.test_worker import POLICY as WORKER_POLICY
from tests.unit.ingest.test_worker import TOPIC, Bench, until

PROJECT = UUID(int=7)
RULES = pack({PROJECT: ProjectRules((MaskRule(MaskAction.REDACT, value="secret"),), b"k")})
TOPICS = {
    "t": TopicSettings(encoding=Encoding.OTLP_PROTO, project_id=PROJECT),
    "u": TopicSettings(encoding=Encoding.SPAN_JSON),
}
POLICY = Policy(Rules(TOPICS, SpanLimits(), DEFAULT_PROJECT_ID), FlushPolicy())


class Reader:
    """Rules in memory, which may be away."""

    def __init__(self) -> None:
        self.is_away = False
        self.masks = NO_MASKS
        self.counts: list[Mapping[UUID, int]] = []

    async def read(self) -> MaskSet:
        if self.is_away:
            raise Unavailable("Postgres is away.")
        return self.masks

    async def add_counts(self, counts: Mapping[UUID, int], /) -> None:
        self.counts.append(dict(counts))


def _current(reader: Reader | None, clock: ManualClock, readiness: Readiness) -> CurrentMasking:
    return CurrentMasking(reader, POLICY.masking, clock=clock, readiness=readiness)


def _is_known(current: CurrentMasking) -> bool:
    return current.known is not None


async def test_nothing_is_known_before_the_rules_were_read_once() -> None:
    reader, clock, readiness = Reader(), ManualClock(), Readiness()
    reader.is_away, reader.masks = True, RULES
    current = _current(reader, clock, readiness)

    assert not _is_known(current)
    await current.refresh()
    assert not _is_known(current)
    assert "cannot be read: Postgres is away." in readiness.reasons[COMPONENT]
    reader.is_away = False
    await current.refresh()

    assert current.known is not None
    assert current.known.masks == RULES
    assert current.known.topic_projects == {"t": PROJECT, "u": DEFAULT_PROJECT_ID}
    assert COMPONENT not in readiness.reasons


async def test_rules_that_were_read_too_long_ago_are_not_known() -> None:
    reader, clock, readiness = Reader(), ManualClock(), Readiness()
    current = _current(reader, clock, readiness)
    await current.refresh()
    reader.is_away = True

    clock.advance(STALE_S)
    await current.refresh()
    assert _is_known(current)
    assert COMPONENT not in readiness.reasons
    clock.advance(0.1)
    await current.refresh()

    assert not _is_known(current)
    assert COMPONENT in readiness.reasons


async def test_changed_rules_are_applied_and_equal_ones_stay_the_same_object() -> None:
    reader = Reader()
    current = _current(reader, ManualClock(), Readiness())
    await current.refresh()
    first = current.known
    await current.refresh()
    assert current.known is first

    reader.masks = RULES
    await current.refresh()

    assert current.known is not None
    assert current.known.by_project().keys() == {PROJECT}


async def test_counts_are_reported_once_also_after_a_failure() -> None:
    reader = Reader()
    current = _current(reader, ManualClock(), Readiness())
    current.count({PROJECT: 2})
    reader.is_away = True
    await current.refresh()
    current.count({PROJECT: 3})
    current.count({})
    reader.is_away = False
    await current.refresh()
    await current.refresh()

    assert reader.counts == [{PROJECT: 5}]


async def test_without_a_reader_there_are_no_rules() -> None:
    current = _current(None, ManualClock(), Readiness())
    await current.refresh()

    assert current.known is not None
    assert current.known.masks == NO_MASKS


async def test_worker_stores_nothing_until_the_rules_are_read_and_then_masks() -> None:
    bench, reader = Bench(), Reader()
    reader.is_away, reader.masks = True, RULES
    bench.dependencies = replace(bench.dependencies, masks=reader)
    bench.worker = Worker(WORKER_POLICY, bench.dependencies)
    await bench.broker.append(TOPIC, request(["a secret"], project=str(PROJECT)))

    async with bench.running():
        await until(lambda: COMPONENT in bench.dependencies.readiness.reasons)
        await asyncio.sleep(0.1)
        assert bench.sink.names == []
        reader.is_away = False
        await until(lambda: bench.sink.names == ["a [masked]"])
        await until(lambda: reader.counts == [{PROJECT: 1}])
