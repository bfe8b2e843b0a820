"""The outline of a trace: what a waterfall shows of every span, in columns instead of objects.

A trace of 100,000 spans is 8 MB. No object per span is made on the way from the engine to the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
from pydantic import ConfigDict, Field

from common.clickhouse.span_columns import NO_PARENT
from common.fair_share import in_thread
from common.ids import trace_id_hex
from common.span import StatusCode
from common.span_version import ENDED
from common.times import format_us
from query_api.pages.traces import trace_id_of
from query_api.request.json_body import ApiModel
from query_api.request.route import Request, Response
from query_api.spans.message_spans import message_places
from query_api.spans.narrow_rows import narrow_rows_of_trace
from query_api.spans.project_spans import project_spans
from query_api.spans.rows import LARGE_SPANS
from query_api.spans.versions import ID_BYTES, Integers, id_bytes, integers_of, values_of

_NS_PER_US: Final = 1_000
_CODES: Final = {code.value: code.name.encode() for code in StatusCode}
_NUMBER: Final = b"n"
"""The type of a leaf that is a number (``common/clickhouse/leaves.py``). The rest of the leaf is JSON."""


_EXAMPLE: Final[dict[str, Any]] = {
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "start_time": "2026-01-05T03:04:05Z",
    "spans_count": 2,
    "message_spans": [],
    "spans": {
        "span_id": ["eee19b7ec3c1b174", "eee19b7ec3c1b175"],
        "parent_id": [None, "eee19b7ec3c1b174"],
        "start_ns": [0, 12_000_000],
        "duration_ns": [1_500_000_000, 1_200_000_000],
        "span_name": {"values": ["answer the question", "chat"], "index": [0, 1]},
        "span_type": {"values": ["agent", "chat"], "index": [0, 1]},
        "status_code": {"values": ["STATUS_CODE_UNSET"], "index": [0, 0]},
        "service": {"values": ["city-guide"], "index": [0, 0]},
        "model": {"values": ["", "gpt-4o-mini-2024-07-18"], "index": [0, 1]},
        "tokens": [None, 58],
        "cost": [None, 0.00001905],
    },
}


class OutlineTexts(ApiModel):
    """One text of each span, by its index among the distinct texts."""

    values: list[str] = Field(description='The distinct texts; `""` where a span has none.')
    index: list[int] = Field(description="For each span, the place of its text in `values`, from 0.")


class OutlineColumns(ApiModel):
    """The spans in columns: the elements at one place are one span. In the order of `(start_time, span_id)`."""

    span_id: list[str]
    parent_id: list[str | None]
    start_ns: list[int] = Field(description="Nanoseconds after the start of the earliest span.")
    duration_ns: list[int | None] = Field(
        description="Nanoseconds from the start to the end of the span; `null` while it is running."
    )
    span_name: OutlineTexts
    span_type: OutlineTexts
    status_code: OutlineTexts
    service: OutlineTexts = Field(description="`service.name` of the resource.")
    model: OutlineTexts = Field(description="`ag.meta.response.model`, else `ag.meta.request.model`.")
    tokens: list[float | None] = Field(description="`ag.metrics.tokens.incremental.total`.")
    cost: list[float | None] = Field(description="`ag.metrics.costs.incremental.total`.")


class OutlineModel(ApiModel):
    """A trace without the attributes of its spans."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    trace_id: str
    start_time: str = Field(description="The start of the earliest span.")
    spans_count: int
    message_spans: list[int] = Field(
        description="The places, from 0, of the spans that only pass on a message: of type `task`, with attributes"
        " `messaging.*`, with a parent, and without inputs, outputs, usage and an error of their own; and spans of MCP"
        " that repeat the call of their parent, such as the server's below the client's."
    )
    spans: OutlineColumns


class OutlineResponse(ApiModel):
    """One outline, or none."""

    count: int
    outline: OutlineModel | None = None


async def get_outline(request: Request) -> Response:
    """Return the ids, times, names and usage of all spans of a trace, in columns.

    A trace with more than 250,000 spans is 400.
    """
    trace_id = trace_id_of(request)
    rows = await narrow_rows_of_trace(project_spans(request), trace_id, spans_max=request.context.limits.outline_spans)
    if not rows.num_rows:
        return Response(b'{"count":0}')
    is_large = rows.num_rows > LARGE_SPANS
    outline = await in_thread(outline_json, trace_id, rows) if is_large else outline_json(trace_id, rows)
    return Response(b'{"count":1,"outline":%b}' % outline)


def outline_json(trace_id: bytes, rows: pa.Table) -> bytes:
    """Return the outline of a trace as JSON. ``rows`` are its ``narrow_rows``, at least one, by start and span id."""
    starts_us = integers_of(rows, "start_us")
    first_us = int(starts_us.min())
    starts_ns = (starts_us - first_us) * _NS_PER_US + integers_of(rows, "start_ns_rest")
    ends_ns = (integers_of(rows, "end_us") - first_us) * _NS_PER_US + integers_of(rows, "end_ns_rest")
    columns = {
        "span_id": _span_ids(rows),
        "parent_id": _parent_ids(rows),
        "start_ns": _json(starts_ns - starts_ns.min()),
        "duration_ns": _durations(ends_ns - starts_ns, integers_of(rows, "version") < ENDED),
        "span_name": _texts(rows, "name"),
        "span_type": _texts(rows, "span_type"),
        "status_code": _texts(rows, "status_code", _CODES.__getitem__),
        "service": _texts(rows, "service"),
        "model": _texts(rows, "model"),
        "tokens": _numbers(rows, "tokens_leaf"),
        "cost": _numbers(rows, "cost_leaf"),
    }
    return b'{"trace_id":"%b","start_time":"%b","spans_count":%d,"message_spans":%b,"spans":{%b}}' % (
        trace_id_hex(trace_id).encode(),
        format_us(first_us).encode(),
        rows.num_rows,
        _json(message_places(rows)),
        b",".join(b'"%b":%b' % (name.encode(), column) for name, column in columns.items()),
    )


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def _durations(durations_ns: Integers, are_running: np.ndarray[Any, np.dtype[np.bool_]]) -> bytes:
    if not are_running.any():
        return _json(durations_ns)
    return _json(
        [None if is_running else ns for ns, is_running in zip(durations_ns.tolist(), are_running, strict=True)]
    )


def _span_ids(rows: pa.Table) -> bytes:
    return b'["%b"]' % b'","'.join(_digits(rows, "span_id"))


def _parent_ids(rows: pa.Table) -> bytes:
    are_roots = [parent_id == NO_PARENT for parent_id in values_of(rows, "parent_id")]
    pairs = zip(_digits(rows, "parent_id"), are_roots, strict=True)
    return _list(b"null" if is_root else b'"%b"' % digits for digits, is_root in pairs)


def _digits(rows: pa.Table, name: str) -> list[bytes]:
    """Return the ids as answers show them: the second half of what is stored."""
    digits: list[bytes] = np.frombuffer(id_bytes(rows, name).hex().encode(), f"S{ID_BYTES}")[1::2].tolist()
    return digits


def _texts(rows: pa.Table, name: str, text: Callable[[Any], bytes] = bytes) -> bytes:
    """Return a column as its distinct texts and an index for each row."""
    encoded = rows.column(name).combine_chunks().dictionary_encode()
    values = [text(value).decode() for value in encoded.dictionary.to_pylist()]
    return b'{"values":%b,"index":%b}' % (_json(values), _json(encoded.indices.to_numpy()))


def _numbers(rows: pa.Table, name: str) -> bytes:
    """Return a column of leaves as numbers, ``null`` where there is none."""
    encoded = rows.column(name).combine_chunks().dictionary_encode()
    numbers = [leaf[1:] if leaf[:1] == _NUMBER else b"null" for leaf in encoded.dictionary.to_pylist()]
    return _list(map(numbers.__getitem__, encoded.indices.to_pylist()))


def _list(elements: Iterable[bytes]) -> bytes:
    return b"[%b]" % b",".join(elements)
