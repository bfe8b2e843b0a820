"""The spans of one record as rows: what is derived from them, and the columns that they become."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from common.clickhouse.span_columns import SpanColumns
from common.span import NormalizedSpan
from ingest.consume import DecodedRecord
from ingest.normalize import normalize
from ingest.semconv.prices import PriceTable


def append_rows(columns: SpanColumns, decoded: DecodedRecord, prices: PriceTable, *, partition_id: str) -> Counter[str]:
    """Append the spans of a record; the values of known meaning in them that could not be read, counted by reason."""
    normalized_spans = _normalized(decoded, prices)
    columns.append_record(
        project_ids=decoded.projects,
        partition_id=partition_id,
        record_offset=decoded.record.offset,
        record_ms=decoded.record.timestamp_ms,
        spans=decoded.spans,
        span_indexes=decoded.span_indexes,
        normalized_spans=normalized_spans,
    )
    return Counter(reason for normalized in normalized_spans for reason in normalized.mapping_errors)


def _normalized(decoded: DecodedRecord, prices: PriceTable) -> list[NormalizedSpan]:
    """What is derived from each span: of the others, those of its project alone have a say in it."""
    if isinstance(decoded.projects, UUID) or len(set(decoded.projects)) < 2:
        return normalize(decoded.spans, prices) if decoded.spans else []
    normalized_spans: dict[int, NormalizedSpan] = {}
    for project in set(decoded.projects):
        own = [position for position, each in enumerate(decoded.projects) if each == project]
        normalized_spans.update(zip(own, normalize([decoded.spans[each] for each in own], prices), strict=True))
    return [normalized_spans[position] for position in range(len(decoded.spans))]
