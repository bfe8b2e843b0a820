"""The routes of alerts: create, query, get, edit, delete, and what a user does while one runs (contract §9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from common.errors import Conflict, InvalidInput
from common.postgres.pool import UniqueViolation
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
    AlertFilter,
    AlertResponse,
    AlertsResponse,
    CreateAlert,
    EditAlert,
    QueryAlerts,
)
from query_api.delivery.alerts.shown import BREACHES_MAX, shown_alert
from query_api.delivery.alerts.store import Alerts, AlertValues, StoredAlert
from query_api.delivery.requests import (
    PAUSED_BY_USER,
    StoredTarget,
    existing,
    find_named,
    refuse_id_as_slug,
    refuse_other_id,
    selection_to_store,
    target_to_store,
)
from query_api.delivery.shown import state_of
from query_api.delivery.targets.opening import open_message_target, refuse_spans_only, unreachable_warning
from query_api.delivery.testing import test_response
from query_api.filter.parse import FilteringModel
from query_api.request.context import database_of
from query_api.request.errors import SlugTaken
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response
from query_api.saved.queries import spans_query_in

_NOUN: Final = "alert"
_TARGET_AT: Final = "alert.target"


async def create_alert(request: Request) -> Response:
    """Create an alert. It is evaluated at once; a target that cannot be reached now is a warning."""
    body: CreateAlert = request.body
    sent = body.alert
    refuse_id_as_slug(sent.slug, _NOUN)
    definition = _checked(request, _sent_definition(sent))
    selection = await _selection(request, sent)
    refuse_spans_only(sent.target, at=_TARGET_AT)
    target = await target_to_store(request, _NOUN, sent.target)
    values = AlertValues(
        sent.name, shown_definition(definition), definition.every_s, selection, target.members, target.secrets
    )
    try:
        created = await _store(request).create(
            sent.slug, values, max_count=request.context.settings.delivery.alerts_max
        )
    except UniqueViolation as violation:
        raise SlugTaken(sent.slug) from violation
    return await _one(request, created, secret=target.made, warning=await _warning(request, created))


async def query_alerts(request: Request) -> Response:
    """Return the alerts that match, oldest first."""
    body: QueryAlerts = request.body
    wanted = body.alert or AlertFilter()
    store = _store(request)
    counts = await store.breaches_counts()
    found = []
    for each in await store.all():
        count = counts.get(each.id, 0)
        if _is_wanted(each, wanted, breaches_count=count):
            breaches = await store.breaches(each.id, max_count=BREACHES_MAX) if count else []
            found.append(shown_alert(each, breaches, breaches_count=count))
    return json_response(AlertsResponse(count=len(found), alerts=found))


async def get_alert(request: Request) -> Response:
    """Return an alert with its state."""
    return await _one(request, await _named(request))


async def edit_alert(request: Request) -> Response:
    """Change the given members of an alert. Groups that are in breach stay so until the next evaluation, at once."""
    body: EditAlert = request.body
    sent, found = body.alert, await _named(request)
    refuse_other_id(found.id, sent.id)
    store = _store(request)
    merged = {**found.definition, **_sent_definition(sent)}
    if (sent.above is None) != (sent.below is None):
        merged.pop("below" if sent.above is not None else "above", None)
    definition = _checked(request, merged)
    selection = await _selection(request, sent) if sent.selecting() else found.selection
    target = StoredTarget(found.target, await store.secrets(found.id))
    if sent.target is not None:
        refuse_spans_only(sent.target, at=_TARGET_AT)
        target = await target_to_store(request, _NOUN, sent.target, before=target)
    name = sent.name if "name" in sent.model_fields_set else found.name
    values = AlertValues(
        name, shown_definition(definition), definition.every_s, selection, target.members, target.secrets
    )
    changed = _existing(request, await store.edit(found.id, values))
    warning = await _warning(request, changed) if sent.target is not None else None
    return await _one(request, changed, secret=target.made, warning=warning)


async def delete_alert(request: Request) -> Response:
    """Delete an alert with its messages; nothing is sent about groups that are in breach."""
    found = await _named(request)
    shown = await _shown(request, found)
    _existing(request, await _store(request).delete(found.id))
    return json_response(AlertResponse(count=1, alert=shown))


async def pause_alert(request: Request) -> Response:
    """Pause an alert: it is not evaluated, and sends nothing."""
    found = await _named(request)
    return await _one(request, _existing(request, await _store(request).pause(found.id, reason=PAUSED_BY_USER)))


async def resume_alert(request: Request) -> Response:
    """Resume an alert; one that is retrying tries at once."""
    found = await _named(request)
    return await _one(request, _existing(request, await _store(request).resume(found.id)))


async def skip_message(request: Request) -> Response:
    """Drop the first message that waits to be delivered. The alert stays paused if it is."""
    found = await _named(request)
    changed = await _store(request).skip(found.id)
    if changed is None:
        raise Conflict(f"The alert '{found.slug}' has no message that could be skipped.")
    return await _one(request, changed)


async def test_alert(request: Request) -> Response:
    """Send a message of the type `alert.test` to the target; the state of the alert does not change."""
    found = await _named(request)
    context = request.context
    secrets = await _store(request).secrets(found.id)
    now = datetime.fromtimestamp(context.clock.now_ns() / 1e9, UTC)
    about = about_alert(found.id, found.slug, AlertDefinition.model_validate(found.definition), at=now)
    message_id = f"test_{uuid4().hex}"
    target = open_message_target(found.target, secrets, settings=context.settings)
    data = {**about, "by": {}, "value": None}
    return await test_response(context, target, message_id, lambda: target.send(message_id, TEST, now, data))


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


async def _selection(request: Request, sent: AlertCreate | AlertEdit) -> Mapping[str, Any]:
    async def check(filtering: FilteringModel) -> None:
        await check_alert_filter(filtering, now_us=request.context.clock.now_ns() // 1_000)

    return await selection_to_store(request, _NOUN, sent, check_filter=check, check_revision=spans_query_in)


async def _one(
    request: Request, found: StoredAlert, *, secret: str | None = None, warning: str | None = None
) -> Response:
    shown = await _shown(request, found, secret=secret)
    return json_response(AlertResponse(count=1, alert=shown, warning=warning))


async def _shown(request: Request, found: StoredAlert, *, secret: str | None = None) -> Any:
    store = _store(request)
    breaches = await store.breaches(found.id, max_count=BREACHES_MAX)
    count = len(breaches)
    if count == BREACHES_MAX:
        count = (await store.breaches_counts()).get(found.id, count)
    return shown_alert(found, breaches, breaches_count=count, secret=secret)


async def _warning(request: Request, found: StoredAlert) -> str | None:
    secrets = await _store(request).secrets(found.id)
    target = open_message_target(found.target, secrets, settings=request.context.settings)
    return await unreachable_warning(target)


async def _named(request: Request) -> StoredAlert:
    """Return the alert that the path names. Raises ``NotFound``."""
    return await find_named(request, _NOUN, _store(request).find)


def _existing(request: Request, found: StoredAlert | None) -> StoredAlert:
    return existing(request, _NOUN, found)


def _store(request: Request) -> Alerts:
    return Alerts(database_of(request.context), request.project_id, request.user_id)


def _is_wanted(found: StoredAlert, wanted: AlertFilter, *, breaches_count: int) -> bool:
    return (
        wanted.slug in (None, found.slug)
        and wanted.status in (None, state_of(found.status, found.failing_since))
        and wanted.breaching in (None, breaches_count > 0)
    )
