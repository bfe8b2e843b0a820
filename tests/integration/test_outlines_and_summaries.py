"""Outlines and summaries of traces over the real engine: the same as a client computes from all spans."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from common.span import NO_METRICS, Metrics, Resource, Span, SpanKind
from common.span_version import version_of
from common.times import parse_time_ns
from common.usage import Report, counted
from ingest.semconv.conventions import USAGE_ROOTS
from query_api.request.limits import Limits
from query_api.spans import narrow_rows
from tests.fakes.intervening_store import InterveningStore
from tests.integration.test_traces import Traces, span, traces_over
from tests.support.span_corpus import START_NS

ERROR = "STATUS_CODE_ERROR"
NARROW = frozenset({"tokens_leaf", "version"})
"""Columns by which the rows of outlines and summaries are recognized."""

MATCHING: dict[str, Any] = {"conditions": [{"field": "span_name", "operator": "matches", "value": "[1-8]$"}]}
EXAMPLES = max(8, settings().max_examples // 8)
Json = dict[str, Any]

USED: Sequence[Json] = (  # amounts whose sums are exact in any order
    {},
    {},
    {"ag.metrics.tokens.incremental.total": 7},
    {"ag.metrics.tokens.incremental.total": 0},
    {"ag.metrics.tokens.incremental.prompt": 2, "ag.metrics.tokens.incremental.completion": 3},
    {"ag.metrics.tokens.incremental.total": "5"},
    {"ag.metrics.costs.incremental.total": 0.125},
    {"ag.metrics.costs.incremental.total": 2.0**-20, "ag.metrics.tokens.incremental.total": 11},
    {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4},
    {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 40},
)
MESSAGES: Sequence[Json] = (
    {},
    {"messaging.operation": "publish"},
    {"messaging.operation": "process", "messaging.message.type": "Start", "ag.data": {}},
    {"messaging.operation": "process", "ag.data.inputs.question": "which?"},
    {"messaging.operation": "process", "ag.type.span": "tool"},
    {"messaging.operation": "process", "ag.metrics.errors.incremental": 1},
    {"messaging": "publish"},
    {"of": {"messaging": {"operation": "publish"}}},
    {"mcp.method.name": "tools/call"},
    {"mcp.method.name": "tools/call", "gen_ai.tool.name": "greet"},
    {"mcp.method.name": "tools/call", "ag.data.inputs.name": "Ada"},
    {"mcp": "tools/call"},
)
KINDS = (SpanKind.SPAN_KIND_INTERNAL, SpanKind.SPAN_KIND_SERVER, SpanKind.SPAN_KIND_CLIENT)
MODELS: Sequence[Json] = (
    {},
    {},
    {"ag.meta.response.model": "b", "ag.meta.request.model": "a"},
    {"ag.meta.request.model": "a"},
    {"ag.meta.response.model": "é"},
    {"gen_ai.request.model": "c"},
)
SESSIONS: Sequence[Json] = (
    {},
    {},
    {"ag.session.id": "s1"},
    {"ag.session.id": "s2", "ag.user.id": "u1"},
    {"ag.user.id": "u2"},
)
SERVICES: Sequence[Json] = (
    {},
    {"service": {"name": "checkout"}},
    {"service": {"name": "é"}},
    {"service": {"name": ""}},
)


@st.composite
def traces(draw: st.DrawFn) -> list[Json]:
    """Members of the spans of one trace, with any parents: none, another span, themselves, or one that is absent."""
    count = draw(st.integers(1, 7))
    parents = st.one_of(st.none(), st.integers(0, count - 1), st.just(99))
    return [draw(members(number, parents)) for number in range(count)]


def members(number: int, parents: st.SearchStrategy[int | None]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {
            "number": st.just(number),
            "parent": parents,
            "start": st.sampled_from([0, 1, 999, 1_000, 1_001, 5_000_000, 2_000_000_123]),
            "length": st.sampled_from([0, 1, 1_500, 3_000_000_000]),
            "kind": st.sampled_from(KINDS),
            "status_code": st.integers(0, 2),
            "attributes": st.tuples(*map(st.sampled_from, (USED, MODELS, SESSIONS, MESSAGES))).map(_joined),
            "service": st.sampled_from(SERVICES),
        }
    )


def _joined(parts: tuple[Json, ...]) -> Json:
    return {key: value for part in parts for key, value in part.items()}


def span_of(trace_id: bytes, one: Mapping[str, Any]) -> Span:
    parent = one["parent"]
    start_ns = START_NS + one["start"]
    return Span(
        trace_id=trace_id,
        span_id=span_id(one["number"]),
        parent_id=None if parent is None else span_id(parent),
        start_ns=start_ns,
        end_ns=start_ns + one["length"],
        name=f"s{one['number'] % 3}",
        kind=one["kind"],
        status_code=one["status_code"],
        status_message=None,
        attributes=one["attributes"],
        resource=Resource(one["service"]),
    )


def span_id(number: int) -> bytes:
    return (number + 1).to_bytes(8, "big") * 2


class ForgetfulStore:
    """Has no rows of a record while ``hides`` it, as if they were still being stored."""

    def __init__(self, store: ColumnStore) -> None:
        self.hides: int | None = None
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        found = await self._store.select(statement, deadline_s=deadline_s)
        if self.hides is None or not NARROW.issubset(found.column_names):
            return found
        return found.filter(pc.not_equal(found.column("version"), self.hides))


@pytest.fixture(scope="module")
def database(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    configured = chdb_settings()
    asyncio.run(migrate(configured, data_dir=chdb_dir))
    return configured


@pytest.fixture
async def store(database: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    store = open_store(database, data_dir=chdb_dir)
    yield store
    await store.close()


@pytest.fixture
async def store_of_all_versions(store: ColumnStore) -> AsyncIterator[ColumnStore]:
    """A store that keeps the earlier versions of a span: a merge would remove them at any time."""
    await store.execute(Statement("SYSTEM STOP MERGES span_versions"), deadline_s=60.0)
    yield store
    await store.execute(Statement("SYSTEM START MERGES span_versions"), deadline_s=60.0)


@pytest.mark.timeout(3_600)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=st.lists(traces(), min_size=2, max_size=6),
    sent_again=st.lists(st.tuples(st.integers(0, 5), members(1, st.integers(0, 3))), max_size=4),
    deleted=st.booleans(),
)
async def test_views_are_what_a_client_computes(
    store: ColumnStore, drawn: list[list[Json]], sent_again: list[tuple[int, Json]], deleted: bool
) -> None:
    """Over traces with orphans, circles and several roots; with spans that are replaced, moved, twice, and deleted."""
    ids = [(number + 1).to_bytes(16, "big") for number in range(len(drawn))]
    async with traces_over(store) as api:
        first = [span_of(trace_id, one) for trace_id, trace in zip(ids, drawn, strict=True) for one in trace]
        await api.ingest(*first)
        for place, one in sent_again:
            await api.ingest(span_of(ids[place % len(ids)], one))
        await api.deliver(first, offset=0)  # again, not merged yet
        if deleted:
            await api.call("DELETE", f"/traces/{ids[0].hex()}", status=202)
            await api.ingest(span_of(ids[0], drawn[0][-1]))
        spans = {trace_id: await spans_of(api, trace_id) for trace_id in ids}
        outlines = {trace_id: await api.call("GET", f"/traces/{trace_id.hex()}/outline") for trace_id in ids}
        page = await api.call("POST", "/traces/summaries/query", json={})
        in_order = (await api.query())["traces"]

    assert outlines == {trace_id: outline_of(trace_id, spans[trace_id]) for trace_id in ids}
    assert page["summaries"] == [summary_of(spans[bytes.fromhex(trace["trace_id"])]) for trace in in_order]
    assert page["count"] == len(ids)


async def test_span_whose_latest_row_is_missing_is_shown_as_before(store_of_all_versions: ColumnStore) -> None:
    """Its tokens too: the sums of a page are those of the spans that it shows."""
    forgetful = ForgetfulStore(store_of_all_versions)
    async with traces_over(forgetful) as api:
        await api.ingest(span(1, name="before", attributes=tokens(1)), span(2, at=9))
        # It starts later, or the engine might merge the two rows.
        forgetful.hides = version_of(await api.ingest(span(1, name="after", attributes=tokens(2), at=1)))
        outline = await outline_at(api, 1)
        [summary] = (await summaries(api))["summaries"]
        forgetful.hides = None
        now = await outline_at(api, 1)

    assert outline["spans"]["span_name"]["values"] == ["before", "s2"]
    assert outline["spans"]["tokens"] == [1, None]
    assert (summary["span_name"], summary["tokens"]) == ("before", 1)
    assert now["spans"]["span_name"]["values"] == ["after", "s2"]


def tokens(count: int) -> Json:
    return {"ag.metrics.tokens.incremental.total": count}


async def test_span_is_shown_as_it_was_when_it_was_looked_up(store: ColumnStore) -> None:
    """Also if it is replaced before its row is read."""
    intervening = InterveningStore(store)
    async with traces_over(intervening) as api:
        await api.ingest(span(1, name="before"))

        async def replace_it(number: int) -> None:
            if number == 1:
                await api.ingest(span(1, name="after"))

        intervening.begin(replace_it)
        outline = await outline_at(api, 1)

    assert outline["spans"]["span_name"]["values"] == ["before"]


async def test_message_spans_have_nothing_of_their_own(store: ColumnStore) -> None:
    message = {"messaging.operation": "process"}
    own: Sequence[Json] = (
        {"attributes": {}},
        {"attributes": {"messaging": "a text"}},
        {"attributes": {"of": {"messaging": {"operation": "process"}}}},
        {"attributes": {**message, "ag.type.span": "tool"}},
        {"attributes": {**message, "ag.data.inputs": {"question": "which?"}}},
        {"attributes": {**message, "ag.data.outputs": "this"}},
        {"attributes": {**message, **tokens(1)}},
        {"attributes": {**message, "ag.metrics.costs.incremental.total": 0.5}},
        {"attributes": {**message, "ag.metrics.errors.incremental": 1}},
        {"attributes": message, "status_code": 2},
    )
    async with traces_over(store) as api:
        others = [span(3 + place, parent=1, at=2 + place, **members) for place, members in enumerate(own)]
        await api.ingest(span(1, attributes=message), span(2, parent=1, at=1, attributes=message), *others)
        await api.ingest(span(99, parent=2, at=99, attributes={**message, "messaging.system": "kafka", "ag.data": {}}))
        outline = await outline_at(api, 1)

    assert outline["message_spans"] == [1, len(own) + 2]


async def test_call_over_mcp_is_one_step(store: ColumnStore) -> None:
    """The client's span stays, what repeats its call is folded, and what the server calls in turn stays."""
    client: Json = {"kind": SpanKind.SPAN_KIND_CLIENT}
    server: Json = {"kind": SpanKind.SPAN_KIND_SERVER}
    sent: Json = {"mcp.method.name": "tools/call"}
    called: Json = {**sent, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "greet"}
    said: Json = {"gen_ai.tool.call.arguments": '{"name": "Ada"}'}
    greet, other = "tools/call greet", "tools/call greet_all"
    async with traces_over(store) as api:
        await api.ingest(
            span(1, name="agent"),
            span(2, parent=1, at=1, name=greet, attributes=called, **client),
            span(3, parent=2, at=2, name=f"MCP send {greet}", attributes=sent, **client),
            span(4, parent=3, at=3, name=greet, attributes=called, **server),
            span(5, parent=4, at=4, name=greet, attributes=called, **client),  # the server's own call
            span(6, parent=5, at=5, name=greet, attributes={**called, **said}, **server),
            span(7, parent=1, at=6, name=greet, attributes={**called, **said}, **client),
            span(8, parent=7, at=7, name=greet, attributes={**called, **said}, **server),
            span(9, parent=7, at=8, name=greet, attributes=called, status_code=2, **server),
            span(10, parent=7, at=9, name=other, attributes=called, **server),
            span(11, parent=7, at=10, name=greet, attributes={"mcp": "tools/call"}, **server),
            span(12, parent=99, at=11, name=greet, attributes=called, **server),
        )
        outline = await outline_at(api, 1)

    assert [place + 1 for place in outline["message_spans"]] == [3, 4, 8]


async def test_other_projects_see_nothing(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        await api.ingest(span(1))
        await api.deliver([span(2, name="of the other")], offset=1, key="other")
        own, other = [await summaries(api, key=key) for key in ("one", "other")]
        outlines = [await outline_at(api, 1, key=key) for key in ("one", "other")]
        await api.call("DELETE", f"/traces/{1:032x}", key="other", status=202)
        deleted = await api.call("GET", f"/traces/{1:032x}/outline", key="other")

    assert [page["summaries"][0]["span_name"] for page in (own, other)] == ["s1", "of the other"]
    assert [outline["spans_count"] for outline in outlines] == [1, 1]
    assert deleted == {"count": 0}


@pytest.mark.parametrize("order", ["ascending", "descending"])
async def test_pages_of_summaries_are_those_of_traces(store: ColumnStore, order: str) -> None:
    async with traces_over(store) as api:
        await api.ingest(*(span(number, trace=1 + number % 7, at=number) for number in range(1, 30)))
        pages: list[Json] = []
        traces: list[Json] = []
        for found, ask in ((pages, summaries), (traces, traces_page)):
            windowing: Json = {"limit": 3, "order": order}
            while not found or "windowing" in found[-1]:
                found.append(await ask(api, filtering=MATCHING, windowing=windowing))
                windowing |= found[-1].get("windowing", {})
        matches = (await api.call("POST", "/spans/query", json={"filtering": MATCHING}))["spans"]

    starts: dict[str, list[str]] = defaultdict(list)
    for match in matches:
        starts[match["trace_id"]].append(match["start_time"])
    latest = [(one["latest_match"], one["trace_id"]) for page in pages for one in page["summaries"]]
    assert latest == sorted(((max(of), each) for each, of in starts.items()), reverse=order == "descending")
    ids = [[summary["trace_id"] for summary in page["summaries"]] for page in pages]
    assert ids == [[trace["trace_id"] for trace in page["traces"]] for page in traces]
    assert sorted(each for page in ids for each in page) == sorted({each for page in ids for each in page})
    assert [page["count"] for page in pages] == [3, 3, 1]


async def test_ranking_of_summaries_is_that_of_traces(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        await api.ingest(*(span(n, trace=n, attributes=tokens(n * 7 % 5)) for n in range(1, 5)), span(9, trace=9))
        windowing = {"sort": {"by": "tokens"}, "limit": 3}
        ranked, of_traces = await summaries(api, windowing=windowing), await traces_page(api, windowing=windowing)

    assert [summary["tokens"] for summary in ranked["summaries"]] == [4, 3, 2]
    trace_ids = [trace["trace_id"] for trace in of_traces["traces"]]
    assert [summary["trace_id"] for summary in ranked["summaries"]] == trace_ids
    assert "windowing" not in ranked


async def test_cursor_of_summaries_is_one_of_summaries_alone(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        await api.ingest(*(span(number, trace=number) for number in range(1, 4)))
        of_summaries, of_traces = [
            (await ask(api, windowing={"limit": 1}))["windowing"] for ask in (summaries, traces_page)
        ]
        wrong = [
            await traces_page(api, windowing=of_summaries, status=400),
            await summaries(api, windowing=of_traces, status=400),
        ]

    for body in wrong:
        assert body["detail"].startswith("The cursor in `next` belongs to another query")


async def test_bad_requests_are_rejected(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        feed = await summaries(api, windowing={"by": "created_at"}, status=400)
        typo = await summaries(api, filterign={}, status=422)
        filtering = {"conditions": [{"field": "nothing", "value": 1}]}
        field = await summaries(api, filtering=filtering, status=400)
        not_an_id = await api.call("GET", "/traces/x/outline", status=400)

    assert feed["detail"].startswith("windowing.by: the feed by created_at returns spans")
    assert typo["detail"][0]["loc"] == ["body", "filterign"]
    assert field["detail"].startswith("filtering.conditions[0].field")
    assert not_an_id == {"detail": "Invalid trace_id."}


async def test_trace_with_too_many_spans_is_400(store: ColumnStore) -> None:
    async with traces_over(store, limits=Limits(outline_spans=2)) as api:
        await api.ingest(span(1), span(2), span(3, trace=2), span(4, trace=2), span(5, trace=2))
        fitting = await outline_at(api, 1)
        body = await api.call("GET", f"/traces/{2:032x}/outline", status=400)

    assert fitting["spans_count"] == 2
    assert body["detail"] == (
        f"Trace {2:032x} has more than 2 spans, too many for one response."
        " The spans of a trace come in pages from /spans/query with a filter on `trace_id`."
    )


async def test_trace_with_too_many_bytes_of_names_is_400(store: ColumnStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "NARROW_BYTES_MAX", 50_000)
    async with traces_over(store) as api:
        await api.ingest(span(1, name="x" * 60_000), span(2, trace=2))
        bodies = [await api.call("GET", f"/traces/{1:032x}/outline", status=400), await summaries(api, status=400)]
        fitting = await outline_at(api, 2)

    for body in bodies:
        assert body["detail"].startswith("The names of the spans of these traces take more than 50,000 bytes")
    assert fitting["spans_count"] == 1


async def test_summaries_read_no_json_of_spans(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        await api.ingest(span(1))
        page = await summaries(api, explain=True)

    statements = [statement["sql"] for statement in page["explain"]["statements"]]
    assert len(statements) == 3
    for wide in ("attributes", "leaves", "resource", "events"):
        assert not any(re.search(rf"\b{wide}\b", sql) for sql in statements)


async def test_deleted_and_unknown_traces_have_no_outline(store: ColumnStore) -> None:
    async with traces_over(store) as api:
        await api.ingest(span(1))
        await api.call("DELETE", f"/traces/{1:032x}", status=202)

        assert await api.call("GET", f"/traces/{1:032x}/outline") == {"count": 0}
        assert await summaries(api) == {"count": 0, "summaries": []}


async def outline_at(api: Traces, number: int, *, key: str = "one") -> Json:
    body = await api.call("GET", f"/traces/{number:032x}/outline", key=key)
    outline: Json = body["outline"]
    return outline


async def summaries(api: Traces, *, key: str = "one", status: int = 200, **body: Any) -> Json:
    page: Json = await api.call("POST", "/traces/summaries/query", key=key, status=status, json=body)
    return page


async def traces_page(api: Traces, **body: Any) -> Json:
    page: Json = await api.query(**body)
    return page


async def spans_of(api: Traces, trace_id: bytes) -> list[Json]:
    of_trace = {"conditions": [{"field": "trace_id", "value": trace_id.hex()}]}
    body = {"filtering": of_trace, "windowing": {"order": "ascending"}}
    spans: list[Json] = (await api.call("POST", "/spans/query", json=body))["spans"]
    return spans


def outline_of(trace_id: bytes, spans: Sequence[Json]) -> Json:
    if not spans:
        return {"count": 0}
    starts = [int(span["start_time_unix_nano"]) for span in spans]
    first_ns = min(starts)
    columns = {
        "span_id": [span["span_id"] for span in spans],
        "parent_id": [span.get("parent_id") for span in spans],
        "start_ns": [start - first_ns for start in starts],
        "duration_ns": [int(span["end_time_unix_nano"]) - int(span["start_time_unix_nano"]) for span in spans],
        "span_name": coded([span["span_name"] for span in spans]),
        "span_type": coded([span["span_type"] for span in spans]),
        "status_code": coded([span["status_code"] for span in spans]),
        "service": coded([service_of(span) or "" for span in spans]),
        "model": coded([model_of(span) or "" for span in spans]),
        "tokens": [number_of(span, "tokens") for span in spans],
        "cost": [number_of(span, "costs") for span in spans],
    }
    outline = {
        "trace_id": trace_id.hex(),
        "start_time": spans[0]["start_time"],
        "spans_count": len(spans),
        "message_spans": [
            place for place, span in enumerate(spans) if is_message(span) or repeats_call(span, by_id(spans))
        ],
        "spans": columns,
    }
    return {"count": 1, "outline": outline}


def coded(texts: Sequence[str]) -> Json:
    values = list(dict.fromkeys(texts))
    return {"values": values, "index": [values.index(text) for text in texts]}


def summary_of(spans: Sequence[Json]) -> Json:
    roots = [span for span in spans if "parent_id" not in span] or spans
    ends_at = max(spans, key=lambda span: int(span["end_time_unix_nano"]) // 1_000)["end_time"]
    micros = (parse_time_ns(ends_at) - parse_time_ns(spans[0]["start_time"])) // 1_000
    used = counted(report_of(span) for span in spans)
    sessions = [session for span in (roots[0], *spans) if (session := session_of(span))]
    users = [user for span in (roots[0], *spans) if (user := user_of(span))]
    summary = {
        "trace_id": spans[0]["trace_id"],
        **{name: roots[0][name] for name in ("span_id", "span_name", "span_type", "trace_type", "status_code")},
        "service": service_of(roots[0]) or None,
        "start_time": spans[0]["start_time"],
        "end_time": ends_at,
        "latest_match": spans[-1]["start_time"],
        "duration": micros / 1_000,
        "spans_count": len(spans),
        "errors_count": sum(span["status_code"] == ERROR for span in spans),
        "models": sorted({model for span in spans if (model := model_of(span))}) or None,
        "tokens": used.tokens_total or None,
        "cost": used.costs_total or None,
        "session_id": sessions[0] if sessions else None,
        "user_id": users[0] if users else None,
    }
    return {name: value for name, value in summary.items() if value is not None}


def service_of(span: Json) -> Any:
    return at(span, "resource", "attributes", "service", "name")


def model_of(span: Json) -> Any:
    models = (at(span, "attributes", "ag", "meta", each, "model") for each in ("response", "request"))
    return next((model for model in models if model), None)


def session_of(span: Json) -> Any:
    return span.get("session_id") or at(span, "attributes", "ag", "session", "id")


def user_of(span: Json) -> Any:
    return span.get("user_id") or at(span, "attributes", "ag", "user", "id")


def number_of(span: Json, metric: str) -> float | None:
    value = at(span, "attributes", "ag", "metrics", metric, "incremental", "total")
    return value if isinstance(value, int | float) else None


def is_message(span: Json) -> bool:
    is_task_below = span["span_type"] == "task" and "parent_id" in span
    is_of_messaging = isinstance(at(span, "attributes", "messaging"), dict)
    return bool(is_task_below and is_of_messaging and is_quiet(span) and not has_data(span))


def repeats_call(span: Json, spans: Mapping[str, Json]) -> bool:
    parent = spans.get(span.get("parent_id", ""))
    if parent is None or parent is span or parent["span_kind"] != "SPAN_KIND_CLIENT":
        return False
    if span["span_kind"] not in ("SPAN_KIND_CLIENT", "SPAN_KIND_SERVER"):
        return False
    are_calls = all(at(each, "attributes", "mcp", "method", "name") for each in (span, parent))
    name, above = span["span_name"], parent["span_name"]
    is_same_call = name == above or name.endswith(f" {above}") or above.endswith(f" {name}")
    return bool(are_calls and is_same_call and is_quiet(span) and (has_data(parent) or not has_data(span)))


def by_id(spans: Sequence[Json]) -> Mapping[str, Json]:
    return {span["span_id"]: span for span in spans}


def has_data(span: Json) -> bool:
    return bool(at(span, "attributes", "ag", "data"))


def is_quiet(span: Json) -> bool:
    has_failed = span["status_code"] == ERROR or at(span, "attributes", "ag", "metrics", "errors", "incremental")
    return not has_failed and not any(amounts_of_metrics(span))


def report_of(span: Json) -> Report:
    metrics = Metrics(*amounts_of_metrics(span))
    parent = span.get("parent_id")
    is_own = USAGE_ROOTS.isdisjoint(span["attributes"])
    return Report(span["span_id"].encode(), parent and parent.encode(), metrics if any(metrics) else NO_METRICS, is_own)


def amounts_of_metrics(span: Json) -> list[float]:
    incremental = {
        each: at(span, "attributes", "ag", "metrics", each, "incremental") or {} for each in ("tokens", "costs")
    }
    return [amount for each in ("tokens", "costs") for amount in amounts_of(incremental[each])]


def amounts_of(incremental: Json) -> tuple[float, float, float]:
    numbers = {name: value for name, value in incremental.items() if isinstance(value, int | float)}
    prompt, completion = numbers.get("prompt", 0.0), numbers.get("completion", 0.0)
    return prompt, completion, numbers.get("total", prompt + completion)


def at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
