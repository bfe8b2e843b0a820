from __future__ import annotations

import logging

import pytest
from aiokafka import errors as driver_errors
from aiokafka.consumer import fetcher

from common.errors import ServiceError, TooLarge, Unavailable
from common.kafka.batches import LenientBatches
from common.kafka.driver import OncePerInterval, prepare_driver, translated
from common.kafka.record import LostPartition


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (driver_errors.CommitFailedError(), LostPartition),
        (driver_errors.IllegalStateError("not assigned"), LostPartition),
        (driver_errors.IllegalGenerationError(), LostPartition),
        (driver_errors.UnknownMemberIdError(), LostPartition),
        (driver_errors.RebalanceInProgressError(), LostPartition),
        (driver_errors.MessageSizeTooLargeError(), TooLarge),
        (driver_errors.RecordListTooLargeError(), TooLarge),
        (driver_errors.RecordTooLargeError(), TooLarge),
        (driver_errors.ConsumerStoppedError(), Unavailable),
        (driver_errors.KafkaConnectionError(), Unavailable),
        (driver_errors.NotEnoughReplicasError(), Unavailable),
        (driver_errors.KafkaTimeoutError(), Unavailable),
        (ConnectionRefusedError(), Unavailable),
        (TimeoutError(), Unavailable),
    ],
)
def test_driver_error_is_translated(theirs: Exception, ours: type[ServiceError]) -> None:
    with pytest.raises(ours) as raised, translated("commit"):
        raise theirs

    assert raised.value.__cause__ is theirs
    assert "commit" in raised.value.detail


def test_public_message_has_no_addresses() -> None:
    with pytest.raises(Unavailable) as raised, translated("publish"):
        raise driver_errors.KafkaConnectionError("kafka-1.internal:9092")

    assert raised.value.detail == "Kafka is unavailable (publish: KafkaConnectionError: kafka-1.internal:9092)"
    assert raised.value.public_message == "Kafka is unavailable."


@pytest.mark.parametrize(
    "theirs",
    [
        driver_errors.InvalidTopicError(),
        driver_errors.InvalidGroupIdError(),
        driver_errors.IllegalArgumentError(),
        driver_errors.UnsupportedVersionError(),
    ],
)
def test_permanent_error_is_not_transient(theirs: Exception) -> None:
    with pytest.raises(ServiceError) as raised, translated("join"):
        raise theirs

    assert not raised.value.transient
    assert type(theirs).__name__ in raised.value.detail


def test_own_errors_are_not_translated() -> None:
    with pytest.raises(TooLarge), translated("publish"):
        raise TooLarge


def line(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("aiokafka", logging.ERROR, __file__, 1, text, arguments, None)


def test_template_is_logged_once_per_interval() -> None:
    now_s = [100.0]
    limit = OncePerInterval(interval_s=60.0, monotonic_s=lambda: now_s[0])

    assert limit.filter(line("Unable connect to %s", "a"))
    assert not limit.filter(line("Unable connect to %s", "b"))
    assert limit.filter(line("Something else"))
    assert not limit.filter(line("Unable connect to %s", "c"))
    now_s[0] = 160.0
    assert limit.filter(line("Unable connect to %s", "a"))


def test_limiter_forgets_when_it_holds_too_many_texts() -> None:
    limit = OncePerInterval(texts_max=3, monotonic_s=lambda: 0.0)

    assert all(limit.filter(line(f"text {number}")) for number in range(4))
    assert limit.filter(line("text 0"))
    assert not limit.filter(line("text 3"))


@pytest.mark.parametrize("name", ["aiokafka", "aiokafka.conn", "aiokafka.consumer.fetcher"])
def test_prepared_driver_logs_less_and_reads_every_record(name: str) -> None:
    prepare_driver()
    prepare_driver()

    limits = [limit for limit in logging.getLogger(name).filters if isinstance(limit, OncePerInterval)]
    assert len(limits) == 1
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)
    assert fetcher.MemoryRecords is LenientBatches
