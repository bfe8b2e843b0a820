from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from common.errors import Unavailable
from common.readiness import Readiness, Retry


def test_process_is_ready_if_no_component_is_red() -> None:
    assert Readiness().reasons == {}


def test_component_is_named_with_its_latest_reason_until_green() -> None:
    readiness = Readiness()
    readiness.red("store", "away")
    readiness.red("kafka", "away")
    readiness.red("store", "still away")

    assert readiness.reasons == {"store": "still away", "kafka": "away"}

    readiness.green("store")
    readiness.green("never red")
    assert readiness.reasons == {"kafka": "away"}


def test_end_of_waiting_is_logged() -> None:
    readiness = Readiness()

    with capture_logs() as logs:
        readiness.red("store", "away")
        readiness.green("store")
        readiness.green("store")
        readiness.green("never red")

    assert logs == [{"event": "No longer waiting.", "component": "store", "log_level": "info"}]


async def test_wait_that_is_given_up_leaves_the_process_ready() -> None:
    """A worker that leaves its group gives up the insert that failed; it must not wait for the next one to be ready."""
    readiness = Readiness()
    is_red = asyncio.Event()

    async def insert() -> None:
        raise Unavailable("ClickHouse did not respond.")

    async def pause(_: float) -> None:
        is_red.set()
        await asyncio.Event().wait()

    retry = Retry(readiness=readiness, delay_s_max=1.0, sleep=pause)
    waiting = asyncio.create_task(retry.until_done(insert, component="store"))
    await is_red.wait()
    assert readiness.reasons == {"store": "ClickHouse did not respond."}

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert readiness.reasons == {}
