from __future__ import annotations

import logging

import pytest
from aiokafka import errors as driver_errors

from common.errors import ServiceError, TooLarge, Unavailable
from common.kafka.driver import OncePerInterval, translated
from common.kafka.record import LostPartition


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (driver_errors.CommitFailedError(), LostPartition),
        (driver_errors.IllegalStateError("not assigned"), LostPartition),
        (driver_errors.MessageSizeTooLargeError(), TooLarge),
        (driver_errors.KafkaConnectionError(), Unavailable),
        (driver_errors.NotEnoughReplicasError(), Unavailable),
        (driver_errors.KafkaTimeoutError(), Unavailable),
        (ConnectionRefusedError(), Unavailable),
        (TimeoutError(), Unavailable),
    ],
)
def test_an_error_of_the_driver_comes_out_as_ours(theirs: Exception, ours: type[ServiceError]) -> None:
    with pytest.raises(ours) as raised, translated("commit"):
        raise theirs

    assert raised.value.__cause__ is theirs
    assert "commit" in raised.value.detail


def test_what_no_waiting_cures_is_not_transient() -> None:
    with pytest.raises(ServiceError) as raised, translated("join"):
        raise driver_errors.InvalidGroupIdError

    assert not raised.value.transient


def test_our_own_errors_go_through_as_they_are() -> None:
    with pytest.raises(TooLarge), translated("publish"):
        raise TooLarge


def line(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("aiokafka", logging.ERROR, __file__, 1, text, arguments, None)


def test_a_text_is_logged_once_an_interval_whatever_its_arguments() -> None:
    now_s = [0.0]
    limit = OncePerInterval(interval_s=60.0, monotonic_s=lambda: now_s[0])

    assert limit.filter(line("Unable connect to %s", "a"))
    assert not limit.filter(line("Unable connect to %s", "b"))
    assert limit.filter(line("Something else"))
    now_s[0] = 60.0
    assert limit.filter(line("Unable connect to %s", "a"))


def test_the_limiter_does_not_grow_with_texts() -> None:
    limit = OncePerInterval(texts_max=3, monotonic_s=lambda: 0.0)
    for number in range(10):
        limit.filter(line(f"text {number}"))

    assert len(limit._said_s) <= 3
