"""The HTTP server of the worker, over a socket."""

from __future__ import annotations

import aiohttp
import pytest
from prometheus_client.metrics import MetricWrapperBase

from common import telemetry
from common.http.health import open_health
from common.readiness import Readiness
from common.settings import InvalidSettings
from ingest.app import ADDRESS_NAMES


async def test_livez_is_green_while_the_worker_waits() -> None:
    readiness = Readiness()
    readiness.red("kafka", "Kafka is unavailable.")

    async with (
        open_health(readiness, host="127.0.0.1", port=0, names=ADDRESS_NAMES) as port,
        aiohttp.ClientSession() as session,
    ):
        response = await session.get(f"http://127.0.0.1:{port}/livez")
        assert (response.status, await response.json()) == (200, {"status": "alive"})


async def test_readyz_names_what_is_not_ready() -> None:
    readiness = Readiness()
    async with (
        open_health(readiness, host="127.0.0.1", port=0, names=ADDRESS_NAMES) as port,
        aiohttp.ClientSession() as session,
    ):
        url = f"http://127.0.0.1:{port}/readyz"
        async with session.get(url) as response:
            assert (response.status, await response.json()) == (200, {"status": "ready"})

        readiness.red("store", "ClickHouse is unavailable.")
        async with session.get(url) as response:
            assert response.status == 503
            assert await response.json() == {
                "status": "not ready",
                "waiting_for": {"store": "ClickHouse is unavailable."},
            }


async def test_used_port_is_reported_in_a_sentence() -> None:
    async with open_health(Readiness(), host="127.0.0.1", port=0, names=ADDRESS_NAMES) as port:
        with pytest.raises(InvalidSettings, match=f"CLEARSPAN_WORKER_PORT are 127.0.0.1:{port}, which cannot be used"):
            async with open_health(Readiness(), host="127.0.0.1", port=port, names=ADDRESS_NAMES):
                pass


async def test_metrics_are_prometheus_text_with_every_metric_explained() -> None:
    async with (
        open_health(Readiness(), host="127.0.0.1", port=0, names=ADDRESS_NAMES) as port,
        aiohttp.ClientSession() as session,
    ):
        response = await session.get(f"http://127.0.0.1:{port}/metrics")
        text = await response.text()
        assert response.headers["Content-Type"].startswith("text/plain; version=")

    declared = [value for value in vars(telemetry).values() if isinstance(value, MetricWrapperBase)]
    assert len(declared) > 15
    for metric in declared:
        (family,) = metric.describe()
        assert family.documentation
        assert f"# HELP {family.name}" in text
