"""A span that gets its events later is the span that it would have been if they had come with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.clickhouse.member_json import event_members
from common.clickhouse.span_columns import SpanColumns
from common.clickhouse.stored_attributes import attributes_of
from common.prices.file import list_prices
from common.span import Event, LogMembers, Span
from common.span_version import version_of
from ingest.joining.chunk import Arrival, Counts, JoiningChunk, JoiningSpan, joined_rows
from ingest.joining.derive import EVENTS_MAX, merged
from ingest.joining.stored_spans import PROJECT, stored_spans
from ingest.masking.dead_letters import NO_MASKING
from ingest.normalize import normalize
from tests.support.row_tables import as_the_engine_returns
from tests.support.sample_records import NAMES, spans_of

PROJECT_ID = UUID(int=1)
BARE = Span(
    b"t" * 16, b"s" * 16, b"p" * 16, "name", 3, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001, 1, None, {}
)
ARRIVAL = Arrival("c/otlp_logs/0", 7, 3)
DETAILS = "gen_ai.client.inference.operation.details"
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "How many?"}]}]
ANSWERED = [{"role": "assistant", "parts": [{"type": "text", "content": "Three."}], "finish_reason": "stop"}]
CHAT: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 7,
}
DETAILED: dict[str, Any] = {
    "gen_ai.output.messages": orjson.dumps(ANSWERED).decode(),
    "gen_ai.response.id": "r1",
    "gen_ai.tool.definitions": '[{"type": "function", "name": "count"}]',
    "gen_ai.usage.input_tokens": 8,
    "gen_ai.usage.output_tokens": 3,
}

CHATS = [
    BARE._replace(attributes=CHAT),
    BARE._replace(attributes=CHAT, parent_id=None, events=(Event("exception", 1, {"exception.type": "E"}),)),
    BARE._replace(
        attributes={**CHAT, "ag.data.inputs": '{"sent": 1}', "ag.meta.x": 1, "ag.metrics.tokens.incremental.total": 9}
    ),
    BARE._replace(attributes={"ag": {"data": {"outputs": "o"}, "metrics": {"costs": {"incremental": {"total": 1}}}}}),
    BARE._replace(attributes={"plain": 1}, links=()),
]


def logged(event: Event) -> Event:
    return event if event.log else event._replace(log=LogMembers())


def rows_of(spans: Sequence[Span], *, offset: int = 5) -> pa.Table:
    columns = SpanColumns()
    columns.append_record(
        project_ids=PROJECT_ID,
        partition_id="c/spans/0",
        record_offset=offset,
        record_ms=1,
        spans=spans,
        span_indexes=range(len(spans)),
        normalized_spans=normalize(spans),
    )
    return columns.rows()


def joined(rows: pa.Table, events: Sequence[Sequence[Event]], count: int | None = None) -> pa.Table:
    """Add events to the spans of rows, for each row its own."""
    stored = list(stored_spans(as_the_engine_returns(rows).append_column(PROJECT, [[str(PROJECT_ID)] * rows.num_rows])))
    texts = [[orjson.dumps(event_members(event)) for event in each] for each in events]
    joining = [
        JoiningSpan(span, each, [], 0, Counts(len(each) if count is None else count, 0), ARRIVAL)
        for span, each in zip(stored, texts, strict=True)
    ]
    return joined_rows(JoiningChunk(joining, NO_MASKING), list_prices())


def shown(rows: pa.Table) -> list[dict[str, Any]]:
    """What a row says, without where it came; objects without the order of their members."""
    without = without_arrival(rows).drop_columns(["version", "span_index", "leaves", "attributes_template"])
    attributes = attributes_of(as_the_engine_returns(rows))
    return [
        {**row, "attributes": orjson.loads(json)} for row, json in zip(without.to_pylist(), attributes, strict=True)
    ]


def without_arrival(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([name for name in rows.column_names if name.startswith("arrival_")])


def chat_events() -> list[Event]:
    return [
        Event("gen_ai.user.message", 10, {"content": "How many?"}, log=LogMembers({"content": "How many?"})),
        Event("gen_ai.choice", 30, {"message": '{"content":"Three."}', "finish_reason": "stop"}, log=LogMembers()),
        Event("gen_ai.system.message", 5, {"gen_ai.system": "openai"}, log=LogMembers({"content": "Count."})),
        Event(DETAILS, 15, DETAILED, log=LogMembers()),
        Event(DETAILS, 25, {**DETAILED, "gen_ai.response.id": "r2", "gen_ai.input.messages": "[]"}, log=LogMembers()),
        Event("exception", 20, {"exception.type": "TimeoutError", "exception.message": "late"}, log=LogMembers("x")),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_sample_is_the_same_when_nothing_is_added(name: str) -> None:
    """Deriving a stored span again gives the same span, with what other spans of its record added to it."""
    rows = rows_of(spans_of(name))

    assert shown(joined(rows, [[]] * rows.num_rows)) == shown(rows)


@pytest.mark.parametrize("name", NAMES)
def test_sample_gets_its_events_later(name: str) -> None:
    spans = [span for span in spans_of(name) if span.events]
    at_once = [span._replace(events=merged((), list(map(logged, span.events)))) for span in spans]
    for whole, span in zip(at_once, spans, strict=True):
        before = rows_of([span._replace(events=())])

        assert shown(joined(before, [whole.events])) == shown(rows_of([whole]))


@pytest.mark.parametrize("name", NAMES)
def test_sample_gets_its_attributes_later(name: str) -> None:
    for span in spans_of(name):
        own = {key: value for key, value in span.attributes.items() if key.startswith("ag")}
        said = {key: value for key, value in span.attributes.items() if key not in own}
        alone = span._replace(attributes=own, events=())
        whole = alone._replace(events=(Event(DETAILS, span.end_ns, said, log=LogMembers()),))

        assert shown(joined(rows_of([alone]), [whole.events])) == shown(rows_of([whole]))


@given(data=st.data())
def test_order_and_division_of_events_change_nothing(data: st.DataObject) -> None:
    span = data.draw(st.sampled_from(CHATS))
    events = data.draw(st.permutations(chat_events()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=2)))
    at_once = span._replace(events=merged(span.events, events))

    rows = rows_of([span])
    for end in [*cuts, len(events)]:
        rows = without_arrival(joined(rows, [events[:end]]))

    assert shown(rows) == shown(rows_of([at_once]))


def test_content_of_an_event_is_that_of_the_span() -> None:
    said = {
        "gen_ai.input.messages": orjson.dumps(ASKED).decode(),
        "gen_ai.output.messages": orjson.dumps(ANSWERED).decode(),
    }
    event = Event(DETAILS, 15, said, log=LogMembers())

    [row] = joined(rows_of([BARE._replace(attributes=CHAT)]), [[event]]).to_pylist()

    leaves = dict(row["leaves"])
    assert leaves["ag.data.inputs.messages.0.content"] == "sHow many?"
    assert leaves["ag.data.outputs.messages.0.content"] == "sThree."
    assert leaves["ag.metrics.tokens.incremental.prompt"] == "n7"


def test_what_is_in_both_is_taken_once() -> None:
    said = {"gen_ai.input.messages": orjson.dumps(ASKED).decode(), "gen_ai.usage.input_tokens": 7}
    span = BARE._replace(attributes={**CHAT, **said})

    [row] = joined(rows_of([span]), [[Event(DETAILS, 15, said, log=LogMembers())]]).to_pylist()
    [before] = rows_of([span]).to_pylist()

    assert dict(row["leaves"]) == {**dict(before["leaves"]), "ag.metrics.errors.incremental": "n0"}
    assert row["tokens_total"] == before["tokens_total"] == 7


def test_next_version_has_the_number_of_its_events_and_the_place_of_the_last() -> None:
    [row] = joined(rows_of([BARE]), [chat_events()]).to_pylist()

    assert row["version"] == version_of(5, len(chat_events()))
    assert (row["partition_id"], row["arrival_partition_id"]) == (b"c/spans/0", b"c/otlp_logs/0")
    assert (row["arrival_offset"], row["span_index"]) == (7, 3)


def test_events_beyond_the_limit_are_counted() -> None:
    [row] = joined(
        rows_of([BARE._replace(dropped_events_count=1)]), [chat_events()], count=EVENTS_MAX + len(chat_events())
    ).to_pylist()

    assert row["dropped_events_count"] == 1 + EVENTS_MAX
    assert row["version"] == version_of(5, EVENTS_MAX)  # the next one comes when there are twice as many


def test_event_and_log_record_with_the_same_content_are_one() -> None:
    own = Event("e", 1, {"a": 1})

    assert merged([own], [logged(own), logged(own)._replace(attributes={"a": 2})]) == (
        own,
        Event("e", 1, {"a": 2}, log=LogMembers()),
    )
    assert len(merged([own], [own._replace(log=LogMembers(body="b"))])) == 2
