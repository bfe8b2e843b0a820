from __future__ import annotations

from structlog.testing import capture_logs

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


def test_the_log_says_when_something_is_waited_for_no_longer() -> None:
    readiness = Readiness()

    with capture_logs() as logs:
        readiness.red("store", "away")
        readiness.green("store")
        readiness.green("store")
        readiness.green("never red")

    assert logs == [{"event": "No longer waiting.", "component": "store", "log_level": "info"}]
