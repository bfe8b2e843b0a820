"""Which rows of a window are visible, without looking up each of them: nearly all spans have one version.

A trace is *doubtful* if a span of it may have several versions, or a row that is not its latest one:

- ``span_versions`` has rows of the trace in several parts, or of several partitions. In one part the engine keeps one
  row of a span and a partition, so two versions of a span are in different parts until the engine merges them.
- A row of it in ``spans`` starts in a second in which ``spans`` and ``span_versions`` do not have the same starts and
  versions. Then a version was replaced, moved or deleted, a row is stored twice, or one is being stored. ``spans``
  keeps the rows of earlier versions, so such a second stays doubtful.

Each row of any other trace is the only one of its span. Of the rows of doubtful traces those count that are at the
place of a latest version, and of several at one place the one with the highest number. Both tables are read as the
statement found them, so a version that is stored meanwhile makes a second differ, and does not count twice.

Grouping traces by 64 bits of hash takes two thirds of the time of grouping by their ids. Two traces with the same hash
are both examined, or, if one of them is doubtful, perhaps only the other one: among ten million, once in 400,000
responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from common.clickhouse.select import Select, Table, Union
from common.span_version import IS_SENT_SQL, RANK_SQL

PLACE: Final = ("trace_id", "span_id", "partition_id", "start_us")

_PLACE_HASH: Final = f"cityHash64({', '.join(PLACE)})"
_ROW_HASH: Final = f"cityHash64({', '.join(PLACE)}, version, stored_us)"
"""Of a row of ``spans``. Each try to store a row has its own microsecond (``ingest/clickhouse_sink.py``). The name of a
part would not do: merges change it, and servers that are asked one after the other have parts of the same names."""

_MEMBERS: Final = ("latest.1 AS version", "latest.2 AS record_ms", "latest.3 AS start_us")
_TRACE_HASH: Final = "cityHash64(trace_id)"
_PART: Final = "_part_index + cityHash64(partition_id) + cityHash64(shardNum())"
"""Differs for the parts of two shards, which may have the same number. The hashes are computed once for many rows."""

_SECOND: Final = "intDiv(start_us, 1000000) AS second"
_VERSION_HASH: Final = "cityHash64(start_us, version)"


def is_visible(project_id: UUID, window: Sequence[str], in_traces: Sequence[str]) -> str:
    """Return the condition that a row of ``spans`` that meets ``window`` is the one that counts of its span.

    ``window`` are conditions on ``start_us`` and ``trace_id``; ``in_traces`` is one on ``trace_id`` that the rows meet,
    if there is one, and bounds what is read of ``span_versions``.
    """
    hashes = _hashes(project_id, _doubtful(project_id, window, in_traces))
    row = f"argMaxIf({_ROW_HASH}, (version, stored_us), {_PLACE_HASH} IN ({hashes})) AS row"
    rows = Select(
        project_id,
        Table.SPANS,
        [f"any({_TRACE_HASH}) AS trace", row],
        where=[*window, f"{_TRACE_HASH} IN ({hashes})"],
        group_by=[_PLACE_HASH],
    )
    visible = Select(project_id, rows, ["arrayJoin([trace, row])"])
    return f"if({_TRACE_HASH} IN ({visible}), {_ROW_HASH} IN ({visible}), 1)"


def _hashes(project_id: UUID, traces: Union) -> Select:
    """Return a query of the hashes of some traces, and of the places of the latest versions of their spans.

    A span that is deleted gives zero, which is the hash of no place.
    """
    keys = ("trace_id", "span_id", "partition_id")
    latest = "max((version, record_ms, start_us)) AS latest"
    in_partitions = Select(
        project_id, Table.VERSIONS, [*keys, latest], where=[f"trace_id IN ({traces})"], group_by=keys
    )
    versions = Select(project_id, in_partitions, [*keys, *_MEMBERS])
    place = f"max(({', '.join(RANK_SQL)}, start_us)) AS place"
    of_spans = Select(project_id, versions, ["trace_id", "span_id", place], group_by=keys[:2])
    hashes = f"[{_TRACE_HASH}, if(place.3 % 2 = 0, cityHash64(trace_id, span_id, place.4, place.5), 0)]"
    return Select(project_id, of_spans, [f"arrayJoin({hashes})"])


def _doubtful(project_id: UUID, window: Sequence[str], in_traces: Sequence[str]) -> Union:
    """Return a query of the ids of the doubtful traces of a window."""
    scattered = Select(
        project_id,
        Table.VERSIONS,
        ["reinterpretAsFixedString(any(reinterpretAsUInt128(trace_id)))"],  # `any` of a text takes a third longer
        where=in_traces,
        group_by=[_TRACE_HASH],
        having=[f"min({_PART}) != max({_PART})"],
    )
    # A condition takes longer than a factor, since few rows are deletions.
    of_versions, of_spans = (
        f"sum({starts}) AS starts" for starts in (f"{_VERSION_HASH} * ({IS_SENT_SQL})", _VERSION_HASH)
    )
    starts = Union(
        [
            Select(
                project_id, Table.VERSIONS, [_SECOND, of_versions], where=[*window, *in_traces], group_by=["second"]
            ),
            Select(project_id, Table.SPANS, [_SECOND, of_spans], where=window, group_by=["second"]),
        ]
    )
    differing = Select(project_id, starts, ["second"], group_by=["second"], having=["groupBitXor(starts) != 0"])
    in_seconds = f"intDiv(start_us, 1000000) IN ({differing})"
    return Union([scattered, Select(project_id, Table.SPANS, ["trace_id"], where=[*window, in_seconds])])
