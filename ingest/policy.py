"""The worker's settings as plain values, and everything outside that it touches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from common.kafka.record import Publisher, RecordSource
from common.prices.file import prices_of
from common.readiness import Readiness
from common.settings import Settings
from common.times import Clock, SystemClock
from ingest.batch import FlushPolicy
from ingest.dead_letter import DeadLetterStore
from ingest.decode import PlainTopic, Rules
from ingest.decoding.decoder import Decoder
from ingest.flush import EventJoiner, PositionRecorder
from ingest.masking.current import MaskReader
from ingest.masking.dead_letters import Masking
from ingest.sink import Sink

FLUSHING_SHARE: Final = 0.33
"""Share of the time in which batches that are neither full nor old are flushed (ADR 0044)."""

PATIENT_SHARE: Final = 0.1
"""The same, if ingest gives way."""

NICENESS: Final = 10
"""Of the processes that decode, if ingest gives way: they get a tenth of a core that others want too."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The worker's settings as plain values."""

    rules: Rules
    flush: FlushPolicy
    dead_letter_topic: str = "spans.dead_letter"
    poll_records_max: int = 500
    poll_s_max: float = 0.2  # a quiet poll; also the longest that a rebalance or SIGTERM waits for the loop
    retry_delay_s_max: float = 10.0
    flush_late_s: float = 10.0
    shutdown_grace_s: float = 20.0
    streak_max: int = 10_000
    keeps_unmaskable: bool = False
    decoder_niceness: int = 0

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        """Return the settings that the loop uses. Raises ``InvalidPrices``."""
        ingest, gives_way = settings.ingest, settings.clickhouse.gives_way == "ingest"
        return cls(
            rules=Rules(
                {
                    name: PlainTopic(topic.encoding, topic.project_id, topic.trust_project, topic.signal)
                    for name, topic in settings.kafka.topics.items()
                },
                settings.limits.span_limits(),
                settings.default_project_id,
                prices_of(settings),
                takes_logs=ingest.logs == "on",
            ),
            flush=FlushPolicy(
                ingest.batch_rows_max,
                ingest.batch_bytes_max,
                ingest.batch_age_max_s,
                PATIENT_SHARE if gives_way else FLUSHING_SHARE,
                is_patient=gives_way,
            ),
            decoder_niceness=NICENESS if gives_way else 0,
            dead_letter_topic=settings.kafka.dead_letter_topic,
            poll_records_max=ingest.poll_records_max,
            retry_delay_s_max=ingest.retry_delay_max_s,
            flush_late_s=ingest.flush_late_s,
            shutdown_grace_s=ingest.shutdown_grace_s,
            streak_max=ingest.dead_letter_streak_max,
            keeps_unmaskable=ingest.keep_unmaskable == "on",
        )

    @property
    def masking(self) -> Masking:
        """What masking knows before the rules of the projects are read."""
        rules = self.rules
        projects = {name: topic.project_id or rules.default_project_id for name, topic in rules.topics.items()}
        return Masking(topic_projects=projects, keeps_unmaskable=self.keeps_unmaskable)


class KnownProjects(Protocol):
    """Knows which projects exist."""

    async def exists(self, project_id: UUID, /) -> bool:
        """Return whether the project exists. Raises ``Unavailable`` (transient)."""
        ...


async def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Everything outside that the worker touches. The caller closes all of it, except ``source``.

    ``joiner`` is ``None`` if nothing is joined. ``masks`` is ``None`` if there is no place for rules. ``prepare``
    is awaited each time before the worker joins the group. ``systems`` are probed regularly, so that ``/readyz``
    reports one that is unavailable before a batch needs it.
    """

    source: RecordSource
    decoder: Decoder
    sinks: Sequence[Sink]
    positions: PositionRecorder
    dead_letters: DeadLetterStore
    publisher: Publisher
    projects: KnownProjects
    joiner: EventJoiner | None = None
    masks: MaskReader | None = None
    readiness: Readiness = field(default_factory=Readiness)
    prepare: Callable[[], Awaitable[object]] = _nothing
    systems: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
