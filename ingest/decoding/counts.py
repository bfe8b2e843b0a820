"""Metrics of decoded records. The worker counts them, because a decoder is another process."""

from __future__ import annotations

from collections.abc import Iterable

from common.telemetry import (
    BASE64_IDS,
    MAPPING_ERRORS,
    RECORDS_EMPTY,
    RECORDS_IN,
    REFUSED_LOGS,
    REPAIRED_SPANS,
    SPANS_IN,
)
from ingest.decoding.chunk import ChunkRecord


def count_records(records: Iterable[ChunkRecord]) -> None:
    """Count records that were added to a batch, with their spans, in the metrics."""
    for record, _, outcome, *_ in records:
        RECORDS_IN.labels(record.topic).inc()
        if not record.value:
            RECORDS_EMPTY.labels(record.topic).inc()
        rejections = outcome.rejections
        SPANS_IN.labels(record.topic).inc(outcome.rows_count + (0 if rejections.is_of_record else len(rejections)))
        BASE64_IDS.inc(outcome.base64_ids_count)
        REPAIRED_SPANS.inc(outcome.repaired_count)
        for reason, count in outcome.mapping_errors.items():
            MAPPING_ERRORS.labels(reason).inc(count)
        for refusal, count in outcome.refused.items():
            REFUSED_LOGS.labels(record.topic, refusal).inc(count)
