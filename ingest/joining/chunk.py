"""Stored spans with their additions, as rows: what a decoder makes of them (ADR 0006, ADR 0046).

Everything here can be sent to another process and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from common.clickhouse.span_columns import SpanColumns
from common.prices.table import PriceTable
from common.span_version import ADDITIONS_MAX, is_running, offset_of, version_of
from ingest.joining.derive import EVENTS_MAX, AnnotationScores, with_additions
from ingest.joining.stored_spans import StoredSpan, events_of
from ingest.masking.dead_letters import Masking
from ingest.masking.spans import masked_events

UINT32_MAX: Final = 2**32 - 1
ARRIVAL_COLUMNS: Final = ("arrival_partition_id", "arrival_offset")


class Arrival(NamedTuple):
    """The record and the index in it at which a version arrives in the feed."""

    partition_id: str
    record_offset: int
    span_index: int


class Counts(NamedTuple):
    """How many events and how many verdicts of annotations have been stored about a span."""

    events_count: int
    verdicts_count: int

    @property
    def additions_count(self) -> int:
        """The additions of a version that was derived from all of these.

        Each verdict is one, and so is each of the first ``EVENTS_MAX`` events. More events are not shown, only counted,
        so they make the next version only when there are twice as many.
        """
        doublings = max(0, (self.events_count // EVENTS_MAX).bit_length() - 1)
        return min(self.events_count, EVENTS_MAX) + doublings + self.verdicts_count


class JoiningSpan(NamedTuple):
    """A stored span and its additions: the events that are shown, what annotations say, and how many there are.

    ``events`` are JSON texts, as in ``span_events``. ``left_out_count`` annotations give scores besides.
    """

    span: StoredSpan
    events: Sequence[bytes]
    scores: Sequence[AnnotationScores]
    left_out_count: int
    counts: Counts
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class JoiningChunk:
    """Spans that are derived together."""

    spans: Sequence[JoiningSpan]
    masking: Masking


def joined_rows(chunk: JoiningChunk, prices: PriceTable) -> pa.Table:
    """Return the row of the next version of each span, in their order, without ``stored_us``."""
    columns = SpanColumns()
    masks = chunk.masking.by_project()
    for mask in masks.values():
        mask.begin()
    for stored, texts, scores, left_out_count, counts, arrival in chunk.spans:
        own_mask = masks.get(stored.project_id)
        events = events_of(texts) if own_mask is None else masked_events(own_mask, events_of(texts))
        span, normalized = with_additions(stored, events, scores, prices, own_mask)
        dropped_scores_count = max(stored.span.dropped_scores_count, normalized.dropped_scores_count + left_out_count)
        normalized = normalized._replace(dropped_scores_count=dropped_scores_count)
        dropped_count = min(span.dropped_events_count + counts.events_count - len(texts), UINT32_MAX)
        columns.append_record(
            project_ids=stored.project_id,
            partition_id=stored.partition_id,
            record_offset=offset_of(stored.version),
            record_ms=stored.record_ms,
            spans=[span._replace(dropped_events_count=dropped_count)],
            span_indexes=[arrival.span_index],
            normalized_spans=[normalized],
        )
    versions = list(map(_next_version, chunk.spans))
    rows = columns.rows()
    rows = rows.set_column(rows.column_names.index("version"), "version", pa.array(np.array(versions, np.uint64)))
    partition_ids, offsets, _ = zip(*(each.arrival for each in chunk.spans), strict=True)
    in_partitions = pa.array([name.encode() for name in partition_ids], pa.binary()).dictionary_encode()
    arrived = (in_partitions, pa.array(np.array(offsets, np.uint64)))
    for name, column in zip(ARRIVAL_COLUMNS, arrived, strict=True):
        rows = rows.append_column(name, column)
    return rows


def _next_version(joining: JoiningSpan) -> int:
    stored = joining.span.version
    additions_count = min(joining.counts.additions_count, ADDITIONS_MAX)
    return version_of(offset_of(stored), additions_count, is_running=is_running(stored))
