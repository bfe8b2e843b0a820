"""The narrow columns of visible spans: what lists and outlines of traces show, without reading the JSON of spans.

Versions are matched with their rows column by column: an object for each span of a trace of 100,000 would take longer
than everything else together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.clickhouse.select import EngineSettings, Select, Table
from common.errors import InvalidInput, Unavailable
from common.fair_share import in_thread
from common.ids import trace_id_hex
from common.limits import MIB
from query_api.spans.latest_versions import latest_of_traces
from query_api.spans.message_spans import MESSAGE_COLUMNS
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import LARGE_SPANS, SCATTERED
from query_api.spans.usage import TraceSums
from query_api.spans.versions import (
    ID_BYTES,
    TRIES_MAX,
    Integers,
    Version,
    among_ids,
    among_starts,
    id_bytes,
    integers_of,
    latest_versions,
    packed_ids,
    packed_starts,
    values_of,
    versions_of,
)

NARROW_BYTES_MAX: Final = 256 * MIB
"""Of the rows of one statement: a million spans with names of usual length."""

SERVICE: Final = r"if(service_name = '\0', '', service_name)"
"""``service.name`` of the resource if it is a text, else ``''``."""

MODEL: Final = "if(substring(model_leaf, 1, 1) IN ('s', 'n'), substring(model_leaf, 2), '')"
"""The model of the response, else of the request, as text; ``''`` if there is none."""

_SYSTEM: Final = "leaves['ag.meta.system']"
PROVIDER: Final = f"if(substring({_SYSTEM}, 1, 1) IN ('s', 'n'), substring({_SYSTEM}, 2), '')"
"""The provider of the model as text; ``''`` if there is none."""

SESSION: Final = "if(ifNull(session_id, '') != '', assumeNotNull(session_id), session_in_attributes)"
USER: Final = "if(ifNull(user_id, '') != '', assumeNotNull(user_id), user_in_attributes)"

COLUMNS: Final = (
    *Version._fields,
    "parent_id",
    "start_ns_rest",
    "end_us",
    "end_ns_rest",
    "name",
    "trace_type",
    "span_type",
    "status_code",
    f"{SERVICE} AS service",
    f"{MODEL} AS model",
    "tokens_leaf",
    "cost_leaf",
    f"{SESSION} AS session",
)
OUTLINE_COLUMNS: Final = (*COLUMNS, *MESSAGE_COLUMNS)

MANY_STARTS: Final = 10_000
"""From this number on, everything between the first and the last start is read: the engine takes 20 ms longer to plan a
list of 100,000 starts, and minutes for a million."""

_IN_TRACES: Final = f"trace_id IN {among_ids('trace_ids')}"

_AT_STARTS: Final[Sequence[str]] = (f"start_us IN {among_starts('starts')}",)
_BETWEEN_STARTS: Final[Sequence[str]] = ("start_us >= {first_us:Int64}", "start_us <= {last_us:Int64}")
_IN_TRACE: Final = "trace_id = toFixedString(unhex({trace_id:String}), 16)"
_BOUNDED: Final[EngineSettings] = {
    "max_result_bytes": 2 * NARROW_BYTES_MAX,  # then the engine stops; it counts differently than Arrow
    "result_overflow_mode": "break",
}
_IN_ORDER: Final = itemgetter(*map(Version._fields.index, ("trace_id", "start_us", "span_id")))
_EXACT: Final = np.iinfo(np.int64).max

_KINDS: Final = {
    "start_us": pa.int64(),
    "span_id": pa.binary(ID_BYTES),
    "trace_id": pa.binary(ID_BYTES),
    "partition_id": pa.binary(),
    "version": pa.uint64(),
}


class NarrowRows(NamedTuple):
    """Rows with the columns that were read, and what their traces used if that was looked up again."""

    rows: pa.Table
    """By trace id, start and span id if the versions were."""

    current_sums: TraceSums | None = None
    """``None`` if the versions that were given are those of the rows."""


async def narrow_rows_of_trace(spans: ProjectSpans, trace_id: bytes, *, spans_max: int) -> pa.Table:
    """Return one row with ``OUTLINE_COLUMNS`` for each visible span of a trace, by start and span id.

    Raises ``InvalidInput`` if there are more than ``spans_max``, or if their names take too much memory.
    """
    some = replace(latest_versions(spans.project_id, [_IN_TRACE], {"trace_id": trace_id.hex()}), limit=spans_max + 1)
    query = Select(spans.project_id, some, Version._fields, order_by=["start_us", "span_id"])
    latest = await spans.select(query, step="latest versions")
    if latest.num_rows > spans_max:
        raise InvalidInput(
            f"Trace {trace_id_hex(trace_id)} has more than {spans_max:,} spans, too many for one response."
            " The spans of a trace come in pages from /spans/query with a filter on `trace_id`."
        )
    return (await _matched(spans, latest, OUTLINE_COLUMNS)).rows


async def narrow_rows(spans: ProjectSpans, latest: Collection[Version], columns: Sequence[str] = COLUMNS) -> NarrowRows:
    """Return the rows of latest versions with ``columns``, in their order, or of those that replaced them meanwhile.

    If one of them has no row, those of its traces are looked up again; then the rows are sorted.
    """
    return await _matched(spans, table_of(latest), columns)


async def _matched(spans: ProjectSpans, latest: pa.Table, columns: Sequence[str]) -> NarrowRows:
    sums: TraceSums | None = None
    absent: set[Version] = set()
    for _ in range(TRIES_MAX):
        if not latest.num_rows:
            return NarrowRows(latest, sums)
        trace_ids = set(values_of(latest, "trace_id"))
        rows = await _read(spans, latest, trace_ids, columns)
        is_large = rows.num_rows > LARGE_SPANS
        indexes = await in_thread(row_indexes, latest, rows) if is_large else row_indexes(latest, rows)
        missing = np.flatnonzero(indexes < 0)
        if not len(missing):
            return NarrowRows(rows.take(pa.array(indexes)), sums)
        absent.update(versions_of(latest.take(pa.array(missing))))
        versions, sums = await latest_of_traces(spans, trace_ids, absent=absent)
        latest = table_of(sorted(versions, key=_IN_ORDER))
    raise Unavailable("The spans of this page are replaced faster than they can be read.")


async def _read(
    spans: ProjectSpans, latest: pa.Table, trace_ids: Collection[bytes], columns: Sequence[str]
) -> pa.Table:
    """Read the rows at the places of versions, and others of their traces."""
    starts_us = integers_of(latest, "start_us")
    values: dict[str, Any] = {"trace_ids": packed_ids(trace_ids)}
    if len(starts_us) <= MANY_STARTS:
        starts, settings = _AT_STARTS, {**_BOUNDED, **SCATTERED}
        values["starts"] = packed_starts(starts_us)
    else:
        starts, settings = _BETWEEN_STARTS, {**_BOUNDED, "use_skip_indexes": int(len(trace_ids) == 1)}
        values |= {"first_us": int(starts_us.min()), "last_us": int(starts_us.max())}
    query = Select(
        spans.project_id,
        Table.SPANS,
        columns,
        prewhere=[*starts, _IN_TRACES],
        order_by=["trace_id", "start_us", "span_id"],
        parameters=values,
    )
    rows = await spans.select(query, step="narrow rows", settings=settings)
    if rows.get_total_buffer_size() > NARROW_BYTES_MAX:
        raise InvalidInput(
            f"The names of the spans of these traces take more than {NARROW_BYTES_MAX:,} bytes, too much for one"
            " response. The spans of a trace come in pages from /spans/query with a filter on `trace_id`."
        )
    return rows


def row_indexes(latest: pa.Table, rows: pa.Table) -> Integers:
    """Return the index of the row of each version, or else of the latest row that replaced it at its place in its
    partition; −1 if there is neither (``standing_in`` in ``versions.py``).

    Fast if both are sorted by trace, start and span id.
    """
    places = _places(latest)
    order = np.argsort(places, kind="stable")
    found = np.searchsorted(places, _places(rows), sorter=order)
    at = order[np.minimum(found, len(order) - 1)]
    partitions = pc.unique(latest.column("partition_id"))
    same_place = (places[at] == _places(rows)) & (_codes(latest, partitions)[at] == _codes(rows, partitions))
    wanted, versions = integers_of(latest, "version")[at], integers_of(rows, "version")
    fitting = np.flatnonzero(same_place & (versions >= wanted))
    rank = np.where(versions == wanted, _EXACT, versions)[fitting]
    by_rank = fitting[np.argsort(rank, kind="stable")]
    indexes = np.full(latest.num_rows, -1)
    indexes[at[by_rank]] = by_rank  # of several rows the last one stays
    return indexes


def _places(rows: pa.Table) -> np.ndarray[Any, Any]:
    """Return trace, start and span id of each row as bytes of one length."""
    starts = integers_of(rows, "start_us").astype(">i8").view(np.uint8).reshape(-1, 8)
    parts = (_id_matrix(rows, "trace_id"), starts, _id_matrix(rows, "span_id"))
    places: np.ndarray[Any, Any] = np.concatenate(parts, axis=1).view(f"S{2 * ID_BYTES + 8}").ravel()
    return places


def _id_matrix(rows: pa.Table, name: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(id_bytes(rows, name), np.uint8).reshape(-1, ID_BYTES)


def _codes(rows: pa.Table, partitions: pa.Array) -> np.ndarray[Any, Any]:
    """Return the index of each row's partition among ``partitions``, −1 if it is another one."""
    codes: np.ndarray[Any, Any] = (
        pc.index_in(rows.column("partition_id"), value_set=partitions).fill_null(-1).to_numpy()
    )
    return codes


def table_of(versions: Collection[Version]) -> pa.Table:
    """Return versions as a table with their columns."""
    columns = zip(*versions, strict=True) if versions else ((),) * len(Version._fields)
    pairs = zip(Version._fields, columns, strict=True)
    return pa.table({name: pa.array(list(column), _KINDS[name]) for name, column in pairs})
