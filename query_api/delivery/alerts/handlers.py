"""The routes of alerts (contract §9). What subscriptions have, too, is in ``resources.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from pydantic import BaseModel

from common.codec.checks import json_double
from common.errors import Conflict, InvalidInput
from query_api.delivery.alerts import schemas
from query_api.delivery.alerts.definitions import (
    TEST,
    about_alert,
    check_alert_filter,
    check_definition,
    shown_definition,
)
from query_api.delivery.alerts.schemas import (
    AlertCreate,
    AlertDefinition,
    AlertEdit,
    AlertOut,
    Breach,
    Evaluated,
    Messages,
)
from query_api.delivery.alerts.store import (
    ALERTS,
    StoredAlert,
    StoredBreach,
    breaches_counts,
    breaches_of,
    drop_message,
)
from query_api.delivery.resources import Bodies, ResourceKind, routes_of, test_response
from query_api.delivery.schemas import State, TargetOut
from query_api.delivery.shown import last_error_of, state_of
from query_api.delivery.stored import DEFAULT, Values
from query_api.delivery.targets.opening import open_message_target, refuse_spans_only
from query_api.delivery.targets.target import MessageTarget
from query_api.filter.parse import FilteringModel
from query_api.queries.saved import spans_query_in
from query_api.request.route import Request, Response

BREACHES_MAX: Final = 100
"""Groups in breach that a response lists."""


def shown_alert(
    alert: StoredAlert, breaches: Sequence[StoredBreach], *, breaches_count: int, secret: str | None = None
) -> AlertOut:
    """Return what a response holds. ``secret`` is one that was made for the target just now."""
    is_paused = alert.status == State.PAUSED
    return AlertOut(
        id=alert.id,
        slug=alert.slug,
        name=alert.name,
        **alert.definition,
        **alert.selection,
        target=TargetOut(**alert.target, secret=secret),
        status=state_of(alert.status, alert.failing_since),
        reason=alert.reason,
        evaluated=None
        if alert.evaluated_at is None
        else Evaluated(at=alert.evaluated_at, groups=alert.groups_count, left_out=alert.left_out_count or None),
        next_at=None if is_paused else alert.next_at,
        breaches=[Breach(by=dict(each.by), value=json_double(each.value), since=each.since) for each in breaches],
        breaches_count=breaches_count,
        messages=Messages(
            delivered=alert.delivered_count,
            at=alert.delivered_at,
            waiting=alert.waiting_count,
            attempts=alert.attempts,
            retry_at=alert.retry_at,
        ),
        last_error=last_error_of(alert.last_error, alert.last_error_at),
        created_at=alert.created_at,
        created_by_id=alert.created_by,
        updated_at=alert.updated_at,
        updated_by_id=alert.updated_by,
    )


async def skip_message(request: Request) -> Response:
    """Drop the first message that waits to be delivered. The alert stays paused if it is."""
    found = await RESOURCE.named(request)
    changed = await drop_message(RESOURCE.rows(request), found.id)
    if changed is None:
        raise Conflict(f"The alert '{found.slug}' has no message that could be skipped.")
    return await RESOURCE.response(request, changed)


async def test_alert(request: Request) -> Response:
    """Send a message of the type `alert.test` to the target; the state of the alert does not change."""
    found = await RESOURCE.named(request)
    context = request.context
    target = _open_target(request, found, await RESOURCE.rows(request).secrets(found.id))
    now = datetime.fromtimestamp(context.clock.now_ns() / 1e9, UTC)
    about = about_alert(found.id, found.slug, AlertDefinition.model_validate(found.definition), at=now)
    message_id = f"test_{uuid4().hex}"
    data = {**about, "by": {}, "value": None}
    return await test_response(context, target, message_id, lambda: target.send(message_id, TEST, now, data))


def _open_target(request: Request, found: StoredAlert, secrets: Mapping[str, Any]) -> MessageTarget:
    return open_message_target(found.target, secrets, settings=request.context.settings)


async def _defined(request: Request, sent: AlertCreate | AlertEdit, found: StoredAlert | None) -> Values:
    """Return the columns of a definition. An edited alert is evaluated at once; groups stay in breach until then."""
    members = _sent_definition(sent)
    if found is not None:
        members = {**found.definition, **members}
        if (sent.above is None) != (sent.below is None):
            members.pop("below" if sent.above is not None else "above", None)
    definition = _checked(request, members)
    values = {"definition": shown_definition(definition), "every_s": definition.every_s}
    return values if found is None else {**values, "next_at": DEFAULT}


def _sent_definition(sent: AlertCreate | AlertEdit) -> dict[str, Any]:
    names = {"measure", "above", "below", "window", "every", "group_by"}
    return sent.model_dump(mode="json", by_alias=True, exclude_none=True, include=names)


def _checked(request: Request, members: Mapping[str, Any]) -> AlertDefinition:
    definition = AlertDefinition.model_validate(members)
    check_definition(definition)
    every_min_s = request.context.settings.delivery.alert_every_min_s
    if definition.every_s < every_min_s:
        raise InvalidInput(
            f"alert.every: '{definition.every}' is shorter than {every_min_s} s, which the setting"
            " CLEARSPAN_DELIVERY__ALERT_EVERY_MIN_S allows."
        )
    return definition


async def _check_filter(request: Request, filtering: FilteringModel) -> None:
    await check_alert_filter(filtering, now_us=request.context.clock.now_ns() // 1_000)


async def _shown(request: Request, found: StoredAlert, secret: str | None) -> BaseModel:
    rows = RESOURCE.rows(request)
    breaches = await breaches_of(rows, found.id, max_count=BREACHES_MAX)
    count = len(breaches)
    if count == BREACHES_MAX:
        count = (await breaches_counts(rows)).get(found.id, count)
    return shown_alert(found, breaches, breaches_count=count, secret=secret)


async def _all_shown(request: Request, all_: list[StoredAlert], wanted: schemas.AlertFilter | None) -> list[BaseModel]:
    rows, wanted = RESOURCE.rows(request), wanted or schemas.AlertFilter()
    counts = await breaches_counts(rows)
    shown: list[BaseModel] = []
    for each in all_:
        count = counts.get(each.id, 0)
        if (
            wanted.slug in (None, each.slug)
            and wanted.status in (None, state_of(each.status, each.failing_since))
            and wanted.breaching in (None, count > 0)
        ):
            breaches = await breaches_of(rows, each.id, max_count=BREACHES_MAX) if count else []
            shown.append(shown_alert(each, breaches, breaches_count=count))
    return shown


RESOURCE: Final = ResourceKind(
    "alert",
    "an alert",
    ALERTS,
    Bodies(schemas.CreateAlert, schemas.QueryAlerts, schemas.EditAlert, schemas.AlertResponse, schemas.AlertsResponse),
    max_count=lambda settings: settings.delivery.alerts_max,
    define=_defined,
    on_move={},
    check_target=lambda target: refuse_spans_only(target, at="alert.target"),
    check_filter=_check_filter,
    check_revision=spans_query_in,
    open_target=_open_target,
    show=_shown,
    show_all=_all_shown,
)

_TEXTS: Final = {
    "create": "Create an alert. It is evaluated at once; a target that cannot be reached now is a warning.",
    "query": "Return the alerts that match, oldest first.",
    "get": "Return an alert with its state.",
    "edit": (
        "Change the given members of an alert. Groups that are in breach stay so until the next evaluation, at once."
    ),
    "delete": "Delete an alert with its messages; nothing is sent about groups that are in breach.",
    "pause": "Pause an alert: it is not evaluated, and sends nothing.",
    "resume": "Resume an alert; one that is retrying tries at once.",
}

ALERT_ROUTES: Final = routes_of(
    RESOURCE,
    _TEXTS,
    skip=skip_message,
    skipped="the first message that waits",
    test=test_alert,
    sends="a test message",
)
