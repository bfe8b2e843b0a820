"""Delivers one subscription: read a batch, store its borders, deliver it, store that it is acknowledged (ADR 0018).

::

    wait for news → read → store the borders → deliver → store the position ─┐
         ↑                                         ↓ failed                  │
         │                              wait, read the same batch again      │
         └────────────────────────────────────────────────────────────────────┘

If the process ends anywhere in between, the next one reads the stored row: without borders it reads on from the
position, with borders it delivers the same batch again under the same id. Every write says whether the lease still
holds; if not, ``LeaseLostError`` ends the work.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

from common.errors import ServiceError
from common.fair_share import FairShare, Tenant, working_for
from common.ids import DEFAULT_USER_ID
from common.postgres.pool import Database
from common.settings import Settings
from common.telemetry import (
    DELIVERED_SPANS,
    DELIVERIES,
    DELIVERY_LAG_SECONDS,
    DELIVERY_SECONDS,
    EXPIRED_SPANS,
    REJECTED_SPANS,
    get_logger,
)
from common.times import Clock
from query_api.delivery.pace import Pace
from query_api.delivery.reading import BatchReader, ReadBatch, stored_at
from query_api.delivery.retrying import next_try, pause_reason, retry_delay_s
from query_api.delivery.selection import Selection, selection_of
from query_api.delivery.store import LeasedSubscription, Leases, NewBatch, batch_id_of
from query_api.delivery.targets.opening import open_target
from query_api.delivery.targets.target import DeliveryBatch, RejectedSpans, Target, TargetRefused, TargetUnavailable
from query_api.pages.arrivals import Positions
from query_api.registry.kinds import QUERIES
from query_api.registry.store import Lineage, Owner
from query_api.request.context import KeyFinder

NEWS_S: Final = 10.0
"""How long a subscription waits for an announcement before it looks again."""

ADVANCE_S: Final = 2.0
"""How often a position is stored while nothing matches."""

FOLLOW_S: Final = 1.0
"""How often the newest revision of a saved query is looked up."""

FINDING_S: Final = 60.0
"""How long a subscription that has found spans reads more often than others of its project."""

READ_RETRY_S_MAX: Final = 10.0
PLACE_S: Final = 60.0
"""How long a subscription waits until its process may hold one more batch."""

_log: Final = get_logger(__name__)


class LeaseLostError(Exception):
    """Another process holds the subscription now, or a user has changed it."""


@dataclass(frozen=True, slots=True)
class DeliveryTools:
    """What all subscriptions of a process share."""

    settings: Settings
    leases: Leases
    reader: BatchReader
    pace: Pace
    batches: FairShare
    """Limits the batches in memory."""

    database: Database
    keys: KeyFinder | None
    clock: Clock


class Delivering:
    """The delivery of one subscription while its lease holds."""

    def __init__(self, held: LeasedSubscription, tools: DeliveryTools) -> None:
        self._held = held
        self._tools = tools
        self._position = Positions.unpack(held.position)
        self._stored_position = self._position
        self._pending = None if held.pending is None else Positions.unpack(held.pending)
        self._pending_revision = held.pending_revision
        self._expired_count = 0
        """Expired spans that were passed since the position was stored."""

        self._number = held.batch_number
        self._attempts = held.attempts
        self._failing_since = held.failing_since
        self._retry_at = held.retry_at
        self._through_at = held.through_at
        self._news_count = -1
        self._is_behind = True
        self._read_s = float("-inf")
        self._found_s = float("-inf")
        self._stored_s = tools.clock.monotonic_s()
        self._selection: Selection | None = None
        self._selected_s = float("-inf")
        self._read_failures = 0
        self._is_stopping = False
        self.is_busy = False
        """Whether a batch is being read or delivered now."""

    def stop(self) -> None:
        """End after the batch that is under way."""
        self._is_stopping = True

    async def run(self) -> None:
        """Deliver until the lease is lost, the subscription is paused, or the process stops.

        Raises ``LeaseLostError``.
        """
        held, tools = self._held, self._tools
        try:
            target = open_target(held.target, held.secrets, settings=tools.settings, project_id=held.project_id)
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with what is stored, trying again does not help
            await self._pause(f"The target cannot be opened: {exc}.")
            return
        try:
            async with tools.pace.subscription(held.project_id, held.id):
                is_active = True
                while is_active and not self._is_stopping:
                    is_active = await self._turn_or_failure(target)
        finally:
            await target.close()

    async def _turn_or_failure(self, target: Target) -> bool:
        """Deliver a batch, or record why not. Return whether the subscription is still active."""
        try:
            await self._turn(target)
            self._read_failures = 0
        except LeaseLostError:
            raise
        except TargetUnavailable as exc:
            return await self._retry_later(exc.reason, exc.retry_after_s)
        except TargetRefused as exc:
            return await self._pause(exc.reason)
        except ServiceError as exc:
            if not exc.transient:
                return await self._pause(exc.public_message)
            await self._read_later(exc.public_message, exc.detail)
        except Exception:  # noqa: BLE001 - one subscription must not end the others
            _log.exception("A subscription failed unexpectedly.", subscription=str(self._held.id))
            await self._read_later("An unexpected error occurred; the log has the details.", "")
        finally:
            self.is_busy = False
        return True

    async def _turn(self, target: Target) -> None:
        held, tools = self._held, self._tools
        if not await self._wait():
            return
        has_neighbors = tools.keys is not None and await tools.keys.has_neighbors(held.project_id)
        self.is_busy = True
        with working_for(Tenant(held.project_id, has_neighbors)):
            async with AsyncExitStack() as place:  # taken before the turn of the read ends, and only for spans
                is_again = self._pending is not None
                found = await (self._read_again(place) if is_again else self._read_next(place))
                if found is not None:
                    await self._deliver(target, found)

    async def _wait(self) -> bool:
        """Wait for the next try, or for news; return whether there is something to do."""
        if self._pending is not None:
            if self._retry_at is not None:
                await asyncio.sleep(max((self._retry_at - self._now()).total_seconds(), 0.0))
            return True
        if not self._is_behind:
            await self._wait_for_news()
        return self._is_behind

    async def _wait_for_news(self) -> None:
        held, tools = self._held, self._tools
        rest_s = self._read_s + tools.pace.interval_s(held.project_id, held.id) - tools.clock.monotonic_s()
        await asyncio.sleep(max(rest_s, 0.0))
        timeout_s = ADVANCE_S if self._position != self._stored_position else NEWS_S
        stored = tools.reader.stored
        self._is_behind = await stored.wait_for_news(held.project_id, since=self._news_count, timeout_s=timeout_s)
        if not self._is_behind:
            await self._advance()
            await tools.reader.learn(held.project_id, unless_within_s=NEWS_S)
            self._is_behind = stored.news_count(held.project_id) != self._news_count

    async def _read_next(self, place: AsyncExitStack) -> ReadBatch | None:
        """Read the next batch and store its borders; ``None`` if nothing matches."""
        held, tools = self._held, self._tools
        if self._news_count < 0:
            await tools.reader.learn(held.project_id)
        selection = await self._selected()
        async with tools.pace.read(held.project_id, held.id):
            self._news_count = tools.reader.stored.news_count(held.project_id)
            self._read_s, began_at = tools.clock.monotonic_s(), self._now()
            found = await tools.reader.next_batch(held.project_id, selection, self._position)
            if found.spans:
                await place.enter_async_context(tools.batches.place(timeout_s=PLACE_S))
        self._is_behind = not found.is_complete
        self._found_s = self._read_s if found.spans else self._found_s
        tools.pace.found(held.project_id, held.id, is_some=self._read_s - self._found_s < FINDING_S)
        if found.is_complete:
            self._through_at = began_at
        elif found.spans:
            self._through_at = stored_at(found.spans[-1])
        if not found.spans:
            self._position = found.positions
            self._expired_count += found.expired_count
            if tools.clock.monotonic_s() - self._stored_s >= ADVANCE_S:
                await self._advance()
            return None
        await self._begin(found, selection)
        return found

    async def _begin(self, found: ReadBatch, selection: Selection) -> None:
        """Store the borders of a batch."""
        new = NewBatch(
            self._position.pack(),
            found.positions.pack(),
            selection.revision_id,
            len(found.spans),
            passed_expired_count=self._expired_count,
            expired_count=found.expired_count,
        )
        number = await self._tools.leases.begin(self._held, new)
        if number is None:
            raise LeaseLostError
        self._count_expired(self._expired_count)
        self._number, self._pending, self._pending_revision = number, found.positions, selection.revision_id

    def _count_expired(self, count: int) -> None:
        """Count expired spans whose number is stored."""
        EXPIRED_SPANS.labels(str(self._held.target["kind"])).inc(count)
        self._expired_count = 0

    async def _read_again(self, place: AsyncExitStack) -> ReadBatch:
        """Read the batch whose borders are stored."""
        held, tools = self._held, self._tools
        assert self._pending is not None  # noqa: S101 - the caller has checked it
        await tools.reader.learn(held.project_id)
        selection = await selection_of(held.selection, self._lineage(), revision_id=self._pending_revision)
        async with tools.pace.read(held.project_id, held.id):
            found = await tools.reader.same_batch(held.project_id, selection, self._position, self._pending)
            await place.enter_async_context(tools.batches.place(timeout_s=PLACE_S))
            return found

    async def _deliver(self, target: Target, found: ReadBatch) -> None:
        """Deliver a batch and store that it is acknowledged. A batch of which every span was replaced or
        deleted is not sent.
        """
        held, tools, spans = self._held, self._tools, found.spans
        kind = str(held.target["kind"])
        rejected: RejectedSpans | None = None
        if spans:
            batch = DeliveryBatch(batch_id_of(held.id, self._number), held.slug, self._now(), spans)
            outcome = "unavailable"
            try:
                with DELIVERY_SECONDS.labels(kind).time():
                    rejected = await target.deliver(batch)
                outcome = "delivered"
            except TargetRefused:
                outcome = "refused"
                raise
            finally:
                DELIVERIES.labels(kind, outcome).inc()
        counts = {"spans_count": len(spans), "expired_count": found.expired_count}
        if not await tools.leases.end(held, through_at=self._through_at, rejected=rejected, **counts):
            raise LeaseLostError
        self._count_expired(found.expired_count)
        if rejected is not None:
            REJECTED_SPANS.labels(kind).inc(rejected.count)
            _log.warning("A target rejected spans.", subscription=str(held.id), **asdict(rejected))
        if spans:
            DELIVERED_SPANS.labels(kind).inc(len(spans))
            DELIVERY_LAG_SECONDS.labels(kind).observe((self._now() - stored_at(spans[0])).total_seconds())
        assert self._pending is not None  # noqa: S101 - a batch has borders
        self._position = self._stored_position = self._pending
        self._pending, self._attempts, self._failing_since, self._retry_at = None, 0, None, None
        self._stored_s = tools.clock.monotonic_s()

    async def _advance(self) -> None:
        """Store the position after spans that do not match."""
        self._stored_s = self._tools.clock.monotonic_s()
        if self._position == self._stored_position:
            return
        count = self._expired_count
        advance = self._tools.leases.advance
        if not await advance(self._held, self._position.pack(), self._through_at, expired_count=count):
            raise LeaseLostError
        self._count_expired(count)
        self._stored_position = self._position

    async def _selected(self) -> Selection:
        """Return the filter as it is now. A query that is followed is looked up again after ``FOLLOW_S``."""
        now_s = self._tools.clock.monotonic_s()
        follows = "query_ref" in self._held.selection and now_s - self._selected_s >= FOLLOW_S
        if self._selection is None or follows:
            self._selection = await selection_of(self._held.selection, self._lineage())
            self._selected_s = now_s
        return self._selection

    def _lineage(self) -> Lineage:
        return Lineage(self._tools.database, QUERIES.kind, Owner(self._held.project_id, DEFAULT_USER_ID))

    async def _retry_later(self, reason: str, retry_after_s: float | None) -> bool:
        """Record a failed try; pause if the batch has been tried for long enough."""
        settings, now = self._tools.settings.delivery, self._now()
        self._attempts += 1
        self._failing_since = self._failing_since or now
        self._retry_at = next_try(
            self._attempts, self._failing_since, now, retry_after_s=retry_after_s, settings=settings
        )
        if self._retry_at is None:
            return await self._pause(pause_reason(reason, settings))
        recorded = await self._tools.leases.fail(
            self._held, attempts=self._attempts, since=self._failing_since, retry_at=self._retry_at, reason=reason
        )
        if not recorded:
            raise LeaseLostError
        return True

    async def _read_later(self, reason: str, detail: str) -> None:
        """Wait after a failure of Clearspan's own systems; the target is not to blame."""
        self._read_failures += 1
        delay_s = retry_delay_s(self._read_failures, max_s=READ_RETRY_S_MAX)
        _log.warning("A subscription waits.", subscription=str(self._held.id), reason=detail or reason)
        await asyncio.sleep(delay_s)

    async def _pause(self, reason: str) -> bool:
        _log.warning("A subscription was paused.", subscription=str(self._held.id), reason=reason)
        if not await self._tools.leases.pause(self._held, reason=reason):
            raise LeaseLostError
        return False

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._tools.clock.now_ns() / 1e9, UTC)
