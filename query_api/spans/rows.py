"""Rows of spans by their versions: read, laid out, and put into the order of an answer.

Versions are asked for before it is certain that they are shown, so that nothing waits: while one statement runs, what another one
found is laid out (``render.py``). What is shown is decided elsewhere (``heads.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, Self

from common.clickhouse.span_columns import ALL_MEMBERS
from common.limits import MIB
from query_api.spans.columns import among_ids, among_starts, packed_ids, packed_starts
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.render import NO_ROWS, Layout, Rendered, row_columns
from query_api.spans.rollup import TraceSums
from query_api.spans.version import Version

LARGE_SPANS: Final = 1_000
LARGE_BYTES: Final = 1 * MIB
"""From either on, work on the rows would hold up other requests: longer than about 5 ms."""

SPANS_AHEAD_MAX: Final = 4_000
"""Of one request: a few MB."""

HEAD_START_S: Final = 0.001
"""A thread asks the engine, and needs the interpreter for 0.3 ms to do so. Without this pause it would get it only when the loop
next waits, and the engine would be idle until then.
"""

SHAPES_MAX: Final = 256
"""How many statements are kept: one for each set of members that the spans of a page have."""

_OF_VERSIONS: Final = f"start_us IN {among_starts('starts')} AND span_id IN {among_ids('span_ids')}"
_SIDE_BY_SIDE: Final = {"merge_tree_min_rows_for_concurrent_read": 1, "merge_tree_min_bytes_for_concurrent_read": 1}
"""The rows of a page are scattered and cost a granule each. By default the engine reads less than millions of
rows in one thread; with two, 50 of them take 60 ms instead of 95. Not for statements that stop early: what they read side by side they
may read in vain."""


async def fetch_rows(spans: ProjectSpans, versions: Collection[Version], *, members: int = ALL_MEMBERS) -> Layout:
    """Rows among which are all of these versions, and hardly any other, in any order; laid out as soon as they are there.

    ``members``: which of ``OPTIONAL_MEMBERS`` one of them has, or may have. Each costs as much as one that is there: a column is
    read where a row lies, whatever it holds.
    """
    if not versions:
        return NO_ROWS
    values = {
        "starts": packed_starts([version.start_us for version in versions]),
        "span_ids": packed_ids([version.span_id for version in versions]),
    }
    rows = await spans.select(_rows_statement(members), values, step="rows", settings=_SIDE_BY_SIDE)
    is_large = rows.num_rows > LARGE_SPANS or rows.get_total_buffer_size() > LARGE_BYTES
    return await asyncio.to_thread(Layout.of, rows) if is_large else Layout.of(rows)


@lru_cache(maxsize=SHAPES_MAX)
def _rows_statement(members: int) -> str:
    return f"\nSELECT {', '.join(row_columns(members))}\nFROM spans\nPREWHERE {{of_project}} AND {_OF_VERSIONS}\n"


class RowsAhead:
    """Rows that are read while it is looked up which of them are shown. What nobody asked for in the end is let go on the way out."""

    def __init__(self, spans: ProjectSpans) -> None:
        self._spans = spans
        self._reading: dict[Version, asyncio.Task[Layout]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        left = set(self._reading.values())
        for reading in left:
            reading.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def begin(self, versions: Collection[Version]) -> None:
        """Begin to read these, unless they are too many to be read in vain; returns when the engine has been asked."""
        if versions and len(self._reading) + len(versions) <= SPANS_AHEAD_MAX:
            self._read(versions)
            await asyncio.sleep(HEAD_START_S)

    async def take(self, versions: Collection[Version]) -> list[Layout]:
        """What holds these versions, as far as they have rows; those that nobody began to read are read now."""
        if missing := [version for version in versions if version not in self._reading]:
            self._read(missing)
        return list(await asyncio.gather(*{self._reading.pop(version) for version in versions}))

    def _read(self, versions: Collection[Version]) -> None:
        reading = asyncio.create_task(fetch_rows(self._spans, versions), name="read-rows")
        self._reading |= dict.fromkeys(versions, reading)


def render_versions(layouts: Iterable[Layout], versions: Sequence[Version], sums: TraceSums) -> list[Rendered]:
    """The spans of ``versions``, in their order, without those that are not laid out: replaced a moment ago."""
    known: dict[Version, Rendered] = {}
    for layout in layouts:
        known.update(zip(layout.versions, layout.spans(sums), strict=True))
    return [span for span in map(known.get, versions) if span is not None]
