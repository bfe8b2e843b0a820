"""Shared use of the driver: translate its errors, limit its log lines, and open readers outside of consumer groups.

The driver retries internally and logs every try at level ERROR, so an unavailable broker would fill the log. Each of
its messages is let through once a minute; the caller that waits logs what the failure means.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Literal

from aiokafka import AIOKafkaConsumer
from aiokafka import errors as driver_errors
from typing_extensions import override

from common.errors import ServiceError, TooLarge, Unavailable
from common.fair_share import shielded
from common.kafka.batches import read_any_header_names
from common.kafka.record import LostPartition
from common.kafka.security import LastFailure, connecting_for, consumer_options, watch_connections
from common.settings import KafkaSettings
from common.tls import UnusableCertificate

FETCH_WAIT_MS: Final = 50
"""How long the broker holds a fetch that finds no records."""

AWAY: Final = "Kafka is unavailable."
"""What clients see of a failure."""

START_ENDS_S: Final = 1.0
"""How long a cancelled start may go on, and then how long its cancellation may take."""

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
PERMANENT: Final = (
    driver_errors.InvalidTopicError,
    driver_errors.InvalidGroupIdError,
    driver_errors.IllegalArgumentError,
    driver_errors.UnsupportedVersionError,
)
"""Permanent errors: retrying does not help."""

_LOGGERS: Final = (
    "aiokafka",
    "aiokafka.admin.client",
    "aiokafka.client",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    "aiokafka.producer.sender",
)


@contextmanager
def translated(operation: str, connecting: LastFailure | None = None) -> Iterator[None]:
    """Raise errors of the driver as ours; ``operation`` names what failed, for example "commit".

    ``connecting`` is that of a client that is used for longer than this operation.
    """
    connecting = connecting or LastFailure()
    before = connecting_for(connecting)
    try:
        yield
    except LOST as exc:
        raise LostPartition(f"{operation}: {exc}") from exc
    except TOO_LARGE as exc:
        raise TooLarge(f"{operation}: {exc}") from exc
    except PERMANENT as exc:
        raise ServiceError(f"{operation}: {_with_class_name(exc)}") from exc
    except (driver_errors.KafkaError, driver_errors.ConsumerStoppedError, OSError, TimeoutError) as exc:
        reason = connecting.explain(exc) or _with_class_name(exc)
        raise Unavailable(f"Kafka is unavailable ({operation}: {reason})", public_message=AWAY) from exc
    except UnusableCertificate as exc:
        detail = f"Kafka is unavailable ({operation}: {connecting.settings.names.tls.member(exc.member)}: {exc})"
        raise Unavailable(detail, public_message=AWAY) from exc
    finally:
        connecting_for(before)


def _with_class_name(exc: Exception) -> str:
    """Return the text of an error after the name of its class, unless the text already contains it."""
    name = type(exc).__name__
    return str(exc) if name in str(exc) else f"{name}: {exc}"


async def started(starting: Coroutine[Any, Any, None]) -> None:
    """Await the start of a client of the driver. A cancellation takes effect at its end, or after ``START_ENDS_S``.

    The driver does not close a connection that it has just made if it is cancelled while it asks for metadata.
    """
    running = asyncio.ensure_future(starting)
    try:
        await shielded(running)
    except asyncio.CancelledError:
        await asyncio.wait({running}, timeout=START_ENDS_S)
        running.cancel()
        await asyncio.wait({running}, timeout=START_ENDS_S)
        raise


async def ended(stopping: Coroutine[Any, Any, None]) -> None:
    """Await the stop of a client of the driver.

    The driver swallows every cancellation while it awaits the tasks that it has cancelled, including a cancellation of
    the caller. So the stop runs in a task of its own.
    """
    await shielded(asyncio.ensure_future(stopping))


@asynccontextmanager
async def open_reader(
    settings: KafkaSettings,
    *,
    group: str | None = None,
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed",
    fetch_wait_ms: int = FETCH_WAIT_MS,
) -> AsyncIterator[AIOKafkaConsumer]:
    """Connect a consumer that joins no group and commits nothing. Raises ``Unavailable`` (transient).

    ``group`` is the group whose committed offsets it can read. Its end offsets are the high watermarks with
    ``read_uncommitted``, and the last stable offsets with ``read_committed``.
    """
    prepare_driver()
    connecting = LastFailure(settings)
    with translated("connect", connecting):
        reader = AIOKafkaConsumer(
            **consumer_options(settings),
            group_id=group,
            enable_auto_commit=False,
            isolation_level=isolation_level,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=fetch_wait_ms,
            max_partition_fetch_bytes=settings.message_bytes_max,
            request_timeout_ms=int(settings.request_timeout_s * 1000),
        )
    try:
        with translated("connect", connecting):
            async with asyncio.timeout(settings.request_timeout_s):
                await started(reader.start())
        yield reader
    finally:
        await ended(reader.stop())


class OncePerInterval(logging.Filter):
    """Lets each message template through once per ``interval_s``."""

    def __init__(
        self, *, interval_s: float = 60.0, texts_max: int = 1_000, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._interval_s = interval_s
        self._texts_max = texts_max
        self._monotonic_s = monotonic_s
        self._logged_s: dict[str, float] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the template is new or was last logged at least ``interval_s`` ago."""
        now_s = self._monotonic_s()
        logged_s = self._logged_s.get(str(record.msg))
        if logged_s is not None and now_s - logged_s < self._interval_s:
            return False
        if len(self._logged_s) >= self._texts_max:
            self._logged_s.clear()
        self._logged_s[str(record.msg)] = now_s
        return True


def prepare_driver() -> None:
    """Limit what the driver logs, and let it read every record. Safe to call again."""
    read_any_header_names()
    watch_connections()
    for logger in map(logging.getLogger, _LOGGERS):
        if not any(isinstance(present, OncePerInterval) for present in logger.filters):
            logger.addFilter(OncePerInterval())
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
