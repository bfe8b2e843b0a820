"""Subscriptions deliver to a real HTTP receiver: each matching span, in order, again after failures, and no other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from tests.support.delivery import PARTITION, Deliveries, deliveries, delivery_settings, receiving

OTHER = "cluster/spans/1"
ERRORS: dict[str, Any] = {"filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]}}
ERROR: dict[str, Any] = {"status_code": 2}


@pytest.fixture
async def api(shared_store: ColumnStore, shared_database: Database) -> AsyncIterator[Deliveries]:
    async with deliveries(shared_store, shared_database, delivery_settings(batch_spans_max=3)) as api:
        yield api


async def test_every_stored_span_arrives_once_and_in_order(api: Deliveries):
    await api.store([1, 2])
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver, **{"from": "beginning"})
        await receiver.until(2)
        await api.store([3, 4, 5, 6, 7])
        await receiver.until(7)
        state = await api.until(lambda state: state["delivered"]["spans"] == 7)

    assert receiver.span_ids == [1, 2, 3, 4, 5, 6, 7]
    assert state["status"] == "active"
    assert state["lag_s"] == 0
    assert len({message.id for message in receiver.messages}) == len(receiver.messages)
    assert receiver.messages[0].body["type"] == "spans"
    assert receiver.messages[0].body["data"]["subscription"] == "hook"


async def test_delivered_span_is_the_object_that_a_query_returns(api: Deliveries):
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver)
        await api.store([1])
        await receiver.until(1)
    found = await api.call("POST", "/spans/query", {})

    assert receiver.messages[0].body["data"]["spans"] == found["spans"]


async def test_subscription_begins_now_unless_it_says_otherwise(api: Deliveries):
    await api.store([1])
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver)
        await api.store([2])
        await receiver.until(1)

    assert receiver.span_ids == [2]


async def test_only_spans_that_match_arrive_and_late_and_updated_ones_do(api: Deliveries):
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver, **ERRORS)
        await api.store([1, 2])
        await api.store([3], **ERROR)
        await receiver.until(1)
        await api.store([1], partition_id=PARTITION, **ERROR)  # an update that matches now
        await api.store([4], partition_id=OTHER, **ERROR)
        await receiver.until(3)

    assert sorted(receiver.span_ids) == [1, 3, 4]


async def test_another_project_is_not_delivered(api: Deliveries):
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver, **{"from": "beginning"})
        await api.store([1], partition_id=OTHER, project_id=UUID(int=77))
        await api.store([2])
        await receiver.until(1)

    assert receiver.span_ids == [2]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_batch_is_retried_under_the_same_id_until_it_is_accepted(api: Deliveries, status: int):
    async with receiving() as receiver, api.delivering():
        receiver.keeps_refused = True
        receiver.respond = lambda number: web.Response(status=status if number < 2 else 200)
        await api.webhook(receiver)
        await api.store([1, 2])
        await receiver.until(2)
        state = await api.until(lambda state: state["delivered"]["spans"] == 2)

    assert [message.span_ids for message in receiver.messages] == [[1, 2]] * 3
    assert len({message.id for message in receiver.messages}) == 1
    assert state["status"] == "active"
    assert str(status) in state["last_error"]["reason"]


@pytest.mark.parametrize("status", [301, 400, 404, 410])
async def test_refusal_pauses_at_once_and_skip_passes_the_batch(api: Deliveries, status: int):
    async with receiving() as receiver, api.delivering():
        receiver.respond = lambda number: web.Response(
            status=status if number == 0 else 200, headers={"Location": receiver.url}
        )
        await api.webhook(receiver)
        await api.store([1])
        state = await api.until(lambda state: state["status"] == "paused")
        assert str(status) in state["reason"]
        assert state["pending"]["spans"] == 1
        skipped = (await api.call("POST", "/subscriptions/hook/skip"))["subscription"]
        await api.call("POST", "/subscriptions/hook/resume")
        await api.store([2])
        await receiver.until(1)

    assert receiver.span_ids == [2]
    assert receiver.requests_count == 2
    assert skipped["skipped"] == [{**skipped["skipped"][0], "spans": 1, "batch_id": state["pending"]["batch_id"]}]


async def test_resumed_subscription_delivers_the_refused_batch_again_under_its_id(api: Deliveries):
    async with receiving() as receiver, api.delivering():
        receiver.keeps_refused = True
        receiver.respond = lambda number: web.Response(status=403 if number == 0 else 200)
        await api.webhook(receiver)
        await api.store([1])
        await api.until(lambda state: state["status"] == "paused")
        await api.store([2])
        await api.call("POST", "/subscriptions/hook/resume")
        await receiver.until(2)

    assert [message.span_ids for message in receiver.messages] == [[1], [1], [2]]
    first, again, other = (message.id for message in receiver.messages)
    assert first == again != other


async def test_retry_after_is_honored(api: Deliveries):
    times: list[float] = []

    def respond(number: int) -> web.Response:
        times.append(time.monotonic())
        return web.Response(status=200 if number else 429, headers={} if number else {"Retry-After": "1"})

    async with receiving() as receiver, api.delivering():
        receiver.respond = respond
        await api.webhook(receiver)
        await api.store([1])
        await receiver.until(1)

    assert times[1] - times[0] >= 1


async def test_receiver_that_is_down_gets_everything_when_it_is_back(api: Deliveries):
    async with receiving() as receiver:
        port = receiver.port
    async with api.delivering():
        await api.webhook(receiver)
        await api.store([1, 2, 3, 4])
        state = await api.until(lambda state: state["status"] == "retrying")
        assert "cannot be reached" in state["last_error"]["reason"]
        await api.store([5])
        async with receiving(port, receiver):
            await receiver.until(5)

    assert receiver.span_ids == [1, 2, 3, 4, 5]


async def test_batch_is_given_up_after_the_time_for_retries(shared_store: ColumnStore, shared_database: Database):
    async with (
        deliveries(shared_store, shared_database, delivery_settings(retry_for_s=0.3)) as api,
        receiving() as receiver,
    ):
        receiver.respond = lambda _: web.Response(status=500)
        async with api.delivering():
            await api.webhook(receiver)
            await api.store([1])
            state = await api.until(lambda state: state["status"] == "paused")

    assert "answered 500" in state["reason"]


async def test_slow_receiver_does_not_delay_another_one(shared_store: ColumnStore, shared_database: Database):
    release = asyncio.Event()

    async def never(_: int) -> web.Response:
        await release.wait()
        return web.Response()

    async with (
        deliveries(shared_store, shared_database, delivery_settings(timeout_s=0.5)) as api,
        receiving() as slow,
        receiving() as quick,
        api.delivering(),
    ):
        slow.respond = never
        await api.webhook(slow, slug="slow")
        await api.webhook(quick, slug="quick")
        await api.store([1])
        await quick.until(1)
        state = await api.until(lambda state: state["status"] == "retrying", slug="slow")
        release.set()

    assert "did not answer within 0.5 s" in state["last_error"]["reason"]


async def test_paused_subscription_gets_nothing_and_continues_where_it_was(api: Deliveries):
    async with receiving() as receiver, receiving() as other, api.delivering():
        await api.webhook(receiver)
        await api.call("POST", "/subscriptions/hook/pause")
        await api.webhook(other, slug="other")
        await api.store([1])
        await other.until(1)
        assert receiver.span_ids == []
        await api.call("POST", "/subscriptions/hook/resume")
        await receiver.until(1)


async def test_subscription_that_is_changed_during_a_delivery_logs_no_error(api: Deliveries):
    release = asyncio.Event()

    async def respond(_: int) -> web.Response:
        await release.wait()
        return web.Response()

    with capture_logs() as logs:
        async with receiving() as receiver, api.delivering():
            receiver.respond = respond
            await api.webhook(receiver)
            await api.store([1])
            await api.until(lambda state: "pending" in state)
            await api.call("POST", "/subscriptions/hook/replay", {"from": "beginning"})
            release.set()
            await api.until(lambda state: state["delivered"]["spans"] == 1)

    assert [each for each in logs if each["log_level"] == "error"] == []


async def test_replay_delivers_again_under_new_ids(api: Deliveries):
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver)
        await api.store([1])
        await receiver.until(1)
        before = await api.until(lambda state: state["delivered"]["spans"] == 1)
        await api.store([2])
        await receiver.until(2)
        await api.until(lambda state: state["delivered"]["spans"] == 2)
        await api.call("POST", "/subscriptions/hook/replay", {"from": before["position"]})
        await api.until(lambda state: state["delivered"]["spans"] == 3)
        await api.call("POST", "/subscriptions/hook/replay", {"from": "beginning"})
        await api.until(lambda state: state["delivered"]["spans"] == 5)

    assert receiver.span_ids == [1, 2, 2, 1, 2]
    assert len({message.id for message in receiver.messages}) == len(receiver.messages)


async def test_query_is_followed_to_its_newest_revision_and_a_revision_is_pinned(api: Deliveries):
    made = await api.call("POST", "/simple/queries/", {"query": {"slug": "errors", "data": ERRORS}})
    followed, revision_id = made["query"], made["query"]["revision_id"]
    async with receiving() as receiver, receiving() as pinned, api.delivering():
        await api.webhook(receiver, query_ref={"slug": "errors"})
        await api.webhook(pinned, slug="pinned", query_revision_ref={"id": revision_id})
        await api.store([1, 2])
        await api.store([3], **ERROR)
        await receiver.until(1)
        everything = {"query_revision": {"variant_id": followed["variant_id"], "data": {"filtering": {}}}}
        await api.call("POST", "/queries/revisions/commit", everything)
        await asyncio.sleep(1.1)
        await api.store([4])
        await api.store([5], **ERROR)
        await receiver.until(3)
        await pinned.until(2)

    assert receiver.span_ids == [3, 4, 5]
    assert pinned.span_ids == [3, 5]


async def test_two_processes_share_subscriptions_and_deliver_each_span_once(api: Deliveries):
    async with receiving() as receiver, api.delivering(), api.delivering():
        for number in range(6):
            await api.webhook(receiver, slug=f"hook-{number}")
        for number in range(1, 5):
            await api.store([number])
        await receiver.until_count(24)

    assert sorted(receiver.span_ids) == sorted([1, 2, 3, 4] * 6)


async def test_lease_of_a_process_that_ended_is_taken_over(api: Deliveries):
    async with receiving() as receiver:
        await api.webhook(receiver)
        async with api.delivering():
            await api.store([1])
            await receiver.until(1)
        async with api.delivering():
            await api.store([2])
            await receiver.until(2)

    assert receiver.span_ids == [1, 2]


async def test_deleted_subscription_gets_nothing_more(api: Deliveries):
    async with receiving() as receiver, receiving() as other, api.delivering():
        await api.webhook(receiver)
        await api.store([1])
        await receiver.until(1)
        await api.call("DELETE", "/subscriptions/hook")
        await api.webhook(other, slug="other")
        await api.store([2])
        await other.until(1)

    assert receiver.span_ids == [1]
