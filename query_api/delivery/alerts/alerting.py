"""Evaluates alerts when they are due and sends their messages: part of ``clearspan deliver`` (ADR 0019).

::

    claim due alerts → groups over the window → breaches, messages and the next time in one transaction
    claim alerts with messages → send the first → delete it ─┐
                                       ↑ failed: wait        │
                                       └─────────────────────┘

If the process ends in between, the lease ends by itself: an evaluation that was not stored is made again, and a message
that was sent but not deleted is sent again under the same id.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar
from uuid import UUID

from common.clickhouse.store import ColumnStore
from common.errors import ServiceError
from common.fair_share import Tenant, working_for
from common.ids import DEFAULT_USER_ID
from common.postgres.pool import Database
from common.settings import Settings
from common.telemetry import (
    ALERT_DELAY_SECONDS,
    ALERT_EVALUATIONS,
    ALERT_MESSAGES,
    ALERTS,
    get_logger,
)
from common.times import Clock
from query_api.delivery.alerts.evaluation import AlertEvaluation, evaluate
from query_api.delivery.alerts.messages import about_alert, change_of
from query_api.delivery.alerts.schemas import AlertDefinition
from query_api.delivery.alerts.selection import watched_spans
from query_api.delivery.alerts.store import AlertLeases, DueAlert, SendingAlert, message_id_of
from query_api.delivery.retrying import next_try, pause_reason
from query_api.delivery.schemas import State
from query_api.delivery.targets.opening import open_message_target
from query_api.delivery.targets.target import TargetRefused, TargetUnavailable
from query_api.filter.sql.compile import compile_node
from query_api.registry.kinds import QUERIES
from query_api.registry.store import Lineage, Owner
from query_api.request.context import KeyFinder
from query_api.spans.project_spans import ProjectSpans

EVALUATIONS_MAX: Final = 4
"""Evaluations at the same time in one process; a project has at most half."""

SENDERS_MAX: Final = 32
"""Alerts whose messages are sent at the same time in one process; a project has at most half."""

WAITING_MAX: Final = 1_000
"""Messages of one alert that wait. Past it the alert is not evaluated until some are delivered."""

MESSAGES_MAX: Final = 100
"""Messages that are read at once."""

TICK_S: Final = 0.5
"""How often due alerts are looked for; also when an evaluation or a delivery ends."""

MARGIN_S: Final = 15.0
"""How much longer than its work a lease lasts."""

COUNT_S: Final = 15.0

_log: Final = get_logger(__name__)


_Claimed = TypeVar("_Claimed", DueAlert, SendingAlert)
_Made_co = TypeVar("_Made_co", DueAlert, SendingAlert, covariant=True)


class _Claim(Protocol[_Made_co]):
    async def __call__(self, *, max_count: int, without: Sequence[UUID]) -> Sequence[_Made_co]: ...


@dataclass(frozen=True, slots=True)
class AlertTools:
    """What all alerts of a process share."""

    settings: Settings
    store: ColumnStore
    database: Database
    leases: AlertLeases
    keys: KeyFinder | None
    clock: Clock


def lease_s_of(settings: Settings) -> float:
    """Return how long a lease lasts: longer than an evaluation, and than sending a message."""
    return max(settings.query.budget_s + settings.query.queue_s, settings.delivery.timeout_s) + MARGIN_S


class _Workers:
    """Tasks that run at the same time, of which a project has at most half."""

    def __init__(self, max_count: int, wake: asyncio.Event) -> None:
        self._max_count = max_count
        self._wake = wake
        self._of_project: Counter[UUID] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()

    async def fill(self, claim: _Claim[_Claimed], work: Callable[[_Claimed], Awaitable[None]]) -> None:
        """Claim and start work, one by one, until nothing is due or everything is in use."""
        while len(self.tasks) < self._max_count:
            full = [project_id for project_id, count in self._of_project.items() if count >= self._max_count // 2]
            found = await claim(max_count=1, without=full)
            if not found:
                return
            self._start(found[0].project_id, work(found[0]))

    def _start(self, project_id: UUID, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_logged(work))
        self.tasks.add(task)
        self._of_project[project_id] += 1
        task.add_done_callback(lambda done: self._ended(done, project_id))

    def _ended(self, task: asyncio.Task[None], project_id: UUID) -> None:
        self.tasks.discard(task)
        self._wake.set()
        self._of_project[project_id] -= 1
        if not self._of_project[project_id]:
            del self._of_project[project_id]


async def _logged(work: Awaitable[None]) -> None:
    """One alert must not end the others; its lease ends by itself."""
    try:
        await work
    except ServiceError as exc:
        _log.warning("The work on an alert is given up; it begins again when its lease ends.", reason=exc.detail)
    except Exception:  # noqa: BLE001 - see above
        _log.exception("An alert failed unexpectedly.")


class Alerting:
    """Evaluates and sends the alerts of all projects that this process can claim, until it is cancelled."""

    def __init__(self, tools: AlertTools) -> None:
        self._tools = tools
        self._wake = asyncio.Event()
        self._evaluations = _Workers(EVALUATIONS_MAX, self._wake)
        self._senders = _Workers(SENDERS_MAX, self._wake)
        self._counted_s = float("-inf")

    async def run(self) -> None:
        """Claim what is due until cancelled."""
        try:
            while True:
                try:
                    await self._tick()
                except ServiceError as exc:
                    _log.warning("Alerts wait.", reason=exc.detail)
                except Exception:  # noqa: BLE001 - what delivers subscriptions must not end with it
                    _log.exception("Alerts failed unexpectedly.")
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            tasks = self._evaluations.tasks | self._senders.tasks
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(ServiceError):
                await self._tools.leases.release()

    async def _tick(self) -> None:
        leases = self._tools.leases
        await self._evaluations.fill(leases.claim_due, self._evaluate)
        await self._senders.fill(leases.claim_to_send, self._send_all)
        now_s = self._tools.clock.monotonic_s()
        if now_s - self._counted_s >= COUNT_S:
            counts = await leases.counts()
            for state in State:
                ALERTS.labels(state).set(counts.get(state, 0))
            self._counted_s = now_s

    async def _evaluate(self, alert: DueAlert) -> None:
        leases, at = self._tools.leases, self._now()
        ALERT_DELAY_SECONDS.observe(max((at - alert.next_at).total_seconds(), 0.0))
        if alert.waiting_count >= WAITING_MAX:
            await leases.fail(alert, reason=f"Not evaluated: {alert.waiting_count} messages wait to be delivered.")
            return
        definition = AlertDefinition.model_validate(alert.definition)
        try:
            seen = await self._seen(alert, definition, at)
        except ServiceError as exc:
            ALERT_EVALUATIONS.labels("failed").inc()
            await leases.fail(alert, reason=f"Not evaluated: {exc.public_message}")
            return
        about = about_alert(alert.id, alert.slug, definition, at=at)
        change = change_of(seen, await leases.breaches(alert), about=about, at=at)
        await leases.finish(alert, change, at=at, groups_count=len(seen.groups), left_out_count=seen.left_out_count)
        ALERT_EVALUATIONS.labels("evaluated").inc()

    async def _seen(self, alert: DueAlert, definition: AlertDefinition, at: datetime) -> AlertEvaluation:
        """Run the groups of the alert. Raises ``ServiceError``."""
        tools, query = self._tools, self._tools.settings.query
        tenant = await self._tenant(alert.project_id)
        lineage = Lineage(tools.database, QUERIES.kind, Owner(alert.project_id, DEFAULT_USER_ID))
        now_us = round(at.timestamp() * 1_000_000)
        with working_for(tenant):
            watched = await watched_spans(alert.selection, lineage)
            spans = ProjectSpans(
                tools.store,
                alert.project_id,
                clock=tools.clock,
                budget_s=query.budget_s,
                budget_rows=query.budget_rows,
                has_neighbors=tenant.has_neighbors,
            )
            matching = await compile_node(watched.filtering, now_us=now_us)
            return await evaluate(spans, definition, matching, now_us=now_us, rate_percent=watched.rate_percent)

    async def _tenant(self, project_id: UUID) -> Tenant:
        keys = self._tools.keys
        has_neighbors = keys is not None and await keys.has_neighbors(project_id)
        return Tenant(project_id, has_neighbors, queue_s=self._tools.settings.query.queue_s)

    async def _send_all(self, alert: SendingAlert) -> None:
        """Send the waiting messages of an alert in their order, until one fails."""
        with working_for(await self._tenant(alert.project_id)):
            await self._send_waiting(alert)

    async def _send_waiting(self, alert: SendingAlert) -> None:
        leases = self._tools.leases
        target = open_message_target(alert.target, alert.secrets, settings=self._tools.settings)
        outcome = "delivered"
        try:
            for message in await leases.messages(alert, max_count=MESSAGES_MAX):
                await target.send(
                    message_id_of(alert.id, message.number), message.kind, message.created_at, message.data
                )
                ALERT_MESSAGES.labels(alert.target["kind"], outcome).inc()
                if not await leases.sent(alert, message):
                    return
                alert = alert._replace(attempts=0, failing_since=None)
        except TargetUnavailable as exc:
            outcome = "unavailable"
            await self._retry_later(alert, exc)
        except TargetRefused as exc:
            outcome = "refused"
            _log.warning("An alert was paused.", alert=str(alert.id), reason=exc.reason)
            await leases.pause(alert, reason=exc.reason)
        finally:
            await target.close()
        if outcome == "delivered":
            await leases.end(alert)
        else:
            ALERT_MESSAGES.labels(alert.target["kind"], outcome).inc()

    async def _retry_later(self, alert: SendingAlert, failure: TargetUnavailable) -> None:
        """Record a failed try; pause if the message has been tried for long enough."""
        settings, now = self._tools.settings.delivery, self._now()
        attempts, since = alert.attempts + 1, alert.failing_since or now
        retry_at = next_try(attempts, since, now, retry_after_s=failure.retry_after_s, settings=settings)
        if retry_at is None:
            await self._tools.leases.pause(alert, reason=pause_reason(failure.reason, settings))
            return
        await self._tools.leases.retry_later(
            alert, attempts=attempts, since=since, retry_at=retry_at, reason=failure.reason
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._tools.clock.now_ns() / 1e9, UTC)
