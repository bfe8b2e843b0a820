"""A sample: the newest spans that match, up to a limit, whose wide columns one statement reads.

Narrow columns choose the rows, of every version: the newest that match, at most ``sample_spans``, and none after the
first ``sample_bytes`` of their responses. The statement that reads their wide columns takes them by their starts and
hashes, so that it does not evaluate the filter again, and keeps those that are latest versions. A span that is replaced
between the two statements may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
from pydantic import Field

from common.clickhouse.select import Select, Table
from common.errors import DeadlineExceeded
from query_api.filter.sql.compile import Compiled
from query_api.request.json_body import ApiModel
from query_api.request.limits import Limits
from query_api.spans.project_spans import STOPPING_EARLY, ProjectSpans, StatementBudget
from query_api.spans.versions import (
    among_ids,
    among_starts,
    id_bytes,
    integers_of,
    latest_versions_of_few,
    packed_ids,
    packed_starts,
    split_ids,
)
from query_api.spans.window import Conditions

_HASH: Final = "cityHash64(start_us, span_id, trace_id, partition_id, version)"
_NEWEST_FIRST: Final = ("start_us DESC", "span_id DESC", "trace_id DESC")
_OF_SAMPLE: Final = (f"trace_id IN {among_ids('sample_traces')}", f"span_id IN {among_ids('sample_spans')}")


class SampleSize(ApiModel):
    """How much was examined, if not everything."""

    of: int | None = Field(None, description="Stored spans that match; absent if counting them takes too long.")
    examined: int = Field(description="Stored spans that were examined: the newest ones that match.")


@dataclass(frozen=True, slots=True)
class SpanSample:
    """The rows of a sample.

    ``parameters`` are those of ``visible_rows``. ``matching_count`` is the number of all rows that match, and is
    ``None`` if it is not known. ``oldest_us`` is the start of the oldest row, 0 without rows.
    """

    rows_count: int
    parameters: Mapping[str, Any]
    matching_count: int | None
    oldest_us: int

    def sampled(self) -> SampleSize | None:
        """Return the member of a response that says how much was examined; ``None`` if that was everything."""
        if self.matching_count == self.rows_count:
            return None
        return SampleSize(of=self.matching_count, examined=self.rows_count)


def visible_rows(project_id: UUID, columns: Mapping[str, str], parameters: Mapping[str, Any]) -> Select:
    """Return a query of the visible spans of a sample, with ``columns``: names and expressions over a row of
    ``spans``. ``parameters`` are those of the sample and of these expressions."""
    latest = Select(project_id, latest_versions_of_few(project_id, _OF_SAMPLE), [_HASH])
    in_sample = f"{_HASH} IN reinterpret({{sample_rows:String}}, 'Array(UInt64)')"
    return Select(
        project_id,
        Table.SPANS,
        [f"{expression} AS {name}" for name, expression in columns.items()],
        where=[f"{_HASH} IN ({latest})"],
        prewhere=[f"start_us IN {among_starts('sample_starts')}", in_sample],
        limit_by=f"1 BY {_HASH}",
        parameters=parameters,
    )


async def newest_spans(spans: ProjectSpans, window: Conditions, matching: Compiled, limits: Limits) -> SpanSample:
    """Return the newest spans in the window that match."""
    conditions, parameters = [*window.texts, matching.sql], {**window.parameters, **matching.parameters}
    matches = Select(spans.project_id, Table.SPANS, ["count() AS matching_count"], conditions, parameters=parameters)
    columns = ["start_us", "span_id", "trace_id", "response_bytes", f"{_HASH} AS row_hash"]
    newest = replace(matches, columns=columns, order_by=_NEWEST_FIRST, limit=limits.sample_spans + 1)
    rows = await spans.select(newest, step="candidates", settings=STOPPING_EARLY)
    sizes = rows.column("response_bytes").to_numpy()
    rows_count = min(_rows_within(limits.sample_bytes, sizes), limits.sample_spans, rows.num_rows)
    if rows_count == rows.num_rows:
        matching_count: int | None = rows_count
    else:
        matching_count = await _count(spans, matches, seconds_max=limits.sample_count_s)
    sampled = rows.slice(0, rows_count)
    oldest_us = sampled.column("start_us")[-1].as_py() if rows_count else 0
    return SpanSample(rows_count, _parameters(sampled), matching_count, oldest_us)


def _rows_within(bytes_max: int, sizes: Sequence[int]) -> int:
    """How many rows it takes to reach ``bytes_max``; more than there are if all together are smaller."""
    return int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), bytes_max)) + 1


def _parameters(rows: pa.Table) -> dict[str, bytes]:
    return {
        "sample_starts": packed_starts(integers_of(rows, "start_us")),
        "sample_spans": id_bytes(rows, "span_id"),
        "sample_traces": packed_ids(set(split_ids(id_bytes(rows, "trace_id")))),
        "sample_rows": rows.column("row_hash").to_numpy().astype("<u8").tobytes(),
    }


async def _count(spans: ProjectSpans, matches: Select, *, seconds_max: float) -> int | None:
    share = StatementBudget(seconds_max=seconds_max)
    try:
        rows = await spans.select(matches, step="spans that match", share=share)
    except DeadlineExceeded:
        return None
    matching_count: int = rows.column("matching_count")[0].as_py()
    return matching_count
