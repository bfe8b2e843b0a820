from __future__ import annotations

from ingest.readiness import Readiness


def test_ready_when_nothing_is_red() -> None:
    assert Readiness().reasons == {}


def test_a_component_is_named_with_its_latest_reason_until_it_is_green() -> None:
    readiness = Readiness()
    readiness.red("store", "away")
    readiness.red("kafka", "away")
    readiness.red("store", "still away")

    assert readiness.reasons == {"store": "still away", "kafka": "away"}

    readiness.green("store")
    readiness.green("never red")
    assert readiness.reasons == {"kafka": "away"}
