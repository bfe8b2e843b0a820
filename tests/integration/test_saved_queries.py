"""Running saved queries: on ``/spans/query``, ``/traces/query`` and when they are retrieved, on a real Postgres and the
real engine (contract §3.4, reference ``spans-api`` §8, §9.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from common.clickhouse.connect import open_store
from common.postgres.pool import open_database
from common.postgres.projects import insert_project
from common.settings import ClickHouseSettings, PostgresSettings
from common.span import Span
from common.stored_position import StoredPosition
from common.times import SystemClock, format_us
from query_api.request.context import ApiContext
from query_api.request.route import NO_PROJECT
from tests.fakes.clock import ManualClock
from tests.fakes.rowless_store import RowlessStore
from tests.support.api import KnownKeys, context_of, serving
from tests.support.history import HistoryClient
from tests.support.span_corpus import START_NS, store_record
from tests.support.switchable_postgres import switchable

START_US = START_NS // 1000
LOG = "cluster/spans/0"
SPANS = "/spans/query"
TRACES = "/traces/query"
GROUPS = "/spans/groups/query"
FACETS = "/spans/facets/query"
RETRIEVE = "/queries/revisions/retrieve"
pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 12
"""Spans 1 … 12, a second apart: of the traces 1 … 4 in turn; every second is slow, every third a chat."""


def span(number: int) -> Span:
    start_ns = START_NS + number * 1_000_000_000
    return Span(
        trace_id=_trace(number).to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None,
        name="slow" if number % 2 == 0 else "fast",
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + 1_000_000,
        status_code=0,
        status_message=None,
        attributes={"ag": {"type": {"span": "chat" if number % 3 == 0 else "task"}}, "number": number},
    )


def _trace(number: int) -> int:
    return 1 + (number - 1) % 4


def at(second: int) -> str:
    return format_us(START_US + second * 1_000_000)


def where(field: str, value: Any, operator: str = "is", **more: Any) -> dict[str, Any]:
    return {"conditions": [{"field": field, "operator": operator, "value": value, **more}]}


SLOW = where("span_name", "slow")
CHAT = where("attributes", "chat", key="ag.type.span")
NUMBER = {"field": "attributes", "key": "number"}


@dataclass
class Api:
    """A client of one project. ``slug`` is that of the query that the test saves."""

    client: HistoryClient
    slug: str

    @property
    def ref(self) -> dict[str, Any]:
        """Return a reference to the query that the test saved."""
        return {"query_ref": {"slug": self.slug}}

    async def save(self, **data: Any) -> dict[str, Any]:
        """Save a query with these data; ``variant_id`` is that of its first variant."""
        return dict((await self.client.post("/simple/queries/", {"query": {"slug": self.slug, "data": data}}))["query"])

    async def commit(self, variant_id: str, **members: Any) -> dict[str, Any]:
        body = {"query_revision": {"query_variant_id": variant_id, **members}}
        return dict((await self.client.post("/queries/revisions/commit", body))["query_revision"])

    async def ask(self, path: str = SPANS, *, status: int = 200, **body: Any) -> Any:
        return await self.client.post(path, body, status=status)

    async def spans(self, **body: Any) -> list[int]:
        """Return the numbers of the spans that the saved query finds."""
        return span_numbers(await self.ask(**self.ref, **body))

    async def traces(self, **body: Any) -> list[int]:
        return trace_numbers(await self.ask(TRACES, **self.ref, **body))

    async def read_pages(self, path: str, **body: Any) -> list[Any]:
        """Return all pages."""
        pages, windowing = [], dict(body.pop("windowing", {}))
        while True:
            pages.append(await self.ask(path, **body, windowing=windowing))
            if "windowing" not in pages[-1]:
                return pages
            windowing |= pages[-1]["windowing"]


def span_numbers(page: Mapping[str, Any]) -> list[int]:
    assert page["count"] == len(page["spans"])
    return [int(span["span_id"], 16) for span in page["spans"]]


def trace_numbers(page: Mapping[str, Any]) -> list[int]:
    assert page["count"] == len(page["traces"])
    return [int(trace["trace_id"], 16) for trace in page["traces"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def context(
    shared_postgres: PostgresSettings, engine: ClickHouseSettings, chdb_dir: Path
) -> AsyncIterator[ApiContext]:
    """Clients of two projects, of which the first has the spans; ``one`` and ``other`` are their keys."""
    async with open_database(shared_postgres) as database:
        projects = {key: (await insert_project(database, key)).id for key in ("one", "other")}
        store = open_store(engine, data_dir=chdb_dir)
        context = context_of(store=store, keys=KnownKeys(projects), database=database, clock=SystemClock())
        await add_record(context, "one", *range(1, COUNT + 1))
        yield context
        await store.close()


async def add_record(context: ApiContext, key: str, *numbers: int, offset: int = 0) -> None:
    """Store spans in the project of a key, and announce them."""
    assert context.keys is not None
    owner = await context.keys.find(key)
    assert owner is not None
    spans = [span(number) for number in numbers]
    await store_record(context.store, spans, partition_id=LOG, offset=offset, project_id=owner.project_id)
    context.stored.learn([StoredPosition(owner.project_id, LOG, offset, 1, 0)])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(context: ApiContext) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context) as session:
        yield session


@pytest.fixture
def api(session: aiohttp.ClientSession) -> Api:
    return Api(HistoryClient(session, "one", NO_PROJECT), f"q-{uuid4().hex}")


class TestWhichRevisionIsRun:
    @pytest_asyncio.fixture(loop_scope="module")
    async def ids(self, api: Api) -> dict[str, str]:
        """A query with two variants: the revisions of ``main`` find spans 1, 2 and 3, that of ``side`` span 4."""
        query = (await api.client.post("/queries/", {"query": {"slug": api.slug}}))["query"]["id"]
        ids = {"query": query}
        for name, numbers in (("main", (1, 2, 3)), ("side", (4,))):
            body = {"query_variant": {"query_id": query, "slug": f"{api.slug}.{name}"}}
            ids[name] = (await api.client.post("/queries/variants/", body))["query_variant"]["id"]
            for number in numbers:
                data = {"filtering": {"conditions": [{**NUMBER, "value": number}]}}
                made = await api.commit(ids[name], slug=f"{api.slug}.r{number}", data=data)
                ids[f"r{number}"] = made["id"]
        return ids

    @pytest.mark.parametrize(
        ("references", "number"),
        [
            ({"query_ref": {"slug": "q"}}, 3),
            ({"query_ref": {"id": "query"}}, 3),
            ({"query_ref": {"id": "query", "slug": "q"}, "query_variant_ref": None}, 3),
            ({"query_ref": {"slug": "q"}, "query_revision_ref": {"version": "0"}}, 1),
            ({"query_variant_ref": {"slug": "q.main"}}, 3),
            ({"query_variant_ref": {"id": "side"}}, 4),
            ({"query_variant_ref": {"slug": "q.main"}, "query_revision_ref": {"version": "1"}}, 2),
            ({"query_revision_ref": {"id": "r2"}}, 2),
            ({"query_revision_ref": {"slug": "q.r4"}}, 4),
            ({"query_ref": {"slug": "q"}, "query_variant_ref": {"slug": "q.side"}, "query_revision_ref": {"slug": "q.r4"}}, 4),
            ({"query_ref": {}, "query_variant_ref": {"slug": "q.side"}}, 4),
        ],
    )  # fmt: skip
    async def test_reference_names_the_saved_query(self, api: Api, ids: dict[str, str], references: Any, number: int):
        body = named_by(api, ids, references)

        assert span_numbers(await api.ask(SPANS, **body)) == [number]
        assert trace_numbers(await api.ask(TRACES, **body)) == [number]
        assert (await api.ask(RETRIEVE, **body))["query_revision"]["id"] == ids[f"r{number}"]

    @pytest.mark.parametrize(
        ("references", "status", "says"),
        [
            ({"query_ref": {"slug": "nothing"}}, 404, "no revision of a saved query"),
            ({"query_ref": {"id": "r1"}}, 404, "no revision of a saved query"),
            ({"query_variant_ref": {"slug": "q"}}, 404, "no revision of a saved query"),
            ({"query_revision_ref": {"id": "main"}}, 404, "no revision of a saved query"),
            ({"query_ref": {"slug": "q"}, "query_revision_ref": {"version": "3"}}, 404, "no revision of a saved query"),
            ({"query_ref": {"slug": "q"}, "query_revision_ref": {"version": "latest"}}, 404, "no revision"),
            ({"query_ref": {}}, 400, "name nothing"),
            ({"query_ref": {"version": "1"}}, 400, "name nothing"),
            ({"query_revision_ref": {}}, 400, "name nothing"),
            ({"query_ref": {}, "query_variant_ref": {}, "query_revision_ref": {}}, 400, "name nothing"),
            ({"query_revision_ref": {"version": "1"}}, 400, "query_variant_ref"),
            ({"query_ref": {}, "query_revision_ref": {"version": "1"}}, 400, "query_variant_ref"),
            ({"query_variant_ref": {"version": "1"}}, 400, "query_variant_ref"),
            ({"query_ref": {"slug": "other"}, "query_variant_ref": {"slug": "q.main"}}, 400, "query_ref.slug='other' does not match"),
            ({"query_ref": {"id": "query", "slug": "z"}}, 400, "query_ref.slug='z' does not match"),
            ({"query_variant_ref": {"slug": "q.side"}, "query_revision_ref": {"id": "r1"}}, 400, "query_variant_ref.slug"),
            ({"query_revision_ref": {"id": "r1", "version": "1"}}, 400, "query_revision_ref.version"),
            ({"query_ref": {"slug": "a b"}}, 422, "Value error, 'slug' must be URL-safe."),
            ({"query_ref": {"id": "x"}}, 422, "uuid_parsing"),
            ({"query_revision_ref": {"version": 1}}, 422, "string_type"),
            ({"query_ref": "q"}, 422, "query_ref"),
        ],
    )  # fmt: skip
    async def test_unknown_and_incomplete_references_are_rejected(
        self, api: Api, ids: dict[str, str], references: Any, status: int, says: str
    ):
        for path in (SPANS, TRACES):
            answer = await api.ask(path, status=status, **named_by(api, ids, references))

            assert says in str(answer["detail"])

    async def test_reference_names_the_spans_that_are_grouped(self, api: Api, ids: dict[str, str]):
        revision = await api.ask(GROUPS, group_by=[NUMBER], query_revision_ref={"id": ids["r2"]})
        both = await api.ask(GROUPS, **api.ref, filtering={"conditions": [{**NUMBER, "value": 4}]})
        missing = await api.ask(GROUPS, status=404, query_ref={"slug": "nothing"})

        assert revision["groups"] == [{"by": {"number": 2}, "values": {"count": 1}}]
        assert both["groups"] == []
        assert "no revision of a saved query" in missing["detail"]

    async def test_groups_take_their_window_from_the_saved_query(self, api: Api):
        await api.save(windowing={"oldest": at(4), "newest": at(8), "limit": 1})

        assert (await api.ask(GROUPS, **api.ref))["groups"][0]["values"] == {"count": 4}
        assert (await api.ask(GROUPS, **api.ref, windowing={"newest": at(6)}))["groups"][0]["values"] == {"count": 2}

    async def test_groups_are_of_spans(self, api: Api):
        await api.save(filtering=SLOW, formatting={"focus": "trace"})

        assert "formatting.focus=trace" in (await api.ask(GROUPS, **api.ref, status=409))["detail"]

    async def test_saved_query_chooses_the_spans_of_facets(self, api: Api):
        await api.save(filtering=SLOW, windowing={"newest": at(8), "limit": 1, "order": "ascending"})

        [saved] = (await api.ask(FACETS, **api.ref, keys=[NUMBER]))["facets"]
        [narrowed] = (await api.ask(FACETS, **api.ref, keys=[NUMBER], windowing={"newest": at(6)}))["facets"]

        assert [each["value"] for each in saved["values"]] == [2, 4, 6]
        assert [each["value"] for each in narrowed["values"]] == [2, 4]

    async def test_archived_query_still_runs(self, api: Api, ids: dict[str, str]):
        for path in ("", f"variants/{ids['main']}/", f"revisions/{ids['r3']}/"):
            await api.client.post(f"/queries/{path or ids['query'] + '/'}archive")

        assert await api.spans() == [3]
        assert span_numbers(await api.ask(query_revision_ref={"id": ids["r3"]})) == [3]

    async def test_new_commit_is_run_from_then_on(self, api: Api, ids: dict[str, str]):
        await api.commit(ids["main"], data={"filtering": {"conditions": [{**NUMBER, "value": 9}]}})

        assert await api.spans() == [9]
        assert span_numbers(await api.ask(query_revision_ref={"id": ids["r3"]})) == [3]

    async def test_revision_without_data_does_not_match_everything(self, api: Api, ids: dict[str, str]):
        await api.commit(ids["main"], data={})

        for path in (SPANS, TRACES):
            assert "stores no data" in (await api.ask(path, **api.ref, status=400))["detail"]

    async def test_other_project_cannot_run_the_saved_query(self, api: Api, ids: dict[str, str]):
        api.client.key = "other"
        revision, variant = {"query_revision_ref": {"id": ids["r1"]}}, {"query_variant_ref": {"id": ids["side"]}}
        for references in (api.ref, revision, variant):
            for path in (SPANS, TRACES):
                await api.ask(path, status=404, **references)
            assert await api.ask(RETRIEVE, **references, include_traces=True) == {"count": 0}


def named_by(api: Api, ids: Mapping[str, str], references: Mapping[str, Any]) -> dict[str, Any]:
    """Return the references, with names of ids replaced by ids, and ``q`` by the slug of the test."""

    def real(member: str, value: str) -> str:
        return ids.get(value, value) if member == "id" else value.replace("q", api.slug)

    return {
        layer: {member: real(member, value) if isinstance(value, str) else value for member, value in part.items()}
        if isinstance(part, dict)
        else part
        for layer, part in references.items()
    }


class TestFilters:
    @pytest.mark.parametrize(
        ("saved", "own", "found"),
        [
            (SLOW, None, [12, 10, 8, 6, 4, 2]),
            (SLOW, {}, [12, 10, 8, 6, 4, 2]),
            (SLOW, {"operator": "or"}, [12, 10, 8, 6, 4, 2]),
            (SLOW, CHAT, [12, 6]),
            (CHAT, SLOW, [12, 6]),
            (None, CHAT, [12, 9, 6, 3]),
            ({}, CHAT, [12, 9, 6, 3]),
            ({**SLOW, "operator": "not"}, CHAT, [9, 3]),
            (CHAT, {**SLOW, "operator": "nor"}, [9, 3]),
            ({"operator": "or", "conditions": [*SLOW["conditions"], *CHAT["conditions"]]}, {**CHAT, "operator": "not"}, [10, 8, 4, 2]),
            (
                {"operator": "or", "conditions": [{**NUMBER, "value": 1}, {**NUMBER, "value": 2}]},
                {"operator": "or", "conditions": [{**NUMBER, "value": 2}, {**NUMBER, "value": 3}]},
                [2],
            ),
            (SLOW, where("span_name", "fast"), []),
        ],
    )  # fmt: skip
    async def test_conditions_of_both_filters_apply(self, api: Api, saved: Any, own: Any, found: list[int]):
        await api.save(filtering=saved, windowing={"order": "descending"})
        body = {} if own is None else {"filtering": own}

        assert await api.spans(**body) == found
        assert set(await api.traces(**body)) == {_trace(number) for number in found}

    async def test_invalid_condition_of_the_request_is_reported(self, api: Api):
        await api.save(filtering=SLOW)

        answer = await api.ask(**api.ref, filtering=where("nothing", 1), status=400)

        assert answer["detail"].startswith("filtering.conditions[0].field: ")

    async def test_limits_apply_to_both_filters_together(self, api: Api):
        await api.save(filtering={"conditions": SLOW["conditions"] * 200})
        await api.ask(**api.ref, filtering={"conditions": CHAT["conditions"] * 56})
        answer = await api.ask(**api.ref, filtering={"conditions": CHAT["conditions"] * 57}, status=400)

        assert answer["detail"] == "filtering: together with the saved query's: more than 256 conditions in one filter."

    async def test_merged_and_groups_nest_no_deeper(self, api: Api):
        made = await api.save(filtering=nested(16, "and"))
        assert (await api.ask(**api.ref, filtering=CHAT))["count"] == 2

        await api.commit(made["variant_id"], data={"filtering": nested(16, "or")})
        assert (await api.ask(**api.ref))["count"] == 6
        answer = await api.ask(**api.ref, filtering=CHAT, status=400)

        assert (
            answer["detail"] == "filtering: together with the saved query's: groups are nested deeper than 16 levels."
        )

    async def test_empty_group_adds_no_nesting(self, api: Api):
        made = await api.save(filtering=nested(16, "or"))
        assert (await api.ask(**api.ref, filtering={}))["count"] == 6

        await api.commit(made["variant_id"], data={"filtering": {}})
        assert (await api.ask(**api.ref, filtering=nested(16, "or")))["count"] == 6
        assert (await api.ask(**api.ref, filtering={}))["count"] == COUNT

    async def test_patterns_are_counted_together(self, api: Api):
        """Each is valid alone: 96,000 instructions of 131,072."""
        pattern = where("span_name", r"\pL{80}", "matches")
        await api.save(filtering=pattern)

        await api.ask(filtering=pattern)
        answer = await api.ask(**api.ref, filtering=pattern, status=400)

        assert "together with the saved query's: the patterns of the filter have more than" in answer["detail"]


def nested(depth: int, operator: str) -> dict[str, Any]:
    """Return ``depth`` nested groups that match the slow spans."""
    inside = SLOW["conditions"] if depth == 1 else [nested(depth - 1, operator)]
    return {"operator": operator, "conditions": inside}


class TestWindows:
    SAVED: Mapping[str, Any] = {"newest": at(9), "oldest": at(3), "limit": 4, "order": "ascending", "rate": 1.0}

    @pytest.mark.parametrize(
        ("own", "found"),
        [
            (None, [4, 5, 6, 7]),
            ({}, [4, 5, 6, 7]),
            ({"limit": None, "order": None}, [4, 5, 6, 7]),
            ({"limit": 2}, [4, 5]),
            ({"limit": 100}, [4, 5, 6, 7, 8, 9]),
            ({"newest": at(5)}, [4, 5]),
            ({"oldest": at(6)}, [7, 8, 9]),
            ({"order": "descending"}, [8, 7, 6, 5]),
            ({"order": "descending", "oldest": at(7)}, [8, 7]),
            ({"rate": 0.0}, []),
            ({"by": "start_time"}, [4, 5, 6, 7]),
            ({"interval": 5}, [4, 5, 6, 7]),
        ],
    )
    async def test_each_window_member_of_a_span_query_is_overridden(self, api: Api, own: Any, found: list[int]):
        await api.save(windowing=self.SAVED)
        merged = {**self.SAVED, **{name: value for name, value in (own or {}).items() if value is not None}}

        assert await api.spans(**({} if own is None else {"windowing": own})) == found
        assert span_numbers(await api.ask(windowing=merged)) == found

    @pytest.mark.parametrize(
        ("own", "found"),
        [
            (None, [2, 3]),
            ({"limit": 1}, [2]),
            ({"limit": 100}, [2, 3, 4]),
            ({"newest": at(7)}, [2]),
            ({"newest": at(100), "limit": 9}, [1, 2, 3, 4]),
            ({"oldest": at(7), "limit": 9}, [3, 4]),
            ({"order": "descending"}, [4, 3]),
            ({"rate": 0.0}, []),
        ],
    )
    async def test_each_window_member_of_a_trace_query_is_overridden(self, api: Api, own: Any, found: list[int]):
        """The last spans in the window are 6 of trace 2, 7 of trace 3 and 8 of trace 4; span 9 of trace 1 is outside."""
        saved = {"newest": at(9), "oldest": at(6), "limit": 2, "order": "ascending"}
        await api.save(windowing=saved)

        assert await api.traces(**({} if own is None else {"windowing": own})) == found
        assert trace_numbers(await api.ask(TRACES, windowing={**saved, **(own or {})})) == found

    @pytest.mark.parametrize("order", ["ascending", "descending"])
    async def test_pages_of_a_saved_query_return_every_span_once(self, api: Api, order: str):
        await api.save(filtering=SLOW, windowing={"limit": 2, "order": order, "newest": at(12), "oldest": at(2)})

        pages = await api.read_pages(SPANS, **api.ref)

        expected = [4, 6, 8, 10, 12] if order == "ascending" else [10, 8, 6, 4, 2]
        assert [span_numbers(page) for page in pages] == [expected[:2], expected[2:4], expected[4:]]

    @pytest.mark.parametrize("order", ["ascending", "descending"])
    async def test_pages_of_a_saved_query_return_every_trace_once(self, api: Api, order: str):
        await api.save(filtering=CHAT, windowing={"limit": 1, "order": order})

        pages = await api.read_pages(TRACES, **api.ref, filtering={"conditions": []})

        expected = [3, 2, 1, 4]
        assert [trace_numbers(page) for page in pages] == [
            [number] for number in (expected if order == "ascending" else expected[::-1])
        ]

    async def test_the_limit_may_change_from_page_to_page(self, api: Api):
        await api.save(windowing={"limit": 2, "order": "ascending"})
        first = await api.ask(**api.ref)

        rest = await api.spans(windowing={**first["windowing"], "limit": 100})

        assert span_numbers(first) + rest == list(range(1, COUNT + 1))

    async def test_hand_made_cursor_works_with_a_saved_window(self, api: Api):
        await api.save(filtering=SLOW, windowing={"limit": 2, "newest": at(9)})
        last = (8).to_bytes(8, "big").hex() * 2

        assert await api.spans(windowing={"newest": at(8), "next": last}) == [6, 4]

    async def test_cursor_is_bound_to_request_and_saved_query_together(self, api: Api):
        made = await api.save(filtering=SLOW, windowing={"limit": 2})
        cursor = (await api.ask(**api.ref))["windowing"]
        by_revision: dict[str, Any] = {"query_revision_ref": {"id": made["revision_id"]}}
        same: dict[str, Any] = {
            "filtering": {"conditions": [{**SLOW["conditions"][0], "operator": "is"}]},
            "windowing": {"limit": 2, **cursor},
        }
        responses = [await api.ask(**by_revision, windowing=cursor), await api.ask(**same)]
        assert [span_numbers(answer) for answer in responses] == [[8, 6], [8, 6]]

        others: list[dict[str, Any]] = [
            {"filtering": CHAT, "windowing": cursor},
            {"windowing": {**cursor, "order": "ascending"}},
            {"windowing": {**cursor, "newest": at(5)}},
        ]
        for body in others:
            await api.ask(**by_revision, **body, status=400)
        await api.commit(made["variant_id"], data={"filtering": CHAT, "windowing": {"limit": 2}})
        answer = await api.ask(**api.ref, windowing=cursor, status=400)
        assert "belongs to another query" in answer["detail"]

    async def test_saved_limit_above_the_installation_limit_is_rejected(self, api: Api, context: ApiContext):
        """The saved limit is valid, but an installation may allow less."""
        await api.save(windowing={"limit": 10_000})
        query = context.settings.query.model_copy(update={"page_limit_max": 9_999})
        lower = replace(context, settings=context.settings.model_copy(update={"query": query}))
        async with serving(lower) as session:
            api.client.session = session

            answer = await api.ask(**api.ref, status=422)

            assert answer["detail"][0]["loc"] == ["body", "windowing", "limit"]
            assert await api.spans(windowing={"limit": 1}) == [12]


class TestFocus:
    async def test_saved_trace_query_is_rejected_on_the_span_route(self, api: Api):
        await api.save(filtering=SLOW, formatting={"focus": "trace"})

        answer = await api.ask(SPANS, **api.ref, status=409)

        text = "Query revision formatting.focus=trace. Use /traces/query for this query revision."
        assert answer == {"detail": text}
        assert await api.traces() == [4, 2]

    async def test_saved_span_query_is_rejected_on_the_trace_route(self, api: Api):
        await api.save(filtering=SLOW, formatting={"focus": "span", "format": "opentelemetry"})

        answer = await api.ask(TRACES, **api.ref, status=409)

        text = "Query revision formatting.focus=span. Use /spans/query for this query revision."
        assert answer == {"detail": text}
        assert await api.spans() == [12, 10, 8, 6, 4, 2]

    @pytest.mark.parametrize("form", ["agenta", "opentelemetry"])
    async def test_saved_query_without_focus_runs_on_both_routes(self, api: Api, form: str):
        await api.save(filtering=CHAT, formatting={"format": form})

        assert await api.spans() == [12, 9, 6, 3]
        assert await api.traces() == [4, 1, 2, 3]

    async def test_saved_trace_query_finds_summaries(self, api: Api):
        await api.save(filtering=CHAT, formatting={"focus": "trace"}, windowing={"limit": 3})

        whole, short = await api.ask(TRACES, **api.ref), await api.ask("/traces/summaries/query", **api.ref)

        trace_ids = [summary["trace_id"] for summary in short["summaries"]]
        assert trace_ids == [trace["trace_id"] for trace in whole["traces"]]
        assert short["count"] == 3

    @pytest.mark.parametrize("path", ["/api/spans/query/", "/spans/query", "/preview/spans/query"])
    async def test_saved_query_runs_on_every_spelling_of_the_route(self, api: Api, path: str):
        await api.save(filtering=CHAT)

        assert span_numbers(await api.ask(path, **api.ref)) == [12, 9, 6, 3]

    async def test_flat_route_accepts_no_references(self, api: Api):
        answer = await api.ask("/tracing/spans/query", **api.ref, status=422)

        assert answer["detail"][0]["loc"] == ["body", "query_ref"]


class TestFeedAndExplanation:
    async def test_saved_feed_returns_what_is_new(self, api: Api, context: ApiContext):
        api.client.key = "other"
        await add_record(context, "other", *range(1, COUNT + 1))
        await api.save(filtering=SLOW, windowing={"by": "created_at", "limit": 4})
        first = await api.ask(**api.ref)
        rest = await api.ask(**api.ref, windowing=first["windowing"])
        assert sorted(span_numbers(first) + span_numbers(rest)) == [2, 4, 6, 8, 10, 12]

        await add_record(context, "other", 13, 14, offset=1)

        assert await api.spans(windowing={**rest["windowing"], "wait_s": 5}) == [14]

    async def test_saved_feed_begins_where_it_says_and_goes_on_at_the_cursor(self, api: Api, context: ApiContext):
        api.client.key = "other"
        await add_record(context, "other", *range(1, COUNT + 1))
        await api.save(filtering=SLOW, windowing={"by": "created_at", "from": "now"})
        first = await api.ask(**api.ref)
        assert span_numbers(first) == []

        await add_record(context, "other", 13, 14, offset=2)

        assert await api.spans(windowing=first["windowing"]) == [14]
        assert len(await api.spans(windowing={"from": "beginning"})) == 7

    async def test_a_request_can_make_a_feed_of_a_saved_query(self, api: Api):
        await api.save(filtering=SLOW)

        found = await api.spans(windowing={"by": "created_at"}, filtering=CHAT)

        assert sorted(found) == [6, 12]

    async def test_contradicting_merged_members_are_rejected(self, api: Api):
        await api.save(windowing={"by": "created_at", "wait_s": 1})

        for own, path, names in (
            ({"order": "descending"}, SPANS, "windowing.order"),
            ({"by": "start_time"}, SPANS, "windowing.wait_s"),
            ({}, TRACES, "windowing.by"),
        ):
            answer = await api.ask(path, **api.ref, windowing=own, status=400)
            assert answer["detail"].startswith(names)

    async def test_explanation_covers_request_and_saved_query_together(self, api: Api):
        await api.save(filtering=SLOW, windowing={"newest": at(12), "by": "start_time"})

        for path in (SPANS, TRACES):
            answer = await api.ask(path, **api.ref, filtering=CHAT, explain=True)
            statements = str(answer["explain"]["statements"])
            assert "slow" in statements
            assert "chat" in statements
            assert answer["explain"]["statements"][0]["window"]


class TestRetrieving:
    async def test_retrieval_returns_what_the_query_finds(self, api: Api):
        await api.save(filtering=SLOW)

        ids = await api.ask(RETRIEVE, **api.ref, include_trace_ids=True)
        whole = await api.ask(RETRIEVE, **api.ref, include_traces=True)

        assert ids["query_revision"]["data"] == {
            "filtering": {"operator": "and", "conditions": [{"field": "span_name", "value": "slow", "operator": "is"}]},
            "trace_ids": [f"{4:032x}", f"{2:032x}"],
        }
        assert "windowing" not in ids
        traces = whole["query_revision"]["data"]["traces"]
        assert [trace["trace_id"] for trace in traces] == whole["query_revision"]["data"]["trace_ids"]
        assert [sorted(trace["spans"]) for trace in traces] == [
            [f"{number:016x}" for number in numbers] for numbers in ((4, 8, 12), (2, 6, 10))
        ]
        shown = traces[0]["spans"][f"{4:016x}"]
        assert shown == (await api.client.call("GET", f"/spans/{4:032x}/{4:016x}"))["span"]

    async def test_saved_query_with_only_a_format_returns_traces(self, api: Api):
        await api.save(filtering=where("attributes", 9, key="number"), formatting={"format": "opentelemetry"})

        [found] = (await api.ask(RETRIEVE, **api.ref, include_traces=True))["query_revision"]["data"]["traces"]

        assert sorted(found["spans"]) == [f"{number:016x}" for number in (1, 5, 9)]

    async def test_saved_span_query_returns_matching_spans(self, api: Api):
        await api.save(
            filtering=where("attributes", 5, "gte", key="number"),
            formatting={"focus": "span"},
            windowing={"order": "ascending"},
        )

        whole = await api.ask(RETRIEVE, **api.ref, include_traces=True)

        data = whole["query_revision"]["data"]
        assert [int(trace_id, 16) for trace_id in data["trace_ids"]] == [1, 2, 3, 4]
        assert sorted(data["traces"][0]["spans"]) == [f"{5:016x}", f"{9:016x}"]

    @pytest.mark.parametrize("focus", [None, "trace", "span"])
    async def test_pages_of_a_retrieval_continue(self, api: Api, focus: str | None):
        await api.save(
            filtering=where("attributes", 9, "gte", key="number"), formatting={"focus": focus}, windowing={"limit": 3}
        )
        found: list[list[int]] = []
        windowing: dict[str, Any] = {}
        while True:
            page = await api.ask(RETRIEVE, **api.ref, include_trace_ids=True, windowing=windowing)
            found.append([int(trace_id, 16) for trace_id in page["query_revision"]["data"]["trace_ids"]])
            if "windowing" not in page:
                break
            windowing = page["windowing"]

        assert found == [[4, 3, 2], [1]]

    async def test_incomplete_page_of_a_retrieval_is_marked(self, api: Api, context: ApiContext):
        await api.save(filtering=SLOW, windowing={"limit": 1})
        async with serving(replace(context, store=RowlessStore(context.store))) as session:
            api.client.session = session

            page = await api.ask(RETRIEVE, **api.ref, include_trace_ids=True)

        assert (page["query_revision"]["data"]["trace_ids"], page["complete"]) == ([], False)
        assert page["windowing"]["next"]

    async def test_retrieval_that_runs_waits_for_coordinates(self, api: Api, context: ApiContext):
        await api.save(filtering=SLOW)
        query = context.settings.query.model_copy(update={"wait_for_max_s": 0.1})
        impatient = replace(context, settings=context.settings.model_copy(update={"query": query}))
        waiting = {"X-Clearspan-Wait-For": "spans/0/99"}
        async with serving(impatient) as session:
            api.client.session = session
            for include in ("include_trace_ids", "include_traces"):
                body = {**api.ref, include: True}
                answer = await api.client.call("POST", RETRIEVE, json=body, headers=waiting, status=504)
                assert "not queryable after 0.1 s: spans/0/99" in answer["detail"]

            assert (await api.client.call("POST", RETRIEVE, json=api.ref, headers=waiting))["count"] == 1

    async def test_retrieval_does_not_change_the_stored_query(self, api: Api):
        made = await api.save(filtering=SLOW)
        before = await api.client.call("GET", f"/queries/revisions/{made['revision_id']}")

        await api.ask(RETRIEVE, **api.ref, include_traces=True)

        assert await api.client.call("GET", f"/queries/revisions/{made['revision_id']}") == before


class TestRelativeTimes:
    """Span n starts n seconds after the start; the clock is 8 seconds after it at first."""

    FILTERING = where("start_time", "-6s", "gt")
    WINDOWING: Mapping[str, Any] = {"oldest": "-4s", "newest": "now", "order": "ascending"}

    @pytest_asyncio.fixture(loop_scope="module")
    async def clock(self, api: Api, context: ApiContext) -> AsyncIterator[ManualClock]:
        clock = ManualClock(now_ns=START_NS + 8_000_000_000)
        async with serving(replace(context, clock=clock)) as session:
            api.client.session = session
            yield clock

    async def test_text_is_stored_and_resolved_at_each_run(self, api: Api, clock: ManualClock):
        made = await api.save(filtering=self.FILTERING, windowing=self.WINDOWING)

        first = await api.spans()
        clock.advance(3)
        second = await api.spans()

        assert (first, second) == ([5, 6, 7, 8], [8, 9, 10, 11])
        stored = (await api.client.call("GET", f"/queries/revisions/{made['revision_id']}"))["query_revision"]["data"]
        assert stored["windowing"] == self.WINDOWING
        assert stored["filtering"]["conditions"][0]["value"] == "-6s"

    async def test_pages_of_a_run_have_the_times_of_its_first(self, api: Api, clock: ManualClock):
        await api.save(filtering=self.FILTERING, windowing={**self.WINDOWING, "limit": 2})

        page = await api.ask(**api.ref)
        clock.advance(30)
        rest = await api.ask(**api.ref, windowing={"next": page["windowing"]["next"]})

        assert span_numbers(page) + span_numbers(rest) == [5, 6, 7, 8]

    async def test_retrieval_that_runs_resolves_them(self, api: Api, clock: ManualClock):
        await api.save(filtering=self.FILTERING, windowing=self.WINDOWING)
        clock.advance(3)

        found = await api.ask(RETRIEVE, **api.ref, include_trace_ids=True)

        assert sorted(int(id_, 16) for id_ in found["query_revision"]["data"]["trace_ids"]) == [1, 2, 3, 4]

    async def test_request_may_narrow_by_its_own(self, api: Api, clock: ManualClock):
        await api.save(filtering=self.FILTERING, windowing=self.WINDOWING)

        assert await api.spans(windowing={"oldest": "-2s"}) == [7, 8]
        assert await api.spans(filtering=where("start_time", "-2s", "lte")) == [5, 6]

    @pytest.mark.parametrize(
        ("data", "says"),
        [
            ({"windowing": {"oldest": "-4y"}}, "data.windowing.oldest: '-4y' is not a relative time; allowed: now,"),
            ({"filtering": where("start_time", "-4y", "gt")}, "data.filtering.conditions[0].value: Timestamp “-4y”"),
        ],
    )
    async def test_malformed_one_is_not_saved(self, api: Api, data: Any, says: str):
        body = {"query": {"slug": api.slug, "data": data}}

        refused = await api.client.post("/simple/queries/", body, status=400)

        assert refused["detail"].startswith(says)


async def test_only_requests_that_refer_to_a_saved_query_need_postgres(
    api: Api, context: ApiContext, shared_postgres: PostgresSettings
):
    await api.save(filtering=SLOW)
    async with (
        switchable(shared_postgres) as (switch, settings),
        open_database(settings) as database,
        serving(replace(context, database=database)) as session,
    ):
        api.client.session = session
        await switch.off()
        for path in (SPANS, TRACES):
            assert (await api.ask(path, filtering=SLOW))["count"] > 0
            for references in (api.ref, {"query_revision_ref": {"id": str(uuid4())}}):
                async with session.post(path, json=references, headers={"Authorization": "one"}) as response:
                    assert response.status == 503
                    assert int(response.headers["Retry-After"]) >= 1

        await switch.on()
        assert await api.spans() == [12, 10, 8, 6, 4, 2]
