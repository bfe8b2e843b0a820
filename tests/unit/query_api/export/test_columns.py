"""The columns of exported spans."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from common.errors import InvalidInput
from query_api.export.columns import COLUMNS, SUMMARY_COLUMNS, columns_of, schema_of, table_of_objects

SPAN: dict[str, Any] = {
    "created_at": "2026-01-02T03:04:07Z",
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "span_id": "eee19b7ec3c1b174",
    "trace_type": "invocation",
    "span_type": "chat",
    "span_kind": "SPAN_KIND_CLIENT",
    "span_name": 'say "hello", =1+1',
    "start_time": "2026-01-02T03:04:05Z",
    "end_time": "2026-01-02T03:04:05.500001Z",
    "start_time_unix_nano": "1767323045000000001",
    "end_time_unix_nano": "1767323045500001999",
    "status_code": "STATUS_CODE_OK",
    "attributes": {
        "ag": {
            "meta": {"request": {"model": "gpt-4o"}},
            "metrics": {
                "tokens": {"incremental": {"total": 58}},
                "costs": {"incremental": {"total": 0.25}},
            },
        },
        "retry": [True, {"why": None}],
    },
    "resource": {"attributes": {"service": {"name": "city-guide"}}},
    "flags": 1,
}


def _cell(span: dict[str, Any], name: str) -> Any:
    [value] = table_of_objects([span], columns_of([name])).column(name).to_pylist()
    return value


def test_table_has_the_schema_whatever_the_spans_hold() -> None:
    for spans in ([], [SPAN], [{**SPAN, "links": [], "parent_id": "eee19b7ec3c1b175"}, SPAN]):
        table = table_of_objects(spans)
        assert table.schema == schema_of(COLUMNS.values())
        assert table.num_rows == len(spans)


def test_cells_are_typed() -> None:
    assert _cell(SPAN, "start_time") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert _cell(SPAN, "end_time_unix_nano") == 1767323045500001999
    assert _cell(SPAN, "duration") == 500.001
    assert (_cell(SPAN, "tokens"), _cell(SPAN, "cost"), _cell(SPAN, "flags")) == (58.0, 0.25, 1)
    assert (_cell(SPAN, "model"), _cell(SPAN, "service")) == ("gpt-4o", "city-guide")
    assert orjson.loads(_cell(SPAN, "attributes")) == SPAN["attributes"]


def test_session_and_user_are_those_of_any_span() -> None:
    call = {
        **SPAN,
        "attributes": {"ag": {"session": {"id": "s-1"}, "user": {"id": "u-1"}, "meta": {"system": "openai"}}},
    }

    assert [_cell(call, name) for name in ("session", "user", "provider", "session_id")] == [
        "s-1",
        "u-1",
        "openai",
        None,
    ]
    assert {"session", "user"} < set(SUMMARY_COLUMNS)


def test_absent_members_are_null() -> None:
    bare = {**SPAN, "attributes": {}}
    for name in ("parent_id", "status_message", "tokens", "cost", "model", "links", "attributes.ag.meta"):
        assert _cell(bare, name) is None


def test_path_is_a_column_of_text() -> None:
    assert _cell(SPAN, "attributes.ag.metrics.tokens.incremental.total") == "58"
    assert _cell(SPAN, "attributes.retry.0") == "true"
    assert _cell(SPAN, "attributes.retry.1") == '{"why":null}'
    assert _cell(SPAN, "attributes.retry.9") is None
    assert _cell(SPAN, "attributes.retry.00") is None
    assert _cell(SPAN, "attributes.retry.1.why.deeper") is None


def test_time_beyond_64_bits_of_nanoseconds_is_null() -> None:
    late = {**SPAN, "end_time": "9999-12-31T23:59:59.999999Z", "end_time_unix_nano": "253402300799999999000"}
    assert _cell(late, "end_time_unix_nano") is None
    assert _cell(late, "end_time") == datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


def test_column_of_a_score_holds_the_newest_of_its_name() -> None:
    scores = [
        {"name": "a.b", "value": 0.5, "label": "x"},
        {"name": "a.b", "value": 1},
        {"name": "tone", "label": "mild"},
    ]
    span = {**SPAN, "scores": scores}

    assert [_cell(span, f"scores.{name}") for name in ("a.b", "tone", "a")] == ["0.5", "mild", None]
    assert _cell(SPAN, "scores.a.b") is None


@pytest.mark.parametrize("name", ["", "nope", "scores.", "attributes.", "attributes..x", "resource.x", "trace_id "])
def test_unknown_column_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"is not a column; allowed: created_at, .*, attributes\.PATH and scores\.NAME"
    ):
        columns_of([name])


def test_column_named_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'trace_id' is named twice"):
        columns_of(["trace_id", "cost", "trace_id"])


def test_summary_is_made_of_columns() -> None:
    assert [column.name for column in columns_of(SUMMARY_COLUMNS)] == list(SUMMARY_COLUMNS)
