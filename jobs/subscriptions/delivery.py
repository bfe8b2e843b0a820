"""Delivers one subscription: read a batch, store its borders, deliver it, store that it is acknowledged (ADR 0018).

::

    wait for news → read → store the borders → deliver → store the position ─┐
         ↑                                         ↓ failed                  │
         │                              wait, read the same batch again      │
         └────────────────────────────────────────────────────────────────────┘

If the process ends anywhere in between, the next one reads the stored row: without borders it reads on from the
position, with borders it delivers the same batch again under the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from common.errors import ServiceError
from common.fair_share import FairShare, Tenant, working_for
from common.postgres.leases import LeaseLost
from common.telemetry import (
    DELIVERED_SPANS,
    DELIVERIES,
    DELIVERY_LAG_SECONDS,
    DELIVERY_SECONDS,
    EXPIRED_SPANS,
    REJECTED_SPANS,
    get_logger,
)
from jobs.context import JobContext
from jobs.failures import Failing, pause, retry_delay_s, retry_or_pause
from jobs.runner import JobRun
from jobs.subscriptions.pace import Pace
from jobs.subscriptions.reading import BatchReader, FeedReader, ReadBatch
from jobs.subscriptions.settled_reading import SettledBatchReader
from jobs.subscriptions.store import LeasedSubscription, LeasedSubscriptions, NewBatch
from query_api.delivery.schemas import FeedKind
from query_api.delivery.selection import Selection, selection_of
from query_api.delivery.shown import FeedPosition, unpack_position
from query_api.delivery.stored import batch_id_of
from query_api.delivery.targets.opening import open_target
from query_api.delivery.targets.target import DeliveryBatch, RejectedSpans, Target, TargetRefused, TargetUnavailable

NEWS_S: Final = 10.0
"""How long a subscription waits for an announcement before it looks again."""

ADVANCE_S: Final = 2.0
"""How often a position is stored while nothing matches."""

FOLLOW_S: Final = 1.0
"""How often the newest revision of a saved query is looked up."""

MATCHING_S: Final = 60.0
"""How long a subscription that has found spans reads more often than others of its project."""

READ_RETRY_S_MAX: Final = 10.0
PLACE_S: Final = 60.0
"""How long a subscription waits until its process may hold one more batch."""

LEFT_OUT: Final = "A trace is larger than CLEARSPAN_QUERY__TRACE_BYTES_MAX: its spans are left out."

NEVER_S: Final = float("-inf")

_log: Final = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Subscribing:
    """What all subscriptions of a process share. ``batches`` limits the batches in memory."""

    context: JobContext
    store: LeasedSubscriptions
    reader: BatchReader
    settled_reader: SettledBatchReader
    pace: Pace
    batches: FairShare

    async def run(self, run: JobRun) -> None:
        """Deliver a subscription until it is paused, the lease is lost, or the process stops. Raises ``LeaseLost``."""
        lease, context = run.lease, self.context
        subscription = await self.store.load(lease)
        if subscription is None or lease.project_id is None:
            return
        try:
            target = open_target(
                subscription.target, subscription.secrets, settings=context.settings, project_id=lease.project_id
            )
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with what is stored, trying again does not help
            await pause(context.leases, lease, f"The target cannot be opened: {exc}.")
            return
        delivery = Delivery(self, run, lease.project_id, subscription, target)
        state: DeliveryState | None = DeliveryState.of(subscription, stored_s=context.clock.monotonic_s())
        try:
            async with self.pace.subscription(lease.project_id, lease.id):
                while state is not None and not run.stopping.is_set():
                    state = await next_state(delivery, state)
        finally:
            await target.close()


@dataclass(frozen=True, slots=True)
class Delivery:
    """What does not change while one subscription is delivered."""

    tools: Subscribing
    run: JobRun
    project_id: UUID
    subscription: LeasedSubscription
    target: Target

    @property
    def id(self) -> UUID:
        """The id of the subscription."""
        return self.run.lease.id

    @property
    def kind(self) -> str:
        """The kind of its target."""
        return str(self.subscription.target["kind"])

    @property
    def reader(self) -> FeedReader:
        """What reads its feed."""
        is_settled = self.subscription.feed == FeedKind.SETTLED_TRACES
        return self.tools.settled_reader if is_settled else self.tools.reader

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self.tools.context.now()

    def monotonic_s(self) -> float:
        """Return the time by which intervals are measured."""
        return self.tools.context.clock.monotonic_s()


@dataclass(frozen=True, slots=True)
class Borders:
    """A batch that is not acknowledged: the position after it, and the revision of the saved query that it is from."""

    end: FeedPosition
    revision_id: UUID | None


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """How far a subscription is. ``*_s`` are times of the monotonic clock."""

    position: FeedPosition
    stored_position: FeedPosition
    stored_s: float
    through_at: datetime
    """Everything that was stored before it is delivered."""

    pending: Borders | None
    batch_number: int
    failing: Failing
    expired_count: int = 0
    """Expired spans that were passed since the position was stored."""

    is_behind: bool = True
    news_count: int = -1
    read_s: float = NEVER_S
    matched_s: float = NEVER_S
    selection: Selection | None = None
    selected_s: float = NEVER_S
    read_failures: int = 0

    @classmethod
    def of(cls, stored: LeasedSubscription, *, stored_s: float) -> DeliveryState:
        """Return the state at which the last process ended."""
        position = unpack_position(stored.position, stored.feed)
        pending = None
        if stored.pending is not None:
            pending = Borders(unpack_position(stored.pending, stored.feed), stored.pending_revision)
        failing = Failing(stored.attempts, stored.failing_since, stored.retry_at)
        return cls(position, position, stored_s, stored.through_at, pending, stored.batch_number, failing)


async def next_state(delivery: Delivery, state: DeliveryState) -> DeliveryState | None:
    """Deliver a batch, or record why not. Return the state after it, ``None`` if the subscription is paused."""
    context, lease = delivery.tools.context, delivery.run.lease
    try:
        state = await wait(delivery, state)
        if state.pending is None and not state.is_behind:
            return state
        tenant = Tenant(delivery.project_id, await context.has_neighbors(delivery.project_id))
        delivery.run.is_busy = True
        with working_for(tenant):
            async with AsyncExitStack() as place:
                state, batch = await read(delivery, state, place)
                if batch is not None:
                    rejected = await deliver(delivery, state, batch)
                    state = await store(delivery, state, batch, rejected)
        return replace(state, read_failures=0)
    except LeaseLost:
        raise
    except TargetUnavailable as exc:
        settings = context.settings.delivery
        failing = await retry_or_pause(context.leases, lease, state.failing, exc, delivery.now(), settings=settings)
        return None if failing is None else replace(state, failing=failing)
    except TargetRefused as exc:
        await pause(context.leases, lease, exc.reason)
        return None
    except ServiceError as exc:
        if not exc.transient:
            await pause(context.leases, lease, exc.public_message)
            return None
        reason = exc.detail or exc.public_message
    except Exception:  # noqa: BLE001 - one subscription must not end the others
        _log.exception("A subscription failed unexpectedly.", subscription=str(delivery.id))
        reason = "An unexpected error occurred; the log has the details."
    finally:
        delivery.run.is_busy = False
    return await wait_after_failure(delivery, state, reason)


async def wait(delivery: Delivery, state: DeliveryState) -> DeliveryState:
    """Wait for the next try, or for news, which may not come."""
    if state.pending is not None:
        if state.failing.retry_at is not None:
            await asyncio.sleep(max((state.failing.retry_at - delivery.now()).total_seconds(), 0.0))
        return state
    if state.is_behind:
        return state
    tools, project_id = delivery.tools, delivery.project_id
    rest_s = state.read_s + tools.pace.interval_s(project_id, delivery.id) - delivery.monotonic_s()
    await asyncio.sleep(max(rest_s, 0.0))
    timeout_s = ADVANCE_S if state.position != state.stored_position else NEWS_S
    reader = delivery.reader
    if await reader.wait_for_news(project_id, since=state.news_count, timeout_s=timeout_s):
        return replace(state, is_behind=True)
    state = await advance(delivery, state)
    await reader.learn(project_id, unless_within_s=NEWS_S)
    return replace(state, is_behind=reader.news_count(project_id) != state.news_count)


async def read(
    delivery: Delivery, state: DeliveryState, place: AsyncExitStack
) -> tuple[DeliveryState, ReadBatch | None]:
    """Read the next batch and store its borders, or read the one whose borders are stored; ``None`` if nothing matches.

    A batch has a ``place`` in memory, which is taken before the turn of the read ends.
    """
    tools, project_id, pending = delivery.tools, delivery.project_id, state.pending
    if pending is not None or state.news_count < 0:
        await delivery.reader.learn(project_id)
    if pending is not None:
        selection = await _selection(delivery, pending.revision_id)
        async with tools.pace.read(project_id, delivery.id):
            batch = await delivery.reader.same_batch(project_id, selection, state.position, pending.end)
            await place.enter_async_context(tools.batches.place(timeout_s=PLACE_S))
        return state, batch
    state, selection = await selected(delivery, state)
    async with tools.pace.read(project_id, delivery.id):
        news_count = delivery.reader.news_count(project_id)
        read_s, began_at = delivery.monotonic_s(), delivery.now()
        batch = await delivery.reader.next_batch(project_id, selection, state.position)
        if batch.items:
            await place.enter_async_context(tools.batches.place(timeout_s=PLACE_S))
    matched_s = read_s if batch.items else state.matched_s
    tools.pace.found(project_id, delivery.id, is_some=read_s - matched_s < MATCHING_S)
    through_at = began_at if batch.is_complete else batch.last_at if batch.items else state.through_at
    state = replace(
        state,
        news_count=news_count,
        read_s=read_s,
        matched_s=matched_s,
        is_behind=not batch.is_complete,
        through_at=through_at,
    )
    if batch.items:
        return await store_borders(delivery, state, batch, selection), batch
    state = replace(state, position=batch.positions, expired_count=state.expired_count + batch.expired_count)
    is_old = delivery.monotonic_s() - state.stored_s >= ADVANCE_S
    return (await advance(delivery, state) if is_old else state), None


async def deliver(delivery: Delivery, state: DeliveryState, batch: ReadBatch) -> RejectedSpans | None:
    """Send a batch to the target and return what it rejects, and what the batch leaves out. A batch of which every span
    was replaced or deleted is not sent. Raises ``TargetUnavailable`` and ``TargetRefused``.
    """
    if not batch.items:
        return None
    id_ = batch_id_of(delivery.id, state.batch_number)
    outcome = "unavailable"
    try:
        with DELIVERY_SECONDS.labels(delivery.kind).time():
            rejected = await delivery.target.deliver(
                DeliveryBatch(id_, delivery.subscription.slug, delivery.now(), batch.spans, batch.traces)
            )
        outcome = "delivered"
    except TargetRefused:
        outcome = "refused"
        raise
    finally:
        DELIVERIES.labels(delivery.kind, outcome).inc()
    return _with_left_out(rejected, batch.left_out_count)


def _with_left_out(rejected: RejectedSpans | None, count: int) -> RejectedSpans | None:
    """Add the spans of traces that are too large to what a target rejects."""
    if not count:
        return rejected
    return RejectedSpans(count + (0 if rejected is None else rejected.count), LEFT_OUT)


async def store(
    delivery: Delivery, state: DeliveryState, batch: ReadBatch, rejected: RejectedSpans | None
) -> DeliveryState:
    """Store that a batch is acknowledged."""
    kind, spans = delivery.kind, batch.spans
    counts: Mapping[str, Any] = {"spans_count": len(spans), "expired_count": batch.expired_count}
    await delivery.tools.store.end(delivery.run.lease, through_at=state.through_at, rejected=rejected, **counts)
    EXPIRED_SPANS.labels(kind).inc(batch.expired_count)
    if rejected is not None:
        REJECTED_SPANS.labels(kind).inc(rejected.count)
        _log.warning("Spans were rejected or left out.", subscription=str(delivery.id), **asdict(rejected))
    if batch.items:
        DELIVERED_SPANS.labels(kind).inc(len(spans))
        DELIVERY_LAG_SECONDS.labels(kind).observe((delivery.now() - batch.first_at).total_seconds())
    assert state.pending is not None  # noqa: S101 - a batch has borders
    end = state.pending.end
    return replace(
        state,
        position=end,
        stored_position=end,
        stored_s=delivery.monotonic_s(),
        pending=None,
        failing=Failing(),
        expired_count=0,
    )


async def store_borders(
    delivery: Delivery, state: DeliveryState, batch: ReadBatch, selection: Selection
) -> DeliveryState:
    """Store where a batch ends before it is delivered."""
    new = NewBatch(
        state.position.pack(),
        batch.positions.pack(),
        selection.revision_id,
        len(batch.spans),
        passed_expired_count=state.expired_count,
        expired_count=batch.expired_count,
    )
    number = await delivery.tools.store.begin(delivery.run.lease, new)
    EXPIRED_SPANS.labels(delivery.kind).inc(state.expired_count)
    pending = Borders(batch.positions, selection.revision_id)
    return replace(state, batch_number=number, pending=pending, expired_count=0)


async def advance(delivery: Delivery, state: DeliveryState) -> DeliveryState:
    """Store the position after spans that do not match."""
    if state.position != state.stored_position:
        await delivery.tools.store.advance(
            delivery.run.lease, state.position.pack(), state.through_at, expired_count=state.expired_count
        )
        EXPIRED_SPANS.labels(delivery.kind).inc(state.expired_count)
        state = replace(state, stored_position=state.position, expired_count=0)
    return replace(state, stored_s=delivery.monotonic_s())


async def selected(delivery: Delivery, state: DeliveryState) -> tuple[DeliveryState, Selection]:
    """Return the filter as it is now. A query that is followed is looked up again after ``FOLLOW_S``."""
    now_s = delivery.monotonic_s()
    is_followed = "query_ref" in delivery.subscription.selection
    if state.selection is not None and not (is_followed and now_s - state.selected_s >= FOLLOW_S):
        return state, state.selection
    selection = await _selection(delivery, None)
    return replace(state, selection=selection, selected_s=now_s), selection


async def _selection(delivery: Delivery, revision_id: UUID | None) -> Selection:
    queries = delivery.tools.context.saved_queries(delivery.project_id)
    return await selection_of(delivery.subscription.selection, queries, revision_id=revision_id)


async def wait_after_failure(delivery: Delivery, state: DeliveryState, reason: str) -> DeliveryState:
    """Wait after a failure of Clearspan's own systems; the target is not to blame."""
    failures = state.read_failures + 1
    _log.warning("A subscription waits.", subscription=str(delivery.id), reason=reason)
    await asyncio.sleep(retry_delay_s(failures, max_s=READ_RETRY_S_MAX))
    return replace(state, read_failures=failures)
