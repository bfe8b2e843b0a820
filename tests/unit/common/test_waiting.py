from __future__ import annotations

import pytest
import structlog
from structlog.testing import capture_logs

from common.errors import InvalidStatement, ServiceError, Unavailable
from common.waiting import DELAY_MAX_S, DELAY_S_MIN, Backoff, wait_for


class Probe:
    """Fails ``failures_count`` times, then succeeds."""

    def __init__(self, failures_count: int, error: ServiceError) -> None:
        self.failures_left = failures_count
        self._error = error

    async def __call__(self) -> None:
        if self.failures_left:
            self.failures_left -= 1
            raise self._error


class Pauses:
    """Sleeps without time passing."""

    def __init__(self) -> None:
        self.delays_s: list[float] = []

    async def __call__(self, delay_s: float) -> None:
        self.delays_s.append(delay_s)


async def test_available_system_is_not_waited_for():
    pauses = Pauses()

    with capture_logs() as logs:
        await wait_for(Probe(0, Unavailable()), "kafka", log=structlog.get_logger(), sleep=pauses)

    assert (logs, pauses.delays_s) == ([], [])


async def test_each_attempt_logs_system_and_reason():
    with capture_logs() as logs:
        await wait_for(Probe(2, Unavailable("refused")), "kafka", log=structlog.get_logger(), sleep=Pauses())

    assert [(line["event"], line["system"], line["reason"]) for line in logs] == [("Waiting.", "kafka", "refused")] * 2


async def test_pauses_grow_to_their_limit_with_jitter():
    pauses = Pauses()

    with capture_logs():
        await wait_for(Probe(20, Unavailable()), "kafka", log=structlog.get_logger(), sleep=pauses)

    assert DELAY_S_MIN / 2 <= pauses.delays_s[0] <= DELAY_S_MIN
    assert all(DELAY_MAX_S / 2 <= delay_s <= DELAY_MAX_S for delay_s in pauses.delays_s[7:])
    assert len(set(pauses.delays_s[7:])) > 1


async def test_permanent_error_is_raised():
    with pytest.raises(InvalidStatement):
        await wait_for(Probe(1, InvalidStatement()), "clickhouse", log=structlog.get_logger(), sleep=Pauses())


def test_delays_double_up_to_the_limit() -> None:
    backoff = Backoff(delay_s_max=0.5, share=lambda: 1.0)

    assert [backoff.next_delay_s() for _ in range(4)] == pytest.approx([0.1, 0.2, 0.4, 0.5])


def test_jitter_shortens_a_delay_by_at_most_half() -> None:
    assert Backoff(delay_s_max=10, share=lambda: 0.0).next_delay_s() == pytest.approx(0.05)


def test_a_thousand_tries_do_not_overflow() -> None:
    backoff = Backoff(delay_s_max=10)

    assert all(0 < backoff.next_delay_s() <= 10 for _ in range(2_000))
