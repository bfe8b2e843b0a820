"""Reports records that Kafka no longer has: in the log, in metrics, and in ``/readyz`` (ADR 0027)."""

from __future__ import annotations

from common.kafka.record import Gap
from common.readiness import Readiness
from common.telemetry import GAP_RECORDS, GAPS, get_logger

_log = get_logger(__name__)


class Gaps:
    """Reports each gap once, although it is found again at each rebalance until something after it is committed."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._reported: set[Gap] = set()

    def report(self, gap: Gap) -> None:
        """Log and count the gap, and name it in ``/readyz`` for as long as this process runs."""
        if gap in self._reported:
            return
        self._reported.add(gap)
        topic, number = gap.partition
        GAPS.labels(topic, str(number), gap.cause.value).inc()
        GAP_RECORDS.labels(topic, str(number)).inc(gap.records_count)
        self._readiness.gap(f"{topic}/{number}", gap.in_words())
        _log.error("Records cannot be read any more.", topic=topic, partition=number, reason=gap.in_words())
