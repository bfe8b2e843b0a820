"""The routes of subscriptions: create, query, get, edit and delete, and control one that delivers (contract §9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from common.errors import Conflict, InvalidCursor
from common.postgres.pool import UniqueViolation
from query_api.delivery.positions import read_position
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
from query_api.delivery.schemas import (
    CreateSubscription,
    EditSubscription,
    QuerySubscriptions,
    ReplaySubscription,
    SubscriptionCreate,
    SubscriptionEdit,
    SubscriptionFilter,
    SubscriptionResponse,
    SubscriptionsResponse,
)
from query_api.delivery.selection import check_filter, selection_of_revision
from query_api.delivery.shown import shown, skipped_with, state_of
from query_api.delivery.store import EditedSubscription, NewSubscription, Subscription, Subscriptions
from query_api.delivery.targets.opening import open_target, unreachable_warning
from query_api.freshness.follow import look_up_stored
from query_api.pages.arrivals import Positions
from query_api.pages.feed import first_positions
from query_api.request.context import database_of
from query_api.request.errors import SlugTaken
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response
from query_api.spans.project_spans import project_spans
from query_api.spans.windowing import BEGINNING, NOW, beginning_us

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOUN: Final = "subscription"


async def create_subscription(request: Request) -> Response:
    """Create a subscription. It begins at once; a target that cannot be reached now is a warning."""
    body: CreateSubscription = request.body
    sent = body.subscription
    refuse_id_as_slug(sent.slug, _NOUN)
    selection = await _selection(request, sent)
    target = await target_to_store(request, _NOUN, sent.target)
    positions, through_at = await _beginning(request, sent.from_ or NOW, at="subscription.from")
    new = NewSubscription(sent.slug, sent.name, selection, target.members, target.secrets, positions.pack(), through_at)
    max_count = request.context.settings.delivery.subscriptions_max
    try:
        created = await _store(request).create(new, max_count=max_count)
    except UniqueViolation as violation:
        raise SlugTaken(sent.slug) from violation
    return await _one(request, created, secret=target.made, warning=await _warning(request, created))


async def query_subscriptions(request: Request) -> Response:
    """Return the subscriptions that match, oldest first."""
    body: QuerySubscriptions = request.body
    wanted = body.subscription or SubscriptionFilter()
    await look_up_stored(request.context, request.project_id)
    now = _now(request)
    found = [shown(request, each, now=now) for each in await _store(request).all() if _is_wanted(each, wanted)]
    return json_response(SubscriptionsResponse(count=len(found), subscriptions=found))


async def get_subscription(request: Request) -> Response:
    """Return a subscription with its state."""
    return await _one(request, await named_subscription(request))


async def edit_subscription(request: Request) -> Response:
    """Change the given members of a subscription. Its position stays; what it delivers may change from there."""
    body: EditSubscription = request.body
    sent, found = body.subscription, await named_subscription(request)
    refuse_other_id(found.id, sent.id)
    store = _store(request)
    selection = await _selection(request, sent) if sent.selecting() else found.selection
    target = before = StoredTarget(found.target, await store.secrets(found.id))
    if sent.target is not None:
        target = await target_to_store(request, _NOUN, sent.target, before=before)
    name = sent.name if "name" in sent.model_fields_set else found.name
    edited = EditedSubscription(name, selection, target.members, target.secrets)
    gives_up = selection != found.selection or target._replace(made=None) != before
    changed = await store.edit(found.id, edited, gives_up_batch=gives_up)
    warning = await _warning(request, changed) if changed is not None and sent.target is not None else None
    return await _one(request, _existing(request, changed), secret=target.made, warning=warning)


async def delete_subscription(request: Request) -> Response:
    """Delete a subscription. A batch that is under way may still arrive."""
    found = await named_subscription(request)
    return await _one(request, _existing(request, await _store(request).delete(found.id)))


async def pause_subscription(request: Request) -> Response:
    """Pause a subscription: it keeps its position."""
    found = await named_subscription(request)
    return await _one(request, _existing(request, await _store(request).pause(found.id, reason=PAUSED_BY_USER)))


async def resume_subscription(request: Request) -> Response:
    """Resume a subscription where it was, with the batch that was under way; one that is retrying tries at once."""
    found = await named_subscription(request)
    return await _one(request, _existing(request, await _store(request).resume(found.id)))


async def replay_subscription(request: Request) -> Response:
    """Deliver again from a time or a position. Batches that are delivered again have new ids."""
    body: ReplaySubscription = request.body
    found = await named_subscription(request)
    positions, through_at = await _beginning(request, body.from_, at="from")
    changed = await _store(request).replay(found.id, position=positions.pack(), through_at=through_at)
    return await _one(request, _existing(request, changed))


async def skip_batch(request: Request) -> Response:
    """Pass the batch that is under way without its delivery, and record it. The subscription stays paused if it is."""
    found = await named_subscription(request)
    changed = None
    if found.pending is not None:
        skipped = skipped_with(found, now=_now(request))
        changed = await _store(request).skip(found.id, skipped=skipped, batch_number=found.batch_number)
    if changed is None:
        raise Conflict(f"The subscription '{found.slug}' has no batch under way that could be skipped.")
    return await _one(request, changed)


async def _one(
    request: Request, found: Subscription, *, secret: str | None = None, warning: str | None = None
) -> Response:
    await look_up_stored(request.context, request.project_id)
    subscription = shown(request, found, now=_now(request), secret=secret)
    return json_response(SubscriptionResponse(count=1, subscription=subscription, warning=warning))


async def named_subscription(request: Request) -> Subscription:
    """Return the subscription that the path names. Raises ``NotFound``."""
    return await find_named(request, _NOUN, _store(request).find)


def _existing(request: Request, found: Subscription | None) -> Subscription:
    return existing(request, _NOUN, found)


def _store(request: Request) -> Subscriptions:
    return Subscriptions(database_of(request.context), request.project_id, request.user_id)


def _now(request: Request) -> datetime:
    return _time(request.context.clock.now_ns() // 1_000)


def _time(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


async def _selection(request: Request, sent: SubscriptionCreate | SubscriptionEdit) -> Mapping[str, Any]:
    return await selection_to_store(
        request, _NOUN, sent, check_filter=check_filter, check_revision=selection_of_revision
    )


async def _beginning(request: Request, text: str, *, at: str) -> tuple[Positions, datetime]:
    """Return where a text says that delivery begins, and a time before which nothing is left to deliver."""
    context = request.context
    now_us = context.clock.now_ns() // 1_000
    await look_up_stored(context, request.project_id)
    if text == BEGINNING:
        return Positions(), _time(now_us)
    if text != NOW:
        try:
            begins_us = beginning_us(text, now_us=now_us)
        except (ValueError, OverflowError):
            return read_position(text, request.project_id, secret=context.cursor_secret, at=at), _time(now_us)
        if not 0 <= begins_us <= now_us:
            raise InvalidCursor(f"{at}: '{text}' is not between 1970 and now; allowed are times in between.")
        through_us = begins_us
    else:
        through_us = now_us
    positions = await first_positions(request, project_spans(request), text, now_us=now_us)
    return positions, _time(through_us)


async def _warning(request: Request, found: Subscription | None) -> str | None:
    """Return why a target cannot be reached now."""
    if found is None:
        return None
    secrets = await _store(request).secrets(found.id)
    settings = request.context.settings
    return await unreachable_warning(
        open_target(found.target, secrets, settings=settings, project_id=request.project_id)
    )


def _is_wanted(found: Subscription, wanted: SubscriptionFilter) -> bool:
    return (
        wanted.slug in (None, found.slug)
        and wanted.status in (None, state_of(found.status, found.failing_since))
        and wanted.kind in (None, found.target["kind"])
    )
