"""Rows as JSON objects: each member as the contract spells it, and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.clickhouse.span_columns import NO_PARENT
from common.span import NO_METRICS, Metrics, SpanKind, StatusCode
from common.span_version import ENDED, version_of
from common.times import EARLIEST_US, LATEST_US, format_us
from query_api.spans.rows import Layout, nanosecond_texts, time_texts
from query_api.spans.versions import holds_only
from tests.support.row_tables import COUNTS, JSON_COLUMNS, TEXT_COLUMNS, row, table

ids = st.binary(min_size=16, max_size=16) | st.just(b"id" + bytes(14))
moments = st.integers(EARLIEST_US, LATEST_US) | st.integers(-3, 3) | st.just(EARLIEST_US) | st.just(LATEST_US)
whole_seconds = st.integers(-(10**9), 10**9).map(lambda second: second * 1_000_000)
rests = st.integers(0, 999)
texts = st.text(max_size=5).map(str.encode)
some_json = st.sampled_from([b"", b'[{"a":1}]', '{"é":"/"}'.encode()])


rows = st.builds(
    row,
    trace_id=ids,
    span_id=ids,
    parent_id=ids | st.just(NO_PARENT),
    name=texts,
    kind=st.sampled_from([kind.value for kind in SpanKind]),
    status_code=st.sampled_from([code.value for code in StatusCode]),
    start_us=moments | whole_seconds,
    end_us=moments | whole_seconds,
    stored_us=moments | whole_seconds,
    start_ns_rest=rests,
    end_ns_rest=rests,
    version=st.sampled_from([version_of(1), version_of(1, is_running=True)]),
    trace_state=texts,
    **{name: st.none() | texts for name in TEXT_COLUMNS},
    **dict.fromkeys(JSON_COLUMNS, some_json),
    **dict.fromkeys(COUNTS, st.integers(0, 2**32 - 1) | st.just(0)),
)


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a span, written in a plain way."""
    parent_id = row["parent_id"]
    end = {
        "end_time": format_us(row["end_us"]),
        "end_time_unix_nano": str(row["end_us"] * 1000 + row["end_ns_rest"]),
    }
    is_ended = row["version"] >= ENDED
    required = {
        "created_at": format_us(row["stored_us"]),
        "trace_id": row["trace_id"].hex(),
        "span_id": row["span_id"][8:].hex(),
        **({} if parent_id == NO_PARENT else {"parent_id": parent_id[8:].hex()}),
        "trace_type": row["trace_type"].decode(),
        "span_type": row["span_type"].decode(),
        "span_kind": SpanKind(row["kind"]).name,
        "span_name": row["name"].decode(),
        "start_time": format_us(row["start_us"]),
        **({"end_time": end["end_time"]} if is_ended else {}),
        "start_time_unix_nano": str(row["start_us"] * 1000 + row["start_ns_rest"]),
        **({"end_time_unix_nano": end["end_time_unix_nano"]} if is_ended else {"state": "running"}),
        "status_code": StatusCode(row["status_code"]).name,
        "attributes": orjson.loads(row["attributes_template"]),
    }
    texts = {name: row[name].decode() for name in TEXT_COLUMNS if row[name] is not None}
    state = {"trace_state": row["trace_state"].decode()} if row["trace_state"] else {}
    counts = {name: row[name] for name in COUNTS if row[name]}
    json = {name: orjson.loads(row[name]) for name in JSON_COLUMNS if row[name]}
    last = {name: counts.pop(name) for name in ("dropped_scores_count",) if name in counts}
    return required | texts | state | counts | json | last


@given(rows=st.lists(rows, min_size=1, max_size=5), data=st.data())
def test_members_are_rendered_in_order(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    spans = Layout.of(table(rows, cut_at=data.draw(st.integers(0, len(rows))))).spans({})

    assert [list(orjson.loads(span.json).items()) for span in spans] == [list(expected(row).items()) for row in rows]
    assert [span.key for span in spans] == [(row["trace_id"], row["span_id"]) for row in rows]
    assert [span.version.start_us for span in spans] == [row["start_us"] for row in rows]
    assert [orjson.loads(span.name) for span in spans] == [row["name"].decode() for row in rows]
    assert [span.parent_id or NO_PARENT for span in spans] == [row["parent_id"] for row in rows]


def test_no_rows_render_no_spans() -> None:
    assert Layout.of(table([])).spans({}) == []


def test_json_members_are_copied_as_stored() -> None:
    spaced = b'{"a" : 1.0}'

    [span] = Layout.of(table([row(attributes_template=spaced, resource=spaced)])).spans({})

    assert b'"attributes":%b,"resource":%b}' % (spaced, spaced) in span.json


def test_root_of_a_trace_without_usage_is_rendered_as_stored() -> None:
    spaced = b'{"ag" : {"metrics" : {}}}'

    [span] = Layout.of(table([row(attributes_template=spaced)])).spans({b"t" * 16: NO_METRICS})

    assert b'"attributes":%b' % spaced in span.json


def test_whole_seconds_have_no_fraction() -> None:
    spans = Layout.of(table([row(start_us=1_000_000), row(start_us=1_000_010), row(start_us=2_000_000)])).spans({})

    times = [orjson.loads(span.json)["start_time"] for span in spans]
    assert times == ["1970-01-01T00:00:01Z", "1970-01-01T00:00:01.000010Z", "1970-01-01T00:00:02Z"]


def test_default_output_replaces_all_outputs() -> None:
    attributes = b'{"ag":{"data":{"outputs":{"__default__":[1]}},"metrics":{}}}'

    [span] = Layout.of(table([row(attributes_template=attributes)])).spans({})

    assert orjson.loads(span.json)["attributes"]["ag"]["data"] == {"outputs": [1]}


@pytest.mark.parametrize(("parent_id", "is_shown"), [(NO_PARENT, True), (b"p" * 16, False)])
def test_only_roots_have_the_sums_of_their_trace(parent_id: bytes, is_shown: bool) -> None:
    [span] = Layout.of(table([row(parent_id=parent_id)])).spans({b"t" * 16: Metrics(tokens_total=3.0)})

    tokens = orjson.loads(span.json)["attributes"]["ag"]["metrics"]["tokens"]
    assert tokens == ({"cumulative": {"total": 3}} if is_shown else {})


def test_one_layout_is_rendered_with_different_sums() -> None:
    layout = Layout.of(table([row()]))
    plain = layout.spans({})

    [with_sums] = layout.spans({b"t" * 16: Metrics(errors=2.0)})

    assert orjson.loads(with_sums.json)["attributes"]["ag"]["metrics"]["errors"] == {"cumulative": 2}
    assert layout.spans({}) == plain


@pytest.mark.parametrize(
    ("name", "blank", "other"), [("session_id", None, b""), ("events", b"", b"[]"), ("flags", 0, 1)]
)
def test_column_holds_only_blanks_unless_a_row_has_a_value(name: str, blank: Any, other: Any) -> None:
    blanks = [row(**{name: blank})] * 3

    assert holds_only(table(blanks, cut_at=1), name, blank)
    assert not holds_only(table([*blanks, row(**{name: other})], cut_at=1), name, blank)
    assert not holds_only(table([row(**{name: other})]), name, blank)


NS_US_MAX = 2**63 // 1000 - 1

_times = st.lists(st.integers(EARLIEST_US, LATEST_US), max_size=5)


def test_no_times_give_no_texts():
    none = np.array([], np.int64)

    assert time_texts(none) == []
    assert nanosecond_texts(none, none) == []


@given(_times)
@example([0, -1, 1_000_000, 1_700_000_000_000_000, 1_700_000_000_000_001])
@example([EARLIEST_US, LATEST_US])
def test_column_of_times_equals_single_times(times_us: list[int]):
    assert time_texts(np.array(times_us, np.int64)) == [b'"%b"' % format_us(each).encode() for each in times_us]


@given(_times, st.integers(0, 999))
@example([0, -1, NS_US_MAX, -NS_US_MAX], 999)
@example([0, -1, NS_US_MAX + 1], 999)
@example([0, -1, -NS_US_MAX - 1], 0)
@example([EARLIEST_US, LATEST_US], 1)
def test_nanoseconds_are_exact_for_every_time(times_us: list[int], rest_ns: int):
    rests_ns = np.full(len(times_us), rest_ns, np.int64)

    assert nanosecond_texts(np.array(times_us, np.int64), rests_ns) == [
        b"%d" % (each * 1000 + rest_ns) for each in times_us
    ]
