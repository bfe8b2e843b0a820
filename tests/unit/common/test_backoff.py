from __future__ import annotations

import pytest

from common.waiting import Backoff


def test_delays_double_up_to_the_limit() -> None:
    backoff = Backoff(delay_s_max=0.5, share=lambda: 1.0)

    assert [backoff.next_delay_s() for _ in range(4)] == pytest.approx([0.1, 0.2, 0.4, 0.5])


def test_jitter_shortens_a_delay_by_at_most_half() -> None:
    assert Backoff(delay_s_max=10, share=lambda: 0.0).next_delay_s() == pytest.approx(0.05)


def test_a_thousand_tries_do_not_overflow() -> None:
    backoff = Backoff(delay_s_max=10)

    assert all(0 < backoff.next_delay_s() <= 10 for _ in range(2_000))
