"""What the rooms of this folder share about the driver: its errors in our words, its log, and what must be set before it is used.

The driver retries inside and says so at level ERROR for every try; a broker that is away would fill the log. Its
lines are therefore let through once a minute a text; what it means for us is logged by who waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiokafka import errors as driver_errors
from typing_extensions import override

from common.errors import ServiceError, TooLarge, Unavailable
from common.kafka.batches import read_any_header_names
from common.kafka.record import LostPartition
from common.waiting import shielded

LOST: Final = (
    driver_errors.CommitFailedError,
    driver_errors.IllegalStateError,
    driver_errors.IllegalGenerationError,
    driver_errors.UnknownMemberIdError,
    driver_errors.RebalanceInProgressError,
)
TOO_LARGE: Final = (
    driver_errors.MessageSizeTooLargeError,
    driver_errors.RecordListTooLargeError,
    driver_errors.RecordTooLargeError,
)
OURS: Final = (
    driver_errors.InvalidTopicError,
    driver_errors.InvalidGroupIdError,
    driver_errors.IllegalArgumentError,
    driver_errors.UnsupportedVersionError,
)
"""Errors that no waiting cures."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of the driver raised inside come out as ours; ``doing`` says what failed, as in "commit"."""
    try:
        yield
    except LOST as exc:
        raise LostPartition(f"{doing}: {exc}") from exc
    except TOO_LARGE as exc:
        raise TooLarge(f"{doing}: {exc}") from exc
    except OURS as exc:
        raise ServiceError(f"{doing}: {_with_its_name(exc)}") from exc
    except (driver_errors.KafkaError, driver_errors.ConsumerStoppedError, OSError, TimeoutError) as exc:
        raise Unavailable(f"Kafka is away ({doing}: {_with_its_name(exc)})", public_message="Kafka is away.") from exc


def _with_its_name(exc: Exception) -> str:
    """Return the text of an error after the name of its class, which errors of the driver begin with themselves."""
    name = type(exc).__name__
    return str(exc) if name in str(exc) else f"{name}: {exc}"


async def ended(ending: Coroutine[Any, Any, None]) -> None:
    """Wait until something of the driver has ended. It awaits its own tasks, which it has cancelled, and takes the cancellation of who
    waits for it for theirs: that would be lost, so it is waited for at arm's length.
    """
    await shielded(asyncio.ensure_future(ending))


class OncePerInterval(logging.Filter):
    """Lets a text through once per ``interval_s``, however often it is said."""

    def __init__(
        self, *, interval_s: float = 60.0, texts_max: int = 1_000, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._interval_s = interval_s
        self._texts_max = texts_max
        self._monotonic_s = monotonic_s
        self._said_s: dict[str, float] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is new or was last said long enough ago."""
        now_s = self._monotonic_s()
        said_s = self._said_s.get(str(record.msg))
        if said_s is not None and now_s - said_s < self._interval_s:
            return False
        if len(self._said_s) >= self._texts_max:
            self._said_s.clear()
        self._said_s[str(record.msg)] = now_s
        return True


def prepare_driver() -> None:
    """Limit what the driver logs, and let it read every record there can be. Safe to call again."""
    read_any_header_names()
    for name in ("aiokafka", "aiokafka.conn", "aiokafka.client", "aiokafka.cluster", "aiokafka.producer.sender"):
        _limit(logging.getLogger(name))
    for name in ("aiokafka.consumer.fetcher", "aiokafka.consumer.group_coordinator", "aiokafka.admin.client"):
        _limit(logging.getLogger(name))
    logging.getLogger("aiokafka").setLevel(logging.WARNING)


def _limit(logger: logging.Logger) -> None:
    if not any(isinstance(each, OncePerInterval) for each in logger.filters):
        logger.addFilter(OncePerInterval())
