"""Which version of a span is shown: the rule, and the only statements that know it (contract §4, ADR 0003).

A span may have been sent several times. In one log the version with the highest offset stands, unless it was deleted (a
deletion is the odd version above it); across logs the one whose record is latest, then the higher offset. That one is the
span's *head*, in ``span_heads``; a row of ``spans`` is shown exactly when it is the head of its key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from common.span import Metrics
from query_api.spans.parameters import ids_in
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.render import SpanKey
from query_api.spans.rollup import TraceSums

_METRICS: Final = Metrics._fields
_HEADS: Final = f"""
SELECT
    trace_id,
    span_id,
    argMax(
        tuple(log, intDiv(last_version, 2), last_start_us, {", ".join(f"last_{name}" for name in _METRICS)}),
        tuple(last_record_ms, last_version, log)
    ) AS head
FROM
(
    SELECT
        trace_id,
        span_id,
        log,
        max(version) AS last_version,
        argMax(record_ms, version) AS last_record_ms,
        argMax(start_us, version) AS last_start_us,
        {", ".join(f"argMax({name}, version) AS last_{name}" for name in _METRICS)}
    FROM span_heads
    WHERE {{of_project}} AND {{which}}
    GROUP BY trace_id, span_id, log
    HAVING last_version % 2 = 0
)
GROUP BY trace_id, span_id
"""
_HEADS_OF: Final = f"""
SELECT trace_id, span_id, head.1 AS log, head.2 AS log_offset, head.3 AS start_us
FROM ({_HEADS})
"""
_SUMS: Final = ", ".join(f"sum(head.{index}) AS {name}" for index, name in enumerate(_METRICS, 4))
_SUMS_OF: Final = f"""
SELECT trace_id, {_SUMS}
FROM ({_HEADS})
GROUP BY trace_id
"""
TRACES_WITH_SUMS: Final = _SUMS_OF.replace("{which}", "1").strip()
"""What the shown spans of every trace of the project used together: ``trace_id`` and a column each of ``Metrics``."""

_IN_TRACES: Final = f"trace_id IN {ids_in('{trace_ids:Array(String)}')}"
_IN_SPANS: Final = f"span_id IN {ids_in('{span_ids:Array(String)}')}"
_IN_WHOLE_TRACES: Final = f"trace_id IN {ids_in('{whole_trace_ids:Array(String)}')}"
_HEADS_AND_SUMS_OF: Final = f"""
SELECT trace_id, groupArrayIf(tuple(head.3, span_id, trace_id, head.1, head.2), {_IN_SPANS}) AS heads, {_SUMS}
FROM ({_HEADS.replace("{which}", f"{_IN_TRACES} AND ({_IN_WHOLE_TRACES} OR {_IN_SPANS})")})
GROUP BY trace_id
"""


class Version(NamedTuple):
    """One row of ``spans``: where it stands and which record it came by."""

    start_us: int
    span_id: bytes
    trace_id: bytes
    log: bytes
    log_offset: int

    @property
    def key(self) -> SpanKey:
        """The span that this is a version of."""
        return SpanKey(self.trace_id, self.span_id)


async def heads_and_sums(
    spans: ProjectSpans, keys: Iterable[SpanKey], *, traces_to_sum: Collection[bytes]
) -> tuple[set[Version], TraceSums]:
    """The shown versions of the spans, and of others of their traces; and what the shown spans of each of
    ``traces_to_sum``, which are traces of ``keys``, used together. One statement: to plan a second costs more than to read.
    """
    wanted = set(keys)
    trace_ids, span_ids = {key.trace_id for key in wanted}, {key.span_id for key in wanted}
    if not traces_to_sum:
        return set(await heads_of_ids(spans, trace_ids=trace_ids, span_ids=span_ids)), {}
    parameters = {
        "trace_ids": _hex(trace_ids),
        "span_ids": _hex(span_ids),
        "whole_trace_ids": _hex(set(traces_to_sum)),
    }
    rows = await spans.select(_HEADS_AND_SUMS_OF, parameters)
    heads = {Version(*head.values()) for heads in _column(rows, "heads") for head in heads}
    sums = _sums(rows)
    return heads, {trace_id: sums[trace_id] for trace_id in traces_to_sum if trace_id in sums}


async def heads_of_ids(
    spans: ProjectSpans, *, trace_ids: Collection[bytes] = (), span_ids: Collection[bytes] = ()
) -> list[Version]:
    """The shown versions of all spans that are of one of the traces and have one of the ids, where these are given."""
    which = [text for text, ids in ((_IN_TRACES, trace_ids), (_IN_SPANS, span_ids)) if ids]
    if not which:
        return []
    parameters = {"trace_ids": _hex(trace_ids), "span_ids": _hex(span_ids)}
    rows = await spans.select(_HEADS_OF.replace("{which}", " AND ".join(which)), parameters)
    return versions_of(rows)


async def sums_of_traces(spans: ProjectSpans, trace_ids: Iterable[bytes]) -> TraceSums:
    """What the shown spans of each trace used together."""
    wanted = _hex(set(trace_ids))
    if not wanted:
        return {}
    rows = await spans.select(_SUMS_OF.replace("{which}", _IN_TRACES), {"trace_ids": wanted})
    return _sums(rows)


def versions_of(rows: pa.Table) -> list[Version]:
    """The rows of a table that has the columns of a ``Version``."""
    return list(map(Version._make, zip(*(_column(rows, name) for name in Version._fields), strict=True)))


def _sums(rows: pa.Table) -> TraceSums:
    metrics = zip(*(_column(rows, name) for name in _METRICS), strict=True)
    return dict(zip(_column(rows, "trace_id"), map(Metrics._make, metrics), strict=True))


def _column(rows: pa.Table, name: str) -> list[Any]:
    values: list[Any] = rows.column(name).to_pylist()
    return values


def _hex(ids: Iterable[bytes]) -> list[str]:
    return [each.hex() for each in ids]
