"""One page: run rounds until it is full, take what fits, and write what follows its items in the response.

Pages of spans, of traces and of the feed are orderings of this (contract §3.3). A round finds candidates, decides
which of them are visible, and takes as many as the page can hold by count and by bytes.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, takewhile
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT
from common.errors import DeadlineExceeded, InvalidInput, Unavailable
from common.fair_share import in_thread
from query_api.filter.sql.compile import Compiled
from query_api.spans.latest_versions import LatestAndSums, latest_and_sums
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import LARGE_BYTES, LARGE_SPANS, Layout, Rendered, fetch_rows, render_current, render_versions
from query_api.spans.usage import TraceSums
from query_api.spans.versions import Version, rows_as, standing_in, values_of, versions_of

CANDIDATE_COLUMNS: Final = (*Version._fields, "parent_id", "response_bytes", "members")

TRIES_MAX: Final = 5
"""How often versions are looked up again because the row of one is still being stored."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Items in order, and what the response says besides them."""

    items: Sequence[Item]
    cursor: str | None
    """The cursor of the next page; ``None`` if there is none."""

    is_complete: bool
    """False if the budget ended before the page was full, or if all its items were deleted while it was read."""

    explanation: bytes
    """The member ``explain`` with a comma before it; empty if the request did not ask for it."""

    @property
    def members(self) -> bytes:
        """The members of the response after its items, each with a comma before it."""
        cursor = b"" if self.cursor is None else b',"windowing":{"next":"%b"}' % self.cursor.encode()
        complete = b"" if self.is_complete else b',"complete":false'
        return cursor + complete + self.explanation


def spans_json(page: Page[Rendered]) -> bytes:
    """Return the response of a page of spans."""
    spans = b",".join([span.json for span in page.items])
    return b'{"count":%d,"spans":[%b]%b}' % (len(page.items), spans, page.members)


class Rounds(ABC):
    """The search for one page, round by round."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether the page is full, or nothing is left to examine."""

    @property
    @abstractmethod
    def is_out_of_budget(self) -> bool:
        """Whether the budget does not suffice for another round."""

    @abstractmethod
    async def run_round(self) -> None:
        """Examine the next candidates. Raises ``DeadlineExceeded``; then nothing of this round is on the page."""


async def run_rounds(rounds: Rounds) -> bool:
    """Run rounds until they are done. Return false if the budget ended first.

    Raises ``DeadlineExceeded`` if it ended before the first round did.
    """
    is_first = True
    while not rounds.is_done:
        if rounds.is_out_of_budget:
            return False
        try:
            await rounds.run_round()
        except DeadlineExceeded:
            if is_first:
                raise
            return False
        is_first = False
    return True


class Capacity:
    """How much a page may still take. Its first item always fits."""

    def __init__(self, *, limit: int | None, bytes_max: int) -> None:
        self._limit = limit
        self._bytes_max = bytes_max
        self.count = 0
        self.bytes_count = 0
        self.is_exceeded = False
        """Whether an item did not fit: then more follow."""

    @property
    def is_at_limit(self) -> bool:
        """Whether the page holds as many items as were asked for."""
        return self.count == self._limit

    def takes(self, bytes_count: int) -> bool:
        """Return whether an item fits, and count it. After the first that does not fit, none does."""
        is_too_large = self.bytes_count + bytes_count > self._bytes_max
        if self.is_exceeded or (self.count and (self.is_at_limit or is_too_large)):
            self.is_exceeded = True
            return False
        self.count += 1
        self.bytes_count += bytes_count
        return True

    def expected(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that fit if all of them are visible."""
        sizes = (candidate.response_bytes for candidate in candidates)
        so_far = zip(candidates, accumulate(sizes, initial=self.bytes_count), strict=False)
        fitting = [candidate for candidate, _ in takewhile(lambda pair: pair[1] < self._bytes_max, so_far)]
        return fitting if self._limit is None else fitting[: self._limit - self.count]


class Candidate(NamedTuple):
    """A row that matches. Whether it is visible is not known yet."""

    version: Version
    is_root: bool
    response_bytes: int
    members: int
    """Which of ``OPTIONAL_MEMBERS`` it has, as bits."""


def candidates_of(rows: pa.Table) -> list[Candidate]:
    """Return the rows of a table with ``CANDIDATE_COLUMNS``."""
    are_roots = [parent_id == NO_PARENT for parent_id in values_of(rows, "parent_id")]
    others = (values_of(rows, name) for name in ("response_bytes", "members"))
    return rows_as(Candidate, versions_of(rows), are_roots, *others)


class SpansInProgress:
    """The spans of a page so far: their versions in order, and what is needed to render them."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, *, limit: int, bytes_max: int) -> None:
        self._spans = spans
        self._matching = matching
        self.capacity = Capacity(limit=limit, bytes_max=bytes_max)
        self.versions: dict[Version, None] = {}
        self._rows: list[Layout] = []
        self._sums: dict[bytes, Any] = {}

    async def look_up(self, candidates: Sequence[Candidate]) -> LatestAndSums:
        """Return which of the candidates are visible. Meanwhile fetch the rows of those that the page would take."""
        expected = self.capacity.expected(candidates)
        found, rows = await asyncio.gather(
            latest_and_sums(
                self._spans,
                [candidate.version for candidate in candidates],
                self._matching,
                traces_to_sum={candidate.version.trace_id for candidate in candidates if candidate.is_root},
            ),
            fetch_rows(
                self._spans,
                [candidate.version for candidate in expected],
                members=[candidate.members for candidate in expected],
            ),
        )
        self._rows.append(rows)
        self._sums.update(found.sums)
        return found

    def add(self, version: Version, response_bytes: int) -> bool:
        """Return whether a version fits, and add it if so. The same row may occur twice."""
        if version not in self.versions:
            if not self.capacity.takes(response_bytes):
                return False
            self.versions[version] = None
        return True

    def missing(self) -> list[Version]:
        """Return the versions without a row: they were not expected on the page, or were replaced since."""
        read = set(chain.from_iterable(rows.versions for rows in self._rows))
        return [version for version in self.versions if version not in read]

    def add_rows(self, rows: Layout, *, of: Collection[Version], are_current: bool) -> None:
        """Add rows of missing versions. If ``are_current``, a row that replaced a version takes its place."""
        self._rows.append(rows)
        if are_current:
            current = standing_in(of, set(rows.versions))
            self.versions = dict.fromkeys(current.get(version, version) for version in self.versions)

    async def rendered(self) -> list[Rendered]:
        """Return the spans; versions without a row are left out."""
        versions = list(self.versions)
        if len(versions) > LARGE_SPANS or self.capacity.bytes_count > LARGE_BYTES:
            return await in_thread(render_versions, self._rows, versions, self._sums)
        return render_versions(self._rows, versions, self._sums)


LookUp: TypeAlias = Callable[[Collection[Version]], Awaitable[tuple[Sequence[Version], Sequence[Layout], TraceSums]]]
"""Returns the latest versions of some spans in order, their rows, and what their traces used. Its argument is the
versions that were looked up before and have no row: another version takes the place of each."""


async def render_latest(look_up: LookUp) -> list[Rendered]:
    """Return the latest versions of some spans, all from one state of the table.

    Raises ``Unavailable`` if they are replaced faster than they can be read.
    """
    absent: set[Version] = set()
    for _ in range(TRIES_MAX):
        latest, rows, sums = await look_up(absent)
        is_large = len(latest) > LARGE_SPANS
        found = await in_thread(render_current, rows, latest, sums) if is_large else render_current(rows, latest, sums)
        if len(found) == len(latest):
            return found
        absent |= set(latest).difference(standing_in(latest, set(chain.from_iterable(part.versions for part in rows))))
    raise Unavailable("The spans of this page are replaced faster than they can be read.")


def parse_ids(texts: Iterable[str], parse: Callable[[str], bytes], *, message: str | None = None) -> list[bytes]:
    """Return the distinct ids. Raises ``InvalidInput`` for a text that is not an id, with ``message`` or the reason."""
    try:
        return list(dict.fromkeys(map(parse, texts)))
    except ValueError as exc:
        raise InvalidInput(message or str(exc)) from exc


def split_lists(lists: Iterable[str]) -> list[str]:
    """Return the elements of comma-separated lists."""
    return [text.strip() for joined in lists for text in joined.split(",") if text.strip()]
