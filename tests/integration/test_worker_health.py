"""The HTTP server of the worker, over a socket."""

from __future__ import annotations

import aiohttp
import pytest
from prometheus_client.metrics import MetricWrapperBase

from common import telemetry
from common.http.health import open_health
from common.kafka.record import Gap, GapCause, Partition
from common.readiness import Readiness
from common.settings import InvalidSettings
from ingest.app import ADDRESS_NAMES
from ingest.gaps import Gaps


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


async def test_gap_is_named_once_and_does_not_make_the_worker_unready() -> None:
    readiness = Readiness()
    gaps, gap = Gaps(readiness), Gap(Partition("gap_is_named", 3), 5, 7, GapCause.DELETED)
    async with (
        open_health(readiness, host="127.0.0.1", port=0, names=ADDRESS_NAMES) as port,
        aiohttp.ClientSession() as session,
    ):
        gaps.report(gap)
        gaps.report(gap)  # found again at the next rebalance
        gaps.report(gap._replace(topic_id="another"))  # the same offsets of a topic that was created again
        async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
            assert (response.status, await response.json()) == (
                200,
                {"status": "ready", "gaps": {"gap_is_named/3": gap.in_words()}},
            )
        readiness.red("store", "ClickHouse is unavailable.")
        async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
            assert (response.status, (await response.json())["gaps"]) == (503, {"gap_is_named/3": gap.in_words()})

    counted = [
        (sample.labels["cause"], sample.value)
        for sample in next(iter(telemetry.GAPS.collect())).samples
        if sample.name == "clearspan_gaps_total" and sample.labels["topic"] == "gap_is_named"
    ]
    assert counted == [("deleted", 2.0)]
    assert telemetry.GAP_RECORDS.labels("gap_is_named", "3")._value.get() == 4


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
