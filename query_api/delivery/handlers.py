"""The routes of subscriptions (contract §9). What alerts have, too, is in ``resources.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from pydantic import BaseModel

from common.errors import Conflict, InvalidCursor
from query_api.delivery import schemas
from query_api.delivery.resources import Bodies, ResourceKind, routes_of, test_response, test_span
from query_api.delivery.selection import check_filter, selection_of_revision
from query_api.delivery.shown import FeedPosition, read_position, shown, skipped_with, state_of
from query_api.delivery.stored import NO_BATCH, PASSED_BATCH, SUBSCRIPTIONS, Subscription, Values
from query_api.delivery.targets.opening import open_target
from query_api.delivery.targets.target import DeliveryBatch, Target
from query_api.filter.parse import FilteringModel
from query_api.freshness.follow import look_up_stored
from query_api.freshness.settled import read_settled_run
from query_api.pages.arrivals import Positions
from query_api.pages.feed import first_positions
from query_api.pages.settled_feed import FIRST, first_position, last_settled_run
from query_api.request.context import database_of
from query_api.request.route import Request, Response, Route
from query_api.spans.project_spans import project_spans
from query_api.spans.windowing import BEGINNING, NOW, beginning_us

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def replay_subscription(request: Request) -> Response:
    """Deliver again from a time or a position. Batches that are delivered again have new ids."""
    body: schemas.ReplaySubscription = request.body
    found = await RESOURCE.named(request)
    beginning = await _beginning(request, found.feed, body.from_, at="from")
    changed = await RESOURCE.rows(request).change(found.id, {**beginning, **NO_BATCH})
    return await RESOURCE.response(request, RESOURCE.existing(request, changed))


async def skip_batch(request: Request) -> Response:
    """Pass the batch that is under way without its delivery, and record it. The subscription stays paused if it is."""
    found = await RESOURCE.named(request)
    changed = None
    if found.pending is not None:
        values = {**PASSED_BATCH, "skipped": skipped_with(found, now=_now(request))}
        is_same = f"pending IS NOT NULL AND batch_number = {found.batch_number}"
        changed = await RESOURCE.rows(request).change(found.id, values, condition=is_same)
    if changed is None:
        raise Conflict(f"The subscription '{found.slug}' has no batch under way that could be skipped.")
    return await RESOURCE.response(request, changed)


async def test_subscription(request: Request) -> Response:
    """Send one made-up span to the target, whose name is `clearspan.test`."""
    found = await RESOURCE.named(request)
    context = request.context
    target = _open_target(request, found, await RESOURCE.rows(request).secrets(found.id))
    now_us = context.clock.now_ns() // 1_000
    batch = DeliveryBatch(f"test_{uuid4().hex}", found.slug, datetime.now(UTC), [test_span(now_us)])
    return await test_response(context, target, batch.id, lambda: target.deliver(batch))


def _open_target(request: Request, found: Subscription, secrets: Mapping[str, Any]) -> Target:
    return open_target(found.target, secrets, settings=request.context.settings, project_id=request.project_id)


async def _defined(request: Request, sent: Any, found: Subscription | None) -> Values:
    """Return where a new subscription begins."""
    if found is not None:
        return {}
    return {"feed": str(sent.on), **await _beginning(request, sent.on, sent.from_ or NOW, at="subscription.from")}


async def _check_filter(_request: Request, filtering: FilteringModel) -> None:
    await check_filter(filtering)


async def _shown(request: Request, found: Subscription, secret: str | None) -> BaseModel:
    await look_up_stored(request.context, request.project_id)
    last_settled = await _last_settled(request, [found])
    return shown(request, found, now=_now(request), last_settled=last_settled, secret=secret)


async def _all_shown(
    request: Request, all_: list[Subscription], wanted: schemas.SubscriptionFilter | None
) -> list[BaseModel]:
    await look_up_stored(request.context, request.project_id)
    last_settled = await _last_settled(request, all_)
    now, wanted = _now(request), wanted or schemas.SubscriptionFilter()
    return [
        shown(request, each, now=now, last_settled=last_settled)
        for each in all_
        if wanted.slug in (None, each.slug)
        and wanted.status in (None, state_of(each.status, each.failing_since))
        and wanted.kind in (None, each.target["kind"])
    ]


async def _last_settled(request: Request, subscriptions: Sequence[Subscription]) -> int:
    """Return the last run in which a trace of the project settled; 0 if no subscription is about settled traces."""
    if all(each.feed == schemas.FeedKind.SPANS for each in subscriptions):
        return 0
    through = await read_settled_run(database_of(request.context))
    return await last_settled_run(project_spans(request), through=through)


def _now(request: Request) -> datetime:
    return _time(request.context.clock.now_ns() // 1_000)


def _time(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


async def _beginning(request: Request, feed: str, text: str, *, at: str) -> Values:
    """Return where a text says that delivery begins, and a time before which nothing is left to deliver."""
    context = request.context
    now_us = context.clock.now_ns() // 1_000
    await look_up_stored(context, request.project_id)
    if text == BEGINNING:
        first: FeedPosition = FIRST if feed == schemas.FeedKind.SETTLED_TRACES else Positions()
        return {"position": first.pack(), "through_at": _time(now_us)}
    if text != NOW:
        try:
            begins_us = beginning_us(text, now_us=now_us)
        except (ValueError, OverflowError):
            positions = read_position(text, request.project_id, feed, secret=context.cursor_secret, at=at)
            return {"position": positions.pack(), "through_at": _time(now_us)}
        if not 0 <= begins_us <= now_us:
            raise InvalidCursor(f"{at}: '{text}' is not between 1970 and now; allowed are times in between.")
        through_us = begins_us
    else:
        through_us = now_us
    position = await _first_position(request, feed, text, now_us=now_us)
    return {"position": position.pack(), "through_at": _time(through_us)}


async def _first_position(request: Request, feed: str, text: str, *, now_us: int) -> FeedPosition:
    spans = project_spans(request)
    if feed == schemas.FeedKind.SPANS:
        return await first_positions(request, spans, text, now_us=now_us)
    return await first_position(
        spans, text, through=await read_settled_run(database_of(request.context)), now_us=now_us
    )


RESOURCE: Final = ResourceKind(
    "subscription",
    "a subscription",
    SUBSCRIPTIONS,
    Bodies(
        schemas.CreateSubscription,
        schemas.QuerySubscriptions,
        schemas.EditSubscription,
        schemas.SubscriptionResponse,
        schemas.SubscriptionsResponse,
    ),
    max_count=lambda settings: settings.delivery.subscriptions_max,
    define=_defined,
    on_move=NO_BATCH,
    check_target=lambda _: None,
    check_filter=_check_filter,
    check_revision=selection_of_revision,
    open_target=_open_target,
    show=_shown,
    show_all=_all_shown,
)

_TEXTS: Final = {
    "create": "Create a subscription. It begins at once; a target that cannot be reached now is a warning.",
    "query": "Return the subscriptions that match, oldest first.",
    "get": "Return a subscription with its state.",
    "edit": "Change the given members of a subscription. Its position stays; what it delivers may change from there.",
    "delete": "Delete a subscription. A batch that is under way may still arrive.",
    "pause": "Pause a subscription: it keeps its position.",
    "resume": (
        "Resume a subscription where it was, with the batch that was under way; one that is retrying tries at once."
    ),
}

SUBSCRIPTION_ROUTES: Final = (
    *routes_of(
        RESOURCE,
        _TEXTS,
        skip=skip_batch,
        skipped="the batch that is being delivered",
        test=test_subscription,
        sends="a test span",
    ),
    Route(
        "POST",
        "/subscriptions/{subscription_id}/replay",
        replay_subscription,
        "Deliver again from a time or a position.",
        "Subscriptions",
        schemas.SubscriptionResponse,
        body=schemas.ReplaySubscription,
        body_required=True,
    ),
)
