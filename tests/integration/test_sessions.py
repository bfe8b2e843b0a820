"""Sessions and users over the real engine and over HTTP: pages compared with a model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from common.span_version import OFFSET_SQL
from common.stored_position import StoredPosition
from common.times import SystemClock, format_us
from query_api.request.limits import Limits
from tests.support.api import context_of, serving
from tests.support.scale import rest_is_long
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, store_record

START_US = START_NS // 1000
LOG = "cluster/spans/0"
IDS = ("a", "b", "é", "it's", "", "{p1:String}", "x" * 256, "x" * 257, "x" * 256 + "y" * 9_000, *map(str, range(12)))


@dataclass(frozen=True)
class Api:
    """The API over HTTP, and its store."""

    client: aiohttp.ClientSession
    store: ColumnStore

    async def ingest(self, spans: Sequence[Span], *, offset: int) -> None:
        """Store spans as a record; the position is written only to the table: its announcement is lost."""
        await store_record(self.store, spans, offset=offset)
        settled = positions_table([StoredPosition(DEFAULT_PROJECT_ID, LOG, offset, 1, 0)])
        await self.store.insert(STORED_THROUGH_TABLE, settled, dedup_token=f"settled {offset}", deadline_s=60.0)

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        async with self.client.post(path, json=body) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def sessions(self, *, status: int = 200, **body: Any) -> Any:
        return await self.post("/spans/sessions/query", body, status=status)

    async def read_pages(self, kind: str, *, is_verbatim: bool, realtime: bool, windowing: dict[str, Any]) -> list[str]:
        """Return the ids of all pages, in order; pages continue with the returned ``windowing``, or only with its
        ``next``.
        """
        found: list[str] = []
        following = windowing
        while True:
            page = await self.post(f"/spans/{kind}s/query", {"realtime": realtime, "windowing": following})
            ids = page[f"{kind}_ids"]
            assert page["count"] == len(ids) <= windowing["limit"]
            found += ids
            if "windowing" not in page:
                return found
            assert len(ids) == windowing["limit"]
            following = page["windowing"] if is_verbatim else {**windowing, "next": page["windowing"]["next"]}


@pytest.fixture
def limits() -> Limits:
    """The limits of the API; a test may have its own."""
    return Limits()


@pytest.fixture
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], limits: Limits) -> AsyncIterator[Api]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    async with serving(context_of(store=store, clock=SystemClock(), limits=limits)) as client:
        yield Api(client, store)
    await store.close()


def active(number: int, name: str | None, *, start_us: int, is_root: bool = True, kind: str = "session") -> Span:
    """Return a span of a session or user, whose id is in its attributes."""
    start_ns = START_NS + start_us * 1000
    return Span(
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if is_root else b"p" * 16,
        name="s",
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + 1_000,
        status_code=0,
        status_message=None,
        attributes={} if name is None else {f"ag.{kind}.id": name},
    )


def random_spans(source: random.Random, *, kind: str) -> list[Span]:
    """Few instants, so that many ids are active at the same."""
    return [
        active(
            number,
            source.choice((*IDS, None)),
            start_us=source.randrange(6),
            is_root=source.random() < 0.5,
            kind=kind,
        )
        for number in range(1, 70)
    ]


def expected_ids(
    spans: Sequence[Span], *, kind: str, realtime: bool, order: str, newest: int | None, oldest: int | None
) -> list[str]:
    """The model: distinct ids of what is inside the window, by activity, then by id."""
    is_descending = order == "descending"
    activity: dict[str, list[int]] = {}
    for span in spans:
        start_us = span.start_ns // 1000 - START_US
        name = span.attributes.get(f"ag.{kind}.id")
        is_late = newest is not None and (start_us >= newest if is_descending else start_us > newest)
        is_early = oldest is not None and (start_us < oldest if is_descending else start_us <= oldest)
        if name and not is_late and not is_early:
            activity.setdefault(str(name), []).append(start_us)
    key = max if realtime else min
    return sorted(activity, key=lambda name: (key(activity[name]), name.encode()[:256]), reverse=is_descending)


@pytest.mark.parametrize("kind", ["session", "user"])
@pytest.mark.parametrize("seed", rest_is_long(range(3)))
async def test_pages_return_every_id_once_in_order(api: Api, kind: str, seed: int) -> None:
    source = random.Random(seed)
    spans = random_spans(source, kind=kind)
    await store_record(api.store, random_spans(source, kind=kind), offset=1)
    await store_record(api.store, spans, offset=2)
    await store_record(api.store, spans[:30], offset=2)
    await store_record(
        api.store, [active(1, "elsewhere", start_us=1, kind=kind)], offset=3, project_id=OTHER_PROJECT_ID
    )

    for _ in range(8):
        realtime, order = source.random() < 0.5, source.choice(("ascending", "descending"))
        newest, oldest = source.choice((None, 2, 3, 5, 6)), source.choice((None, 0, 1, 2))
        bounds = {"newest": newest, "oldest": oldest}
        windowing = {"limit": source.choice((1, 2, 3, 7, 100)), "order": order}
        windowing |= {name: format_us(START_US + at) for name, at in bounds.items() if at is not None}
        expected = expected_ids(spans, kind=kind, realtime=realtime, order=order, **bounds)

        found = await api.read_pages(kind, is_verbatim=source.random() < 0.5, realtime=realtime, windowing=windowing)

        assert len(found) == len(set(found))
        assert [name[:200] for name in found] == [name[:200] for name in expected], windowing
        assert sorted(found) == sorted(expected)


async def test_an_id_in_the_column_of_a_child_counts(api: Api) -> None:
    child = replace_session(active(1, None, start_us=0, is_root=False), "of a column")
    await store_record(api.store, [child])

    assert await api.sessions() == {"count": 1, "session_ids": ["of a column"]}


def replace_session(of: Span, session_id: str) -> Span:
    return of._replace(session_id=session_id)


async def test_ids_of_replaced_and_deleted_versions_are_not_returned(api: Api) -> None:
    await store_record(api.store, [active(1, "before", start_us=0)], offset=1)
    await store_record(api.store, [active(1, "after", start_us=5)], offset=2)

    assert (await api.sessions())["session_ids"] == ["after"]


async def test_filter_applies_to_ids(api: Api) -> None:
    await store_record(api.store, [active(1, "root", start_us=0), active(2, "child", start_us=0, is_root=False)])

    assert (await api.sessions(filtering={"conditions": [{"field": "parent_id"}]}))["session_ids"] == ["root"]


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_rate_keeps_ids_of_the_same_traces_on_every_page(api: Api, order: str) -> None:
    spans = [active(n, f"s{n}", start_us=n)._replace(trace_id=(12 * n << 96).to_bytes(16, "big")) for n in range(1, 9)]
    await store_record(api.store, spans)
    windowing = {"limit": 1, "order": order, "rate": 0.5}
    kept = ["s1", "s2", "s3", "s4"][:: 1 if order == "ascending" else -1]

    for is_verbatim in (True, False):
        assert await api.read_pages("session", is_verbatim=is_verbatim, realtime=False, windowing=windowing) == kept
    following = (await api.sessions(windowing=windowing))["windowing"]
    await api.sessions(windowing={**following, "rate": None}, status=400)


@pytest.mark.parametrize("newest", rest_is_long([None, format_us(START_US + 10_000)]), ids=["open", "bounded"])
@pytest.mark.parametrize("order", ["ascending", "descending"])
async def test_activity_between_realtime_pages_neither_hides_nor_repeats_an_id(
    api: Api, order: str, newest: str | None
) -> None:
    """Also if the window ends in the future, like that of a page about today."""
    await api.ingest([active(n, f"s{n}", start_us=n) for n in range(1, 7)], offset=0)
    windowing: dict[str, Any] = {"limit": 2, "order": order, "newest": newest}
    found: list[str] = []
    number = 10
    while True:
        page = await api.sessions(realtime=True, windowing=windowing)
        found += page["session_ids"]
        if "windowing" not in page:
            break
        windowing = page["windowing"]
        await api.ingest([active(number + n, f"s{n}", start_us=100 + number) for n in range(1, 7)], offset=number)
        number += 10

    assert sorted(found) == [f"s{n}" for n in range(1, 7)]


@pytest.mark.parametrize("realtime", [False, True], ids=["earliest", "latest"])
@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("seed", rest_is_long(range(3)))
async def test_late_spans_between_pages_neither_hide_nor_repeat_an_id(
    api: Api, realtime: bool, order: str, seed: int
) -> None:
    """Each id that existed at the first page is on exactly one page, wherever later spans would place it."""
    source = random.Random(seed)
    names = [f"s{number}" for number in range(12)]
    begun = [*names, *source.choices(names, k=12)]
    await api.ingest([active(n, name, start_us=source.randrange(50)) for n, name in enumerate(begun, 1)], offset=0)
    windowing: dict[str, Any] = {"limit": 2, "order": order}
    found: list[str] = []
    offset = 0
    while windowing:
        page = await api.sessions(realtime=realtime, windowing=windowing)
        found += page["session_ids"]
        windowing = page.get("windowing", {})
        offset += 1
        late = [*source.choices(names, k=5), f"new {offset}"]
        await api.ingest(
            [active(100 * offset + n, name, start_us=source.randrange(-20, 80)) for n, name in enumerate(late)],
            offset=offset,
        )

    assert sorted(name for name in found if name in names) == sorted(names)


async def test_response_has_the_windowing_of_the_reference_and_a_cursor(api: Api) -> None:
    await store_record(api.store, [active(n, f"s{n}", start_us=n) for n in range(1, 4)])

    down = await api.sessions(windowing={"limit": 2, "oldest": format_us(START_US)})
    up = await api.sessions(windowing={"limit": 2, "order": "ascending"})
    all_of_it = await api.sessions(windowing={"limit": 3})

    assert down["session_ids"] == ["s3", "s2"]
    cursor = down["windowing"].pop("next")
    assert cursor
    bounds = {"newest": format_us(START_US + 2), "oldest": format_us(START_US)}
    assert down["windowing"] == {**bounds, "limit": 2, "order": "descending"}
    assert up["windowing"]["oldest"] == format_us(START_US + 2)
    assert "windowing" not in all_of_it


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_bounds_beyond_the_calendar_can_be_sent_back(api: Api, order: str) -> None:
    await store_record(api.store, [active(number, f"s{number}", start_us=number) for number in range(1, 5)])
    windowing = {"oldest": "0001-01-01T00:00:00+14:00", "newest": "9999-12-31T23:59:59.999999-14:00", "limit": 1}

    for is_verbatim in (True, False):
        found = await api.read_pages(
            "session", is_verbatim=is_verbatim, realtime=False, windowing={**windowing, "order": order}
        )

        assert sorted(found) == ["s1", "s2", "s3", "s4"]


async def test_cursor_of_another_query_is_400(api: Api) -> None:
    await store_record(api.store, [active(n, f"s{n}", start_us=n) for n in range(1, 6)])
    window = {"limit": 2, "newest": format_us(START_US + 5)}
    following = (await api.sessions(windowing=window))["windowing"]
    cursor = following["next"]

    assert (await api.sessions(windowing={**window, "next": cursor, "limit": 1}))["session_ids"] == ["s2"]
    others: list[dict[str, Any]] = [
        {"windowing": {"limit": 2, "next": cursor}},
        {"windowing": {**following, "newest": format_us(START_US + 4)}},
        {"windowing": {**following, "oldest": format_us(START_US)}},
        {"windowing": {**following, "order": "ascending"}},
        {"windowing": {**following, "rate": 0.5}},
        {"windowing": {**following, "next": cursor[:-1] + ("A" if cursor[-1] != "A" else "B")}},
        {"windowing": {**following, "next": "00000000-0000-0000-0000-000000000001"}},
        {"windowing": following, "realtime": True},
        {"windowing": following, "filtering": {"conditions": [{"field": "parent_id"}]}},
    ]
    for body in others:
        await api.sessions(status=400, **body)
    upwards = (await api.sessions(windowing={"limit": 2, "order": "ascending"}))["windowing"]
    await api.sessions(windowing={**upwards, "newest": format_us(START_US + 4)}, status=400)
    await api.post("/spans/users/query", {"windowing": following}, status=400)
    await api.post("/spans/query", {"windowing": {"next": cursor, "newest": window["newest"]}}, status=400)


@pytest.mark.parametrize(
    "windowing", [{"limit": 0}, {"limit": 10_001}, {"order": "sideways"}, {"newest": "x"}, {"rate": 2}]
)
async def test_a_wrong_shape_is_422(api: Api, windowing: dict[str, Any]) -> None:
    detail = (await api.sessions(status=422, windowing=windowing))["detail"]

    assert detail[0]["loc"][:2] == ["body", "windowing"]


async def test_no_body_is_the_first_page_of_all(api: Api) -> None:
    await store_record(api.store, [active(n, f"s{n:03}", start_us=0) for n in range(1, 102)])

    page = await api.post("/tracing/sessions/query")

    assert page["count"] == 100
    assert (page["session_ids"][0], page["session_ids"][-1]) == ("s101", "s002")
    assert (await api.sessions(windowing={"limit": 10_000}))["count"] == 101


@pytest.mark.parametrize("limits", [Limits(insert_pauses_s=(0.1,) * 300)])
@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_page_waits_for_the_end_of_an_insert(api: Api, order: str) -> None:
    """A row of ``spans`` is visible a moment before that of ``span_arrivals``, which says that it was sent again."""
    names = ("a", "b", "c")
    firsts = [active(number, name, start_us=10 * number) for number, name in enumerate(names, start=1)]
    seconds = [active(number + 3, name, start_us=100) for number, name in enumerate(names, start=1)]
    await api.ingest([*firsts, *seconds], offset=0)
    windowing = {"limit": 1, "order": order}
    page = await api.sessions(windowing=windowing)
    await api.store.execute(Statement("DROP VIEW span_arrivals_of_spans", {}), deadline_s=60.0)
    await store_record(api.store, [firsts[1]], offset=1)

    following = asyncio.create_task(api.sessions(windowing={**windowing, "next": page["windowing"]["next"]}))
    done, _ = await asyncio.wait({following}, timeout=0.5)
    arrival = f"SELECT project_id, partition_id, {OFFSET_SQL}, span_index, start_us, stored_us, trace_id FROM spans"
    insert = f"INSERT INTO span_arrivals {arrival} WHERE {OFFSET_SQL} = 1"
    await api.store.execute(Statement(insert, {}), deadline_s=60.0)

    assert not done
    assert (await following)["session_ids"] == ["b"]


@pytest.mark.parametrize("limits", [Limits(insert_pauses_s=(0.01,) * 3)])
async def test_page_does_not_wait_forever(api: Api) -> None:
    await api.ingest([active(1, "a", start_us=10)], offset=0)
    await api.store.execute(Statement("DROP VIEW span_arrivals_of_spans", {}), deadline_s=60.0)
    await store_record(api.store, [active(2, "b", start_us=5)], offset=1)

    assert (await api.sessions())["session_ids"] == ["a", "b"]
