"""Spans that were deleted before their delivery are counted by the subscription that they matched (contract §9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from tests.support.delivery import Deliveries, Receiver, deliveries, delivery_settings, receiving

ERRORS: dict[str, Any] = {"filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]}}
ERROR: dict[str, Any] = {"status_code": 2}
OTHER = "cluster/spans/1"
WITHIN_S = 60.0


@pytest.fixture
async def api(shared_store: ColumnStore, shared_database: Database) -> AsyncIterator[Deliveries]:
    async with deliveries(shared_store, shared_database, delivery_settings(batch_spans_max=3)) as api:
        yield api


async def delete(api: Deliveries, *numbers: int) -> None:
    for number in numbers:
        await api.call("DELETE", f"/traces/{number:032x}", status=202)


async def delivered(api: Deliveries, receiver: Receiver, *, expired: int) -> Any:
    """Deliver until everything that is stored is passed; return the state."""
    async with api.delivering():
        state = await api.until(
            lambda state: state["lag_s"] == 0 and state["expired"]["spans"] >= expired, within_s=WITHIN_S
        )
    assert sorted(receiver.span_ids) == sorted(set(receiver.span_ids))
    return state


async def test_matching_span_that_was_deleted_counts_as_expired(api: Deliveries) -> None:
    async with receiving() as receiver:
        await api.webhook(receiver, **ERRORS)
        await api.store(range(1, 9), **ERROR)
        await api.store([10, 11])
        await delete(api, 2, 4, 5, 8, 10)
        state = await delivered(api, receiver, expired=4)

    assert receiver.span_ids == [1, 3, 6, 7]
    assert state["expired"]["spans"] == 4
    assert "at" in state["expired"]


async def test_nothing_is_expired_at_first_and_after_every_span_was_delivered(api: Deliveries) -> None:
    async with receiving() as receiver:
        created = await api.webhook(receiver)
        await api.store([1, 2])
        async with api.delivering():
            await api.until(lambda state: state["delivered"]["spans"] == 2, within_s=WITHIN_S)
            await delete(api, 1, 2)
            await api.store([3])
            state = await api.until(lambda state: state["delivered"]["spans"] == 3, within_s=WITHIN_S)

    assert created["expired"] == state["expired"] == {"spans": 0}


async def test_span_expires_once_whatever_versions_it_had_and_not_if_it_was_sent_again(api: Deliveries) -> None:
    async with receiving() as receiver:
        await api.webhook(receiver, **ERRORS)
        await api.store([1, 2, 3, 4], **ERROR)
        await api.store([1], **ERROR)
        await api.store([2])  # its last version does not match
        await api.store([1, 3], partition_id=OTHER, **ERROR)
        await delete(api, 1, 2, 3, 4)
        await api.store([4], **ERROR)
        state = await delivered(api, receiver, expired=2)

    assert receiver.span_ids == [4]
    assert state["expired"]["spans"] == 2


async def test_span_that_is_deleted_between_two_tries_expires(api: Deliveries) -> None:
    async with receiving() as receiver:
        receiver.respond = lambda _: web.Response(status=503)
        await api.webhook(receiver)
        await api.store([1, 2])
        async with api.delivering():
            await api.until(lambda state: state["status"] == "retrying", within_s=WITHIN_S)
        await delete(api, 1)
        receiver.respond = lambda _: web.Response(status=204)
        state = await delivered(api, receiver, expired=1)

    assert receiver.span_ids == [2]
    assert (state["expired"]["spans"], state["delivered"]["spans"]) == (1, 1)


async def test_spans_that_expired_in_a_skipped_batch_count(api: Deliveries) -> None:
    async with receiving() as receiver:
        receiver.respond = lambda _: web.Response(status=400)
        await api.webhook(receiver)
        await api.store([1, 2])
        await delete(api, 1)
        async with api.delivering():
            await api.until(lambda state: state["status"] == "paused", within_s=WITHIN_S)
        await api.call("POST", "/subscriptions/hook/skip")
        state = await api.state()

    assert state["expired"]["spans"] == 1
    assert state["skipped"][0]["spans"] == 1
