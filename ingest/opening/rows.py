"""The spans of one record as rows: what is derived from them, and the columns that they become."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from common.clickhouse.span_columns import SpanColumns
from common.span import Normal
from ingest.consume import Opened
from ingest.normalise import normalise
from ingest.semconv.prices import PriceTable


def append_rows(columns: SpanColumns, opened: Opened, prices: PriceTable, *, log: str) -> Counter[str]:
    """Append the spans of a record; the values of known meaning in them that could not be read, counted by reason."""
    normals = _normals(opened, prices)
    columns.append_record(
        project_ids=opened.projects,
        log=log,
        log_offset=opened.record.offset,
        record_ms=opened.record.timestamp_ms,
        spans=opened.spans,
        span_indexes=opened.span_indexes,
        normals=normals,
    )
    return Counter(reason for normal in normals for reason in normal.misfits)


def _normals(opened: Opened, prices: PriceTable) -> list[Normal]:
    """What is derived from each span: of the others, those of its project alone have a say in it."""
    if isinstance(opened.projects, UUID) or len(set(opened.projects)) < 2:
        return normalise(opened.spans, prices) if opened.spans else []
    normals: dict[int, Normal] = {}
    for project in set(opened.projects):
        own = [position for position, each in enumerate(opened.projects) if each == project]
        normals.update(zip(own, normalise([opened.spans[each] for each in own], prices), strict=True))
    return [normals[position] for position in range(len(opened.spans))]
