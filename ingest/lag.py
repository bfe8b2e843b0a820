"""Reports how many records of each partition are not read yet."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from common.errors import ServiceError
from common.kafka.record import Partition, RecordSource
from common.readiness import Readiness
from common.telemetry import LAG_RECORDS


async def report_lag(source: RecordSource, readiness: Readiness) -> None:
    """Ask Kafka for the lag, which also shows whether Kafka is available. Raises errors that are not transient."""
    try:
        lag = await source.lag()
    except ServiceError as exc:
        if not exc.transient:
            raise
        readiness.waits_for("kafka", exc.detail)
    else:
        readiness.green("kafka")
        for partition, records_count in lag.items():
            LAG_RECORDS.labels(partition.topic, str(partition.partition)).set(records_count)


def forget_lag(partitions: Iterable[Partition]) -> None:
    """Report the lag of these partitions no more: another member may have them."""
    for topic, number in partitions:
        with suppress(KeyError):
            LAG_RECORDS.remove(topic, str(number))
