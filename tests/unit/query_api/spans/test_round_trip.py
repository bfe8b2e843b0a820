"""A span that is stored and rendered again has every member that was sent."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import orjson
import pytest

from common.clickhouse.migrate import DDL
from common.clickhouse.span_columns import OPTIONAL_MEMBERS, SpanColumns, stamped
from common.score import Score, ScoreSource
from common.span import PROMOTED_TEXTS, Event, Link, NormalizedSpan, Resource, Scope, Span
from ingest.normalize import normalize
from query_api.spans.rows import Layout
from tests.support.row_tables import as_the_engine_returns

TIME_NS = 1_700_000_000_123_456_789
TIME = "2023-11-14T22:13:20.123456Z"
REFERENCE = {"trace_id": "0" * 31 + "a", "span_id": "0" * 15 + "b", "attributes": {"key": "k"}}
BARE = Span(b"t" * 16, b"s" * 16, b"p" * 16, "name", 3, TIME_NS, TIME_NS + 1, 1, None, {})
OPTIONAL: dict[str, Any] = {
    "status_message": "é",
    **{name: f"the {name}" for name in PROMOTED_TEXTS},
    "trace_state": "vendor=1",
    "flags": 257,
    "dropped_attributes_count": 1,
    "dropped_events_count": 2,
    "dropped_links_count": 3,
    "dropped_scores_count": 4,
    "events": (Event("e", TIME_NS, {"a": 1}),),
    "links": (Link(b"l" * 16, b"m" * 16, {}),),
    "references": [REFERENCE],
    "hashes": [{"id": "h"}],
    "resource": Resource({"service": {"name": "shop"}}),
    "scope": Scope("library", "1"),
    "repaired": ("attributes.a", "span_name"),
    "scores": (
        Score("Relevance", 0.5, "good", "because", ScoreSource("annotation", b"a" * 16, b"n" * 16, "judge"), TIME_NS),
        Score("ok", 1, None, None, ScoreSource(), 0),
    ),
}
RENDERED = {
    **OPTIONAL,
    "events": [{"name": "e", "timestamp": TIME, "time_unix_nano": str(TIME_NS), "attributes": {"a": 1}}],
    "links": [{"trace_id": b"l".hex() * 16, "span_id": b"m".hex() * 8}],
    "resource": {"attributes": {"service": {"name": "shop"}}},
    "scope": {"name": "library", "version": "1"},
    "repaired": ["attributes.a", "span_name"],
    "scores": [
        {
            "name": "Relevance",
            "value": 0.5,
            "label": "good",
            "explanation": "because",
            "source": {
                "kind": "annotation",
                "trace_id": b"a".hex() * 16,
                "span_id": b"n".hex() * 8,
                "evaluator": "judge",
            },
            "at": TIME,
        },
        {"name": "ok", "value": 1, "source": {"kind": "event"}, "at": "1970-01-01T00:00:00Z"},
    ],
}


def round_trip(span: Span) -> dict[str, Any]:
    [normalized] = normalize([span])
    derived = {name: getattr(span, name) for name in (*PROMOTED_TEXTS, "references", "hashes", "scores")}
    columns = SpanColumns()
    columns.append_record(
        project_ids=UUID(int=1),
        partition_id="cluster/spans/0",
        record_offset=5,
        record_ms=1,
        spans=[span],
        span_indexes=[0],
        normalized_spans=[NormalizedSpan(**normalized._asdict() | derived)],
    )
    stored = stamped(columns.rows(), stored_us=TIME_NS // 1_000)
    [rendered] = Layout.of(as_the_engine_returns(stored)).spans({})
    members: dict[str, Any] = orjson.loads(rendered.json)
    return members


def test_required_members_come_back() -> None:
    rendered = round_trip(BARE)

    assert rendered.pop("attributes")["ag"]
    assert rendered == {
        "created_at": TIME,
        "trace_id": b"t".hex() * 16,
        "span_id": b"s".hex() * 8,
        "parent_id": b"p".hex() * 8,
        "trace_type": "invocation",
        "span_type": "task",
        "span_kind": "SPAN_KIND_CLIENT",
        "span_name": "name",
        "start_time": TIME,
        "end_time": TIME,
        "start_time_unix_nano": str(TIME_NS),
        "end_time_unix_nano": str(TIME_NS + 1),
        "status_code": "STATUS_CODE_OK",
    }


@pytest.mark.parametrize("name", OPTIONAL_MEMBERS)
def test_optional_member_comes_back(name: str) -> None:
    rendered = round_trip(BARE._replace(**{name: OPTIONAL[name]}))

    assert {name: rendered[name] for name in OPTIONAL_MEMBERS if name in rendered} == {name: RENDERED[name]}


def test_all_optional_members_come_back_together() -> None:
    rendered = round_trip(BARE._replace(**OPTIONAL))

    assert {name: rendered[name] for name in OPTIONAL_MEMBERS} == RENDERED


def test_bits_in_the_ddl_are_those_of_optional_members() -> None:
    [expression] = re.findall(
        r"^    members .*?MATERIALIZED\n(.*?)CODEC", (DDL / "0001_baseline.sql").read_text(), re.M | re.S
    )
    factors = re.findall(r"(?:(\d+) \* )?\(?(?:\w+\()?([a-z_]+)(?: != 0)?\)", expression)

    assert [(int(factor or 1), name) for factor, name in factors] == [
        (2**bit, name) for bit, name in enumerate(OPTIONAL_MEMBERS)
    ]
