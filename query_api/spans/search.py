"""Pages of spans: keyset over ``spans``, the head check, and the rows (contract §3.3).

A page is found in steps, each as narrow as it can be:

1. *candidates*: the light columns of rows that match, in order, behind the position;
2. at the same time, for these: which of them are heads, the sums of the traces whose roots are among them, and the
   rows of as many as the page can still take;
3. again from the last candidate while the page is not full.

Walking gives every span once because a head is one row (same key, log, offset and start) and the order is total on keys. A row
that is stale, deleted, or there twice because the engine has not merged yet, is a candidate and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Any, Final

import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT
from query_api.spans.compile import Compiled
from query_api.spans.heads import Version, heads_and_sums, versions_of
from query_api.spans.models import Order
from query_api.spans.parameters import ids_in
from query_api.spans.position import Position
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.render import ROW_COLUMNS, Rendered, render
from query_api.spans.rollup import TraceSums

SPARE_CANDIDATES: Final = 16
"""Looked at beyond what a page needs, so that a few stale versions do not cost a second round."""

CANDIDATES_MAX: Final = 50_000
"""In one round: about 5 MB of light columns."""

_LAST_ID: Final = b"\xff" * 16


@dataclass(frozen=True, slots=True)
class Window:
    """Which spans can be on a page, and in which order.

    Bounds are microseconds; reference §6.2 decides which is part of the window. ``after`` is where the last page ended.
    ``rate_percent`` keeps so many of a hundred traces.
    """

    order: Order = Order.DESCENDING
    newest_us: int | None = None
    oldest_us: int | None = None
    rate_percent: int = 100
    after: Position | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Spans in order. ``ends_at`` is the position of the last, when more can follow."""

    spans: Sequence[Rendered]
    ends_at: Position | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    version: Version
    is_root: bool
    answer_bytes: int


async def find_page(spans: ProjectSpans, matching: Compiled, window: Window, *, limit: int, bytes_max: int) -> Page:
    """The first spans that match behind the window's position: ``limit`` of them, or as many as ``bytes_max`` holds, or all
    there are. A page that is not the end has at least one.
    """
    search = _Search(spans, matching, window)
    page = _PageInProgress(limit=limit, bytes_max=bytes_max)
    size = min(limit + 1 + SPARE_CANDIDATES, CANDIDATES_MAX)
    while True:
        batch = await search.candidates(size)
        (heads, sums), rows = await asyncio.gather(
            heads_and_sums(
                spans,
                [candidate.version.key for candidate in batch],
                traces_to_sum={candidate.version.trace_id for candidate in batch if candidate.is_root},
            ),
            fetch_rows(spans, [candidate.version for candidate in page.expected(batch)]),
        )
        page.add([candidate for candidate in batch if candidate.version in heads], sums, rows)
        if page.is_full or search.is_at_end:
            break
        size = min(size * 2, CANDIDATES_MAX)
    if missing := page.missing():
        page.rows.append(await fetch_rows(spans, missing))
    return page.finished()


async def fetch_rows(spans: ProjectSpans, versions: Sequence[Version]) -> pa.Table:
    """Rows with ``ROW_COLUMNS`` among which are all of these versions, and hardly any other; in any order."""
    if not versions:
        return _NO_ROWS
    starts = sorted({version.start_us for version in versions})
    span_ids = [version.span_id.hex() for version in versions]
    return await spans.select(_ROWS, {"low": starts[0], "high": starts[-1], "starts": starts, "span_ids": span_ids})


def render_versions(rows: Sequence[pa.Table], versions: Sequence[Version], sums: TraceSums) -> list[Rendered]:
    """The spans of ``versions``, in their order, without those that are not among the rows: replaced a moment ago."""
    table = pa.concat_tables([part for part in rows if part.num_rows] or [_NO_ROWS])
    place = {version: index for index, version in enumerate(versions_of(table))}
    indexes = [place[version] for version in versions if version in place]
    return render(table.take(pa.array(indexes, pa.int64())), sums)


_NO_ROWS: Final = pa.table({name: pa.array([], pa.binary()) for name in ROW_COLUMNS})
_ROWS: Final = f"""
SELECT {", ".join(ROW_COLUMNS)}
FROM spans
WHERE {{of_project}}
    AND start_us >= {{low:Int64}} AND start_us <= {{high:Int64}}
    AND start_us IN (SELECT arrayJoin({{starts:Array(Int64)}}))
    AND span_id IN {ids_in("{span_ids:Array(String)}")}
"""


class _Search:
    """Goes along the candidates of a window, round by round."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, window: Window) -> None:
        self._spans = spans
        self._matching = matching
        self._window = window
        self.is_at_end = False

    async def candidates(self, size: int) -> list[_Candidate]:
        """The next rows that match, about ``size`` of them, all versions of a key together; none at the end."""
        while True:
            sql, parameters = candidates_statement(self._matching, self._window)
            rows = await self._spans.select(sql, {**parameters, "candidates": size})
            batch = _candidates(rows)
            if len(batch) < size:
                self.is_at_end = True
                return batch
            last = batch[-1].version
            whole = [candidate for candidate in batch if candidate.version[:3] != last[:3]]
            if whole:
                self._window = replace(self._window, after=Position(*whole[-1].version[:3]))
                return whole
            size *= 2  # one key with so many versions


def _candidates(rows: pa.Table) -> list[_Candidate]:
    columns = (rows.column(name).to_pylist() for name in ("parent_id", "answer_bytes"))
    return [
        _Candidate(version, parent_id == NO_PARENT, answer_bytes)
        for version, parent_id, answer_bytes in zip(versions_of(rows), *columns, strict=True)
    ]


def candidates_statement(matching: Compiled, window: Window) -> tuple[str, dict[str, Any]]:
    """The statement of one round, for ``{candidates:UInt32}`` rows, and its other values."""
    direction = "DESC" if window.order is Order.DESCENDING else "ASC"
    bounds, parameters = _bounds(window)
    conditions = "\n    AND ".join(["{of_project}", *bounds, matching.sql])
    order = ", ".join(f"{column} {direction}" for column in Position._fields)
    sql = (
        "SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes\nFROM spans\n"
        f"WHERE {conditions}\nORDER BY {order}\nLIMIT {{candidates:UInt32}}\n"
    )
    return sql, {**parameters, **matching.parameters}


def _bounds(window: Window) -> tuple[list[str], dict[str, Any]]:
    """The window as conditions. A position is inside its leading bound, and stands for it: a hand-made one lies on it."""
    is_descending = window.order is Order.DESCENDING
    bounds: list[str] = []
    parameters: dict[str, Any] = {}
    if window.after is not None:
        sign = "<" if is_descending else ">"
        bounds.append(f"start_us {sign}= {{after_start_us:Int64}}")  # alone it prunes by the primary key
        bounds.append(
            f"(start_us, span_id, trace_id) {sign} ({{after_start_us:Int64}},"
            " toFixedString(unhex({after_span_id:String}), 16), toFixedString(unhex({after_trace_id:String}), 16))"
        )
        parameters |= {
            "after_start_us": window.after.start_us,
            "after_span_id": window.after.span_id.hex(),
            "after_trace_id": window.after.trace_id.hex(),
        }
    if window.newest_us is not None and (window.after is None or not is_descending):
        bounds.append(f"start_us {'<' if is_descending else '<='} {{newest_us:Int64}}")
        parameters["newest_us"] = window.newest_us
    if window.oldest_us is not None and (window.after is None or is_descending):
        bounds.append(f"start_us {'>=' if is_descending else '>'} {{oldest_us:Int64}}")
        parameters["oldest_us"] = window.oldest_us
    if window.rate_percent < 100:
        bounds.append("reinterpretAsUInt32(reverse(substring(trace_id, 1, 4))) % 100 < {rate_percent:UInt8}")
        parameters["rate_percent"] = window.rate_percent
    return bounds, parameters


class _PageInProgress:
    """Heads found so far, and what is known of them."""

    def __init__(self, *, limit: int, bytes_max: int) -> None:
        self._limit = limit
        self._bytes_max = bytes_max
        self._winners: dict[Version, int] = {}
        self._sums: dict[bytes, Any] = {}
        self.rows: list[pa.Table] = []

    @property
    def is_full(self) -> bool:
        """Whether it is known what the page holds and that more can follow."""
        return len(self._winners) > len(self._fitting())

    def expected(self, batch: Sequence[_Candidate]) -> list[_Candidate]:
        """The candidates that are on the page when all of them are heads."""
        room = self._limit - len(self._winners)
        bytes_so_far = accumulate((candidate.answer_bytes for candidate in batch), initial=sum(self._winners.values()))
        fitting = takewhile(lambda pair: pair[1] < self._bytes_max, zip(batch, bytes_so_far, strict=False))
        return [candidate for candidate, _ in fitting][:room]

    def add(self, heads: Sequence[_Candidate], sums: TraceSums, rows: pa.Table) -> None:
        for head in heads:
            self._winners.setdefault(head.version, head.answer_bytes)  # the same row may be there twice
        self._sums.update(sums)
        self.rows.append(rows)

    def missing(self) -> list[Version]:
        """What is on the page, but was not expected to be."""
        here = {version for rows in self.rows if rows.num_rows for version in versions_of(rows)}
        return [version for version in self._fitting() if version not in here]

    def finished(self) -> Page:
        fitting = self._fitting()
        spans = render_versions(self.rows, fitting, self._sums)
        if len(self._winners) == len(fitting):
            return Page(spans, None)
        last = fitting[-1]
        return Page(spans, Position(last.start_us, last.span_id, last.trace_id))

    def _fitting(self) -> list[Version]:
        """The winners that fit on the page: always the first, then while there is room."""
        fitting: list[Version] = []
        bytes_count = 0
        for version, answer_bytes in self._winners.items():
            bytes_count += answer_bytes
            if fitting and (len(fitting) == self._limit or bytes_count > self._bytes_max):
                break
            fitting.append(version)
        return fitting


def position_of_reference_cursor(start_us: int, span_id: bytes, order: Order) -> Position:
    """The position that the reference's own cursor means (reference §6.2): behind all spans of that time and id."""
    return Position(start_us, span_id, bytes(16) if order is Order.DESCENDING else _LAST_ID)
