"""Rows ahead: asked for at once, read once, and let go when nobody wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from itertools import chain, islice, repeat

import pyarrow as pa
import pytest

from common.clickhouse.span_columns import OPTIONAL_MEMBERS
from common.clickhouse.store import Statement
from common.errors import DeadlineExceeded, InvalidInput, OutOfMemory, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.limits import MIB
from common.times import SystemClock
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import render_versions
from query_api.spans.rows_ahead import SPANS_AHEAD_MAX, RowsAhead
from query_api.spans.versions import Version, packed_ids, packed_starts, split_ids
from tests.support.api import UntouchedStore
from tests.support.row_tables import row, table

BYTES_MAX = 512 * MIB

VERSIONS = pa.schema(
    {
        "start_us": pa.int64(),
        "span_id": pa.binary(16),
        "trace_id": pa.binary(16),
        "partition_id": pa.binary(),
        "version": pa.uint64(),
        "members": pa.uint32(),
    }
)


def version(number: int) -> Version:
    """Of a span that is alone in its trace."""
    return Version(number, number.to_bytes(16, "big"), number.to_bytes(16, "little"), b"partition_id", number)


class Shelf(UntouchedStore):
    """An engine that holds rows of these versions, and responds when it is allowed to."""

    def __init__(self, *numbers: int) -> None:
        self._held: Sequence[Version] = [version(number) for number in numbers]
        self.asked: list[Statement] = []
        self.left_alone = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: Exception | None = None

    def hold(self, versions: Sequence[Version]) -> None:
        self._held = versions

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        self.asked.append(statement)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.left_alone += 1
            raise
        if self.failure is not None:
            raise self.failure
        wanted = split_ids(statement.parameters["span_ids"])
        return table([row(**each._asdict()) for each in self._held if each.span_id in wanted])

    def spans(self) -> ProjectSpans:
        return ProjectSpans(self, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=60.0)


async def begin(
    rows: RowsAhead, versions: Collection[Version], *, others: Collection[Version] = (), members: Collection[int] = ()
) -> None:
    """Begin to read these versions, with these members, when ``others`` were found as well."""
    of_each = chain(members, repeat(0))
    found = [each._asdict() | {"members": next(of_each)} for each in (*versions, *others)]
    sent = pa.Table.from_pylist(found, VERSIONS)
    await rows.begin(sent, {each.trace_id for each in versions})


async def taken(rows: RowsAhead, versions: Collection[Version]) -> set[Version]:
    return {each for layout in await rows.take(versions) for each in layout.versions}


async def test_begun_rows_are_requested_at_once_and_only_once() -> None:
    shelf = Shelf(1, 2, 3)
    shelf.may_answer.clear()

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        await begin(rows, [version(1), version(2)])
        assert len(shelf.asked) == 1
        shelf.may_answer.set()

        assert await taken(rows, [version(1), version(2)]) == {version(1), version(2)}
    assert len(shelf.asked) == 1


async def test_traces_that_were_not_begun_are_read_when_taken() -> None:
    shelf = Shelf(1, 2, 3)

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        await begin(rows, [version(1)])

        assert await taken(rows, [version(1), version(3), version(9)]) == {version(1), version(3)}
    assert len(shelf.asked) == 2


async def test_other_traces_are_not_read() -> None:
    shelf = Shelf(1, 2, 3)

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        await begin(rows, [version(1), version(3)], others=[version(2)])

        assert await taken(rows, [version(1), version(3)]) == {version(1), version(3)}
    assert str(shelf.asked[0].parameters["span_ids"]) == str(packed_ids([version(1).span_id, version(3).span_id]))
    assert str(shelf.asked[0].parameters["starts"]) == str(packed_starts([1, 3]))


async def test_traces_begun_together_can_be_taken_separately() -> None:
    shelf = Shelf(1, 2)

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        await begin(rows, [version(1), version(2)])

        assert version(1) in await taken(rows, [version(1)])
        assert version(2) in await taken(rows, [version(2)])
    assert len(shelf.asked) == 1


@pytest.mark.parametrize(
    ("counts", "statements"), [([SPANS_AHEAD_MAX], 1), ([SPANS_AHEAD_MAX + 1], 0), ([1, SPANS_AHEAD_MAX], 1)]
)
async def test_rows_read_ahead_are_limited(counts: list[int], statements: int) -> None:
    shelf = Shelf()
    numbers = iter(range(2 * SPANS_AHEAD_MAX))

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        for count in counts:
            await begin(rows, [version(number) for number in islice(numbers, count)])

    assert len(shelf.asked) == statements


async def test_failure_is_raised_when_the_rows_are_taken() -> None:
    shelf = Shelf(1)
    shelf.failure = Unavailable("The engine is unavailable.")

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        await begin(rows, [version(1)])

        with pytest.raises(Unavailable):
            await rows.take([version(1)])


async def test_rows_that_nobody_takes_are_dropped_even_if_they_failed() -> None:
    away, slow = Shelf(1), Shelf(1)
    away.failure = Unavailable("The engine is unavailable.")
    slow.may_answer.clear()

    for shelf in (away, slow):
        async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
            await begin(rows, [version(1)])

    assert slow.left_alone == 1


async def test_spans_are_rendered_in_the_given_order_without_missing_ones() -> None:
    shelf = Shelf(1, 2, 3)
    asked = [version(3), version(9), version(1)]

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        rendered = render_versions(await rows.take(asked), asked, {})

    assert [each.version for each in rendered] == [version(3), version(1)]


@pytest.mark.parametrize("is_begun", [True, False])
async def test_only_columns_that_a_span_needs_are_read(is_begun: bool) -> None:
    shelf = Shelf(1, 2, 3)
    links, scope = (1 << list(OPTIONAL_MEMBERS).index(name) for name in ("links", "scope"))

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        if is_begun:
            await begin(rows, [version(1), version(2)], others=[version(3)], members=[links, 0, scope])
        await rows.take([version(1), version(2)])

    read = set(shelf.asked[0].sql.partition("FROM")[0].replace(",", " ").split())
    assert read.intersection(OPTIONAL_MEMBERS) == ({"links"} if is_begun else set(OPTIONAL_MEMBERS))


async def test_scattered_rows_are_read_in_parallel() -> None:
    shelf = Shelf(1)

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        await rows.take([version(1)])

    assert shelf.asked[0].settings["merge_tree_min_rows_for_concurrent_read"] == 1


class Slices(Shelf):
    """An engine whose results end after two rows."""

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        return (await super().select(statement, deadline_s=deadline_s)).take([0, 1])


def of_trace(number: int) -> Version:
    return version(number)._replace(trace_id=bytes(15) + b"\x01")


async def test_too_large_trace_is_rejected_before_it_is_read_completely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("query_api.spans.rows_ahead.READ_BYTES_MAX", 1)
    versions = [of_trace(number) for number in range(1, 100)]
    shelf = Slices()
    shelf.hold(versions)
    two_rows = table([row(**each._asdict()) for each in versions[:2]]).get_total_buffer_size()

    async with RowsAhead(shelf.spans(), bytes_max=10 * two_rows) as rows:
        with pytest.raises(InvalidInput, match=rf"^Trace {1:032x} takes more than {10 * two_rows} bytes, too much"):
            await rows.take(versions)

    assert 5 < len(shelf.asked) < 12


async def test_trace_of_several_reads_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query_api.spans.rows_ahead.READ_BYTES_MAX", 1)
    versions = [of_trace(number) for number in range(1, 21)]
    shelf = Slices()
    shelf.hold(versions)

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        rendered = render_versions(await rows.take(versions), versions, {})

    assert [each.version for each in rendered] == versions


async def test_no_statement_names_more_places_than_the_engine_plans_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query_api.spans.rows_ahead.PLACES_MAX", 8, raising=False)
    versions = [of_trace(number) for number in range(1, 30)]
    shelf = Shelf()
    shelf.hold(versions)

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        rendered = render_versions(await rows.take(versions), versions, {})

    assert [each.version for each in rendered] == versions
    assert max(len(split_ids(asked.parameters["span_ids"])) for asked in shelf.asked) == 8


async def test_trace_that_is_too_large_in_all_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query_api.spans.rows_ahead.PLACES_MAX", 8, raising=False)
    versions = [of_trace(number) for number in range(1, 30)]
    shelf = Shelf()
    shelf.hold(versions)
    rows_of_part = table([row(**each._asdict()) for each in versions[:8]]).get_total_buffer_size()

    async with RowsAhead(shelf.spans(), bytes_max=2 * rows_of_part) as rows:
        with pytest.raises(InvalidInput, match=r"^Trace .* too much for one response.*/traces/\{trace_id\}/outline"):
            await rows.take(versions)


async def test_traces_that_are_too_large_together_are_all_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query_api.spans.rows_ahead.PLACES_MAX", 8)
    traces = [
        [version._replace(trace_id=bytes([trace]) * 16) for version in map(of_trace, range(1, 9))] for trace in (1, 2)
    ]
    versions = [version for trace in traces for version in trace]
    shelf = Shelf()
    shelf.hold(versions)
    rows_of_part = table([row(**each._asdict()) for each in traces[0]]).get_total_buffer_size()

    async with RowsAhead(shelf.spans(), bytes_max=rows_of_part + 1) as rows:
        with pytest.raises(InvalidInput, match=r"^These traces take more than"):
            await rows.take(versions)


@pytest.mark.parametrize("spent", [DeadlineExceeded("Timeout exceeded: 15 s"), OutOfMemory("too much")])
async def test_trace_that_takes_too_long_names_the_routes_for_large_traces(spent: DeadlineExceeded) -> None:
    shelf = Shelf(1)
    shelf.failure = spent

    async with RowsAhead(shelf.spans(), bytes_max=BYTES_MAX) as rows:
        with pytest.raises(type(spent)) as refused:
            await rows.take([version(1)])

    assert refused.value.detail == spent.detail
    assert refused.value.public_message.startswith(f"{spent.public_message} The spans of a large trace")
    assert "/traces/{trace_id}/outline" in refused.value.public_message
