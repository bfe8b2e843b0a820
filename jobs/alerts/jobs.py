"""Evaluates alerts when they are due and sends their messages: two jobs of ``clearspan deliver`` (ADR 0018).

::

    due → groups over the window → breaches, messages and the next time in one transaction
    messages → send the first → delete it ─┐
                       ↑ failed: wait      │
                       └───────────────────┘

If the process ends in between, an evaluation that was not stored is made again, and a message that was sent but not
deleted is sent again under the same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from common.errors import ServiceError
from common.fair_share import working_for
from common.telemetry import ALERT_DELAY_SECONDS, ALERT_EVALUATIONS, ALERT_MESSAGES
from jobs.alerts.evaluation import AlertEvaluation, change_of, evaluate
from jobs.alerts.store import DueAlert, LeasedAlerts, SendingAlert, message_id_of
from jobs.context import JobContext
from jobs.failures import Failing, pause, retry_or_pause
from jobs.runner import JobRun
from query_api.delivery.alerts.definitions import about_alert, watched_spans
from query_api.delivery.alerts.schemas import AlertDefinition
from query_api.delivery.targets.opening import open_message_target
from query_api.delivery.targets.target import TargetRefused, TargetUnavailable
from query_api.filter.sql.compile import compile_node
from query_api.spans.project_spans import ProjectSpans

EVALUATIONS_MAX: Final = 4
"""Evaluations at the same time in one process; a project has at most half."""

SENDERS_MAX: Final = 32
"""Alerts whose messages are sent at the same time in one process; a project has at most half."""

WAITING_MAX: Final = 1_000
"""Messages of one alert that wait. Past it the alert is not evaluated until some are delivered."""

MESSAGES_MAX: Final = 100
"""Messages that are read at once."""


@dataclass(frozen=True, slots=True)
class AlertJobs:
    """What all alerts of a process share."""

    context: JobContext
    alerts: LeasedAlerts

    async def evaluate(self, run: JobRun) -> datetime | None:
        """Evaluate an alert; return the time of the next evaluation. Raises ``LeaseLost``."""
        lease, at = run.lease, self.context.now()
        alert = await self.alerts.due(lease)
        if alert is None or lease.project_id is None:
            return None
        ALERT_DELAY_SECONDS.observe(max((at - alert.next_at).total_seconds(), 0.0))
        if alert.waiting_count >= WAITING_MAX:
            reason = f"Not evaluated: {alert.waiting_count} messages wait to be delivered."
            return await self.alerts.fail(lease, reason=reason)
        definition = AlertDefinition.model_validate(alert.definition)
        try:
            seen = await self._seen(lease.project_id, alert, definition, at)
        except ServiceError as exc:
            ALERT_EVALUATIONS.labels("failed").inc()
            return await self.alerts.fail(lease, reason=f"Not evaluated: {exc.public_message}")
        about = about_alert(lease.id, alert.slug, definition, at=at)
        change = change_of(seen, await self.alerts.breaches(lease), about=about, at=at)
        next_at = await self.alerts.finish(
            lease, change, at=at, groups_count=len(seen.groups), left_out_count=seen.left_out_count
        )
        ALERT_EVALUATIONS.labels("evaluated").inc()
        return next_at

    async def _seen(
        self, project_id: UUID, alert: DueAlert, definition: AlertDefinition, at: datetime
    ) -> AlertEvaluation:
        """Run the groups of the alert. Raises ``ServiceError``."""
        context = self.context
        tenant = await context.tenant(project_id)
        now_us = round(at.timestamp() * 1_000_000)
        with working_for(tenant):
            watched = await watched_spans(alert.selection, context.saved_queries(project_id))
            spans = ProjectSpans.of_query(
                context.store,
                project_id,
                context.settings.query,
                context.clock,
                has_neighbors=tenant.has_neighbors,
            )
            matching = await compile_node(watched.filtering, now_us=now_us)
            return await evaluate(spans, definition, matching, now_us=now_us, rate_percent=watched.rate_percent)

    async def send(self, run: JobRun) -> datetime | None:
        """Send the waiting messages of an alert in their order, until one fails; return the time of the next try.

        Raises ``LeaseLost``.
        """
        lease = run.lease
        alert = await self.alerts.sending(lease)
        if alert is None or lease.project_id is None:
            return None
        if alert.failing.retry_at is not None and alert.failing.retry_at > self.context.now():
            return alert.failing.retry_at  # a new message does not hurry the first one
        with working_for(await self.context.tenant(lease.project_id)):
            return await self._send_waiting(run, alert)

    async def _send_waiting(self, run: JobRun, alert: SendingAlert) -> datetime | None:
        context, lease, failing = self.context, run.lease, alert.failing
        target = open_message_target(alert.target, alert.secrets, settings=context.settings)
        try:
            while messages := await self.alerts.messages(lease, max_count=MESSAGES_MAX):
                for message in messages:
                    id_ = message_id_of(lease.id, message.number)
                    await target.send(id_, message.kind, message.created_at, message.data)
                    ALERT_MESSAGES.labels(alert.target["kind"], "delivered").inc()
                    await self.alerts.delete_message(lease, message)
                    failing = Failing()
        except TargetUnavailable as exc:
            ALERT_MESSAGES.labels(alert.target["kind"], "unavailable").inc()
            settings = context.settings.delivery
            later = await retry_or_pause(context.leases, lease, failing, exc, context.now(), settings=settings)
            return None if later is None else later.retry_at
        except TargetRefused as exc:
            ALERT_MESSAGES.labels(alert.target["kind"], "refused").inc()
            await pause(context.leases, lease, exc.reason)
        finally:
            await target.close()
        return None
