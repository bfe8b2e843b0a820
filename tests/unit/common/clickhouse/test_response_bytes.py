"""``response_bytes`` counts the JSON text of the attributes exactly, escapes included."""

from typing import Any
from uuid import UUID

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from common.clickhouse.span_columns import RESPONSE_FRAME_BYTES, SpanColumns
from common.json_values import read_json
from common.nesting import Nesting, Shape
from common.span import NormalizedSpan, Span
from tests.strategies import hostile_text
from tests.unit.common.clickhouse.test_leaves import ATTRIBUTES


def as_nested(attributes: dict[str, Any]) -> Nesting:
    return Nesting(attributes, Shape(tuple((0, name, False) for name in attributes), ()))


def sizes(spans: list[dict[str, Any]]) -> list[int]:
    columns = SpanColumns()
    columns.append_record(
        project_ids=UUID(int=1),
        partition_id="cluster/spans/0",
        record_offset=5,
        record_ms=1,
        spans=[Span(b"t" * 16, b"s" * 16, None, "name", 3, 1, 2, 1, None, {})] * len(spans),
        span_indexes=range(len(spans)),
        normalized_spans=[
            NormalizedSpan(as_nested(attributes), attributes["ag"], "invocation", "task") for attributes in spans
        ],
    )
    sizes: list[int] = columns.rows()["response_bytes"].to_pylist()
    return [size - RESPONSE_FRAME_BYTES for size in sizes]


@given(st.lists(ATTRIBUTES | st.dictionaries(hostile_text(), hostile_text(), max_size=3), min_size=1, max_size=4))
@example([{}, {"a": True, "b": False, "c": [None, {}, []], "d": -1.5e300}])
@example([{"é": 'quotes " \\ and \n\r\t\b\f \x01\x1f\x7f \u2028 / 日本 🙂'}, {"a": ""}])
def test_attributes_are_counted_as_json(spans: list[Any]) -> None:
    spans = [read_json(orjson.dumps(attributes | {"ag": {}}).decode()) for attributes in spans]

    assert sizes(spans) == [len(orjson.dumps(attributes)) for attributes in spans]
