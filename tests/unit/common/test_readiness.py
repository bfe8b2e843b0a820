from __future__ import annotations

from structlog.testing import capture_logs

from common.readiness import Readiness


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
