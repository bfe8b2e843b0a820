"""Spans that are running: what responses show until the end is stored, and that an end always wins (contract §3.6)."""

from __future__ import annotations

import io
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import pyarrow.parquet as pq
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.codec import span_json
from common.limits import SpanLimits
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import SystemClock, format_us
from tests.support.api import context_of, post_json, serving
from tests.support.feed import settle
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS, store_record

LOG, OTHER_LOG = "cluster/spans/0", "cluster/spans/1"
SECOND_NS: Final = 10**9
START: Final = format_us(START_NS // 1_000)
STATE: Final = {"field": "state", "operator": "is", "value": "running"}


def span(number: int = 1, *, name: str = "agent", parent: int | None = None, seconds: int = 2, at: int = 0) -> Span:
    """Return a span of the one trace that has ended."""
    start_ns = START_NS + at * SECOND_NS
    return Span(
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        name=name,
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + seconds * SECOND_NS,
        status_code=0,
        status_message=None,
        attributes={"ag.metrics.tokens.incremental.total": 3},
    )


def running(ended: Span) -> Span:
    """Return the same span before its end."""
    return ended._replace(end_ns=ended.start_ns, is_running=True)


@dataclass
class World:
    """An engine and the API over it."""

    store: ColumnStore
    client: aiohttp.ClientSession
    next: str | None = None

    async def send(self, *spans: Span, offset: int, partition_id: str = LOG, record_ms: int | None = None) -> None:
        """Store a record."""
        at = offset if record_ms is None else record_ms
        await store_record(self.store, spans, partition_id=partition_id, offset=offset, record_ms=at)
        await settle(self.store, offset=offset, partition_id=partition_id)

    async def ask(self, path: str = "/spans/query", **body: Any) -> Any:
        return await post_json(self.client, path, body)

    async def shown(self, *conditions: dict[str, Any]) -> list[dict[str, Any]]:
        spans: list[dict[str, Any]] = (await self.ask(filtering={"conditions": list(conditions)}))["spans"]
        return spans

    async def names(self, *conditions: dict[str, Any]) -> set[str]:
        return {span["span_name"] for span in await self.shown(*conditions)}

    async def read_feed(self) -> list[dict[str, Any]]:
        """Read what is new."""
        at = {} if self.next is None else {"next": self.next}
        page = await self.ask(windowing={"by": "created_at", **at})
        self.next = page["windowing"]["next"]
        spans: list[dict[str, Any]] = page["spans"]
        return spans

    async def delete(self) -> None:
        async with self.client.delete(f"/traces/{span().trace_id.hex()}") as response:
            assert response.status == 202


@pytest.fixture
async def world(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[World]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        yield World(store, client)
    await store.close()


async def test_running_span_has_a_state_and_no_end(world: World) -> None:
    await world.send(running(span()), offset=1)

    [shown] = await world.shown()

    assert shown["state"] == "running"
    assert shown["start_time"] == START
    assert not {"end_time", "end_time_unix_nano"} & shown.keys()
    assert "cumulative" not in shown["attributes"]["ag"]["metrics"].get("duration", {})


async def test_answer_that_is_published_again_stays_running(world: World) -> None:
    await world.send(running(span()), offset=1)
    answer = await world.ask()

    (again,) = span_json.decode(orjson.dumps(answer), limits=SpanLimits(), now_ns=START_NS).spans

    assert again.is_running
    await world.send(again, offset=2)
    [shown] = await world.shown()
    assert shown | {"created_at": ""} == answer["spans"][0] | {"created_at": ""}


async def test_end_replaces_the_running_state_in_pages_and_in_the_feed(world: World) -> None:
    await world.send(running(span()), offset=1)
    [before] = await world.read_feed()
    await world.send(span(name="ended"), offset=2)
    [after] = await world.read_feed()

    assert before["state"] == "running"
    assert "state" not in after
    assert after["end_time"] == format_us((START_NS + 2 * SECOND_NS) // 1_000)
    assert [each["span_name"] for each in await world.shown()] == ["ended"]
    measures = [{"of": "count"}, {"of": "duration", "as": ["max"]}, {"of": "tokens", "as": ["sum"]}]
    counted = await world.ask("/spans/groups/query", measures=measures, windowing={"oldest": START})
    assert [each["values"] for each in counted["groups"]] == [
        {"count": 1, "duration": {"max": 2_000}, "tokens": {"sum": 3}}
    ]
    [summary] = (await world.ask("/traces/summaries/query"))["summaries"]
    assert "state" not in summary
    assert (summary["duration"], summary["tokens"]) == (2_000, 3)


async def test_start_after_the_end_changes_nothing(world: World) -> None:
    """In the partition of the end, in another one whose clock is ahead, and again."""
    await world.send(span(name="ended"), offset=1)
    await world.read_feed()

    await world.send(running(span(name="late")), offset=2)
    await world.send(running(span(name="late")), offset=2)
    await world.send(running(span(name="later")), offset=0, partition_id=OTHER_LOG, record_ms=10**6)

    assert await world.names() == {"ended"}
    assert await world.shown(STATE) == []
    assert await world.read_feed() == []


async def test_deleted_running_span_comes_back_with_its_end(world: World) -> None:
    await world.send(running(span()), offset=1)
    await world.delete()
    assert await world.shown() == []
    await world.send(running(span()), offset=1)
    assert await world.shown() == []

    await world.send(span(name="ended"), offset=2)

    assert await world.names() == {"ended"}


async def test_new_start_after_the_deletion_of_a_running_span_is_shown(world: World) -> None:
    await world.send(running(span()), offset=1)
    await world.delete()

    await world.send(running(span(name="again")), offset=2)

    assert await world.names() == {"again"}


@pytest.mark.parametrize("partition_id", [LOG, OTHER_LOG])
async def test_start_after_the_deletion_of_an_end_stays_hidden(world: World, partition_id: str) -> None:
    await world.send(running(span()), offset=1, partition_id=OTHER_LOG)
    await world.send(span(), offset=1)
    await world.delete()

    await world.send(running(span()), offset=2, partition_id=partition_id, record_ms=10**6)

    assert await world.shown() == []
    counted = await world.ask("/spans/groups/query", measures=[{"of": "count"}], windowing={"oldest": START})
    assert counted["groups"] == []
    await world.send(span(name="again"), offset=3, partition_id=partition_id)
    assert await world.names() == {"again"}


async def _two(world: World) -> None:
    """A root that is running, and below it a span that is running and one that ended."""
    tree = [running(span(1, name="root")), running(span(2, name="open", parent=1, at=1))]
    await world.send(*tree, span(3, name="closed", parent=1, at=2), offset=1)


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (STATE, {"root", "open"}),
        ({"field": "state", "operator": "in", "value": ["running"]}, {"root", "open"}),
        ({"field": "state", "operator": "in", "value": []}, set()),
        ({"field": "state", "operator": "exists"}, {"root", "open"}),
        ({"field": "state", "operator": "not_exists"}, {"closed"}),
        ({"field": "state", "operator": "is_not", "value": "running"}, {"closed"}),
        ({"field": "state", "operator": "is", "value": None}, {"closed"}),
        ({"field": "end_time", "operator": "exists"}, {"closed"}),
        ({"field": "end_time", "operator": "gt", "value": "2001-01-01T00:00:00Z"}, {"closed"}),
        ({"field": "end_time", "operator": "lt", "value": "now"}, {"closed"}),
        ({"field": "duration", "operator": "gte", "value": 0}, {"closed"}),
        ({"field": "duration", "operator": "not_exists"}, {"root", "open"}),
        ({"field": "attributes", "key": "ag.metrics.duration.cumulative", "operator": "exists"}, {"closed"}),
    ],
)
async def test_filters(world: World, condition: dict[str, Any], names: set[str]) -> None:
    await _two(world)

    assert await world.names(condition) == names


async def test_other_values_of_the_state_are_refused(world: World) -> None:
    body = {"filtering": {"conditions": [{**STATE, "value": "ended"}]}}
    async with world.client.post("/spans/query", json=body) as response:
        assert response.status == 400
        assert "running" in (await response.json())["detail"]


async def test_lists_and_sums_of_running_spans(world: World) -> None:
    """A running span counts as a span; it has no duration, and the trace lasts until the latest end that is known."""
    await _two(world)

    ranked = await world.ask(windowing={"sort": {"by": "duration"}})
    groups = await world.ask(
        "/spans/groups/query",
        group_by=[{"field": "state"}],
        measures=[{"of": "count"}, {"of": "duration", "as": ["avg", "p50"]}],
        windowing={"oldest": START},
    )
    [summary] = (await world.ask("/traces/summaries/query"))["summaries"]
    async with world.client.get(f"/traces/{span().trace_id.hex()}/outline") as response:
        outline = (await response.json())["outline"]["spans"]

    assert [each["span_name"] for each in ranked["spans"]] == ["closed"]
    assert {group["by"]["state"]: group["values"] for group in groups["groups"]} == {
        "running": {"count": 2, "duration": {}},
        None: {"count": 1, "duration": {"avg": 2_000, "p50": 2_000}},
    }
    assert (summary["state"], summary["duration"], summary["spans_count"]) == ("running", 4_000, 3)
    assert dict(zip(outline["span_id"], outline["duration_ns"], strict=True)) == {
        f"{1:016x}": None,
        f"{2:016x}": None,
        f"{3:016x}": 2 * SECOND_NS,
    }


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
async def test_exports_of_running_spans(world: World, format_: str) -> None:
    await _two(world)

    async with world.client.get("/spans/export", params={"format": format_}) as response:
        body = await response.read()

    if format_ == "parquet":
        rows = pq.read_table(io.BytesIO(body)).to_pylist()
    else:
        rows = list(map(orjson.loads, body.splitlines()))
    assert {row["span_name"]: (row.get("state"), row.get("end_time") is None) for row in rows} == {
        "root": ("running", True),
        "open": ("running", True),
        "closed": (None, False),
    }


@pytest.mark.parametrize("seed", rest_is_long(range(20)))
async def test_end_wins_whatever_the_order(world: World, seed: int) -> None:
    """Starts and ends from two partitions with different clocks, delivered again, merged, with readers in between."""
    source = random.Random(seed)
    records = [
        (partition_id, offset, source.randint(0, 3), source.random() < 0.6)
        for partition_id in (LOG, OTHER_LOG)
        for offset in range(3)
    ]
    sent: list[tuple[str, int, int, bool]] = []
    for record in source.choices(records, k=10):
        partition_id, offset, record_ms, is_running = record
        ended = span(name=f"{partition_id} {offset}", seconds=1 + offset)
        stored = running(ended) if is_running else ended
        await world.send(stored, offset=offset, partition_id=partition_id, record_ms=record_ms)
        sent.append(record)
        if source.random() < 0.2:
            await world.store.execute(Statement("OPTIMIZE TABLE span_versions FINAL"), deadline_s=60.0)
        [shown] = await world.shown()
        assert shown["span_name"] == _latest(sent), sent
        assert ("state" in shown) == all(each[3] for each in sent), sent
        if read := await world.read_feed():
            assert [each["span_name"] for each in read] == [shown["span_name"]], sent


def _latest(sent: list[tuple[str, int, int, bool]]) -> str:
    """Return the name of the latest version: of each partition the last, ends first; then by time."""
    of_partitions = {
        max(
            (not is_running, offset, record_ms, each)
            for each, offset, record_ms, is_running in sent
            if each == partition_id
        )
        for partition_id in {each[0] for each in sent}
    }
    _, offset, _, partition_id = max(of_partitions, key=lambda each: (each[0], each[2], each[1], each[3]))
    return f"{partition_id} {offset}"
