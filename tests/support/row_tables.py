"""Tables as the engine returns them for rows of ``spans``, made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from common.clickhouse.span_columns import ALL_MEMBERS, NO_PARENT
from common.clickhouse.stored_attributes import LEAF_TEXTS, TEMPLATE
from common.span import PROMOTED_TEXTS
from common.span_version import version_of
from query_api.spans.rows import row_columns

TEXT_COLUMNS = ("status_message", *PROMOTED_TEXTS)
JSON_COLUMNS = ("events", "links", "references", "hashes", "resource", "scope", "repaired", "scores")
COUNTS = (
    "flags",
    "dropped_attributes_count",
    "dropped_events_count",
    "dropped_links_count",
    "dropped_scores_count",
)
_ID = pa.binary(16)
_TYPES = {"trace_id": _ID, "span_id": _ID, "parent_id": _ID, LEAF_TEXTS: pa.list_(pa.binary())}


def row(**members: Any) -> dict[str, Any]:
    """Return a row with these members; the others are plain."""
    plain: dict[str, Any] = {
        "trace_id": b"t" * 16,
        "span_id": b"s" * 16,
        "parent_id": NO_PARENT,
        "name": b"n",
        "start_us": 0,
        "end_us": 0,
        "start_ns_rest": 0,
        "end_ns_rest": 0,
        "stored_us": 0,
        "kind": 1,
        "status_code": 0,
        "trace_type": b"invocation",
        "span_type": b"task",
        "trace_state": b"",
        LEAF_TEXTS: [],
        TEMPLATE: b'{"ag":{"data":{},"metrics":{"tokens":{},"costs":{},"errors":{}}}}',
        **dict.fromkeys(TEXT_COLUMNS, None),
        **dict.fromkeys(JSON_COLUMNS, b""),
        **dict.fromkeys(COUNTS, 0),
        "partition_id": b"partition_id",
        "version": version_of(0),
    }
    return plain | members


def table(rows: list[dict[str, Any]], *, cut_at: int = 0) -> pa.Table:
    """Return the rows as the engine may: in two blocks, the second of which is a slice."""
    names = [column.rpartition(" AS ")[2] for column in row_columns(ALL_MEMBERS)]
    columns = {name: pa.array([each[name] for each in rows], _TYPES.get(name)) for name in names}
    whole = pa.table(columns)
    return pa.concat_tables([whole.slice(0, cut_at), whole.slice(cut_at)])


def as_the_engine_returns(rows: pa.Table) -> pa.Table:
    """Texts as bytes, without dictionaries; the texts of leaves as lists."""
    columns = {name: rows[name] for name in rows.column_names}
    texts = [[text.encode() for _, text in leaves] for leaves in rows["leaves"].to_pylist()]
    columns[LEAF_TEXTS] = pa.chunked_array([texts], pa.list_(pa.binary()))
    for name, column in columns.items():
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if kind in (pa.string(), pa.binary()):
            columns[name] = column.cast(kind).cast(pa.binary())
    return pa.table(columns)
