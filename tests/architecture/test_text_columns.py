"""Every column of ``spans`` that holds text is masked and exported, or named here with the reason why not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from common.clickhouse.migrate import DDL
from common.clickhouse.span_columns import OPTIONAL_MEMBERS
from common.span import PROMOTED_TEXTS, NormalizedSpan, Span
from ingest.masking.spans import UNMASKED
from query_api.export.columns import COLUMNS
from query_api.filter.language import FIELDS
from query_api.request.json_body import PromotedTexts

FILTER_JS: Final = Path(__file__).parents[2] / "query_api/explorer/page/app/filter.js"

OF_A_SPAN: Final = {
    "attributes_template": "attributes",
    "leaves": "attributes",
    "attributes_by_key": "attributes",
    "resource_by_key": "resource",
    "scope_by_key": "scope",
    "score_values": "scores",
    "score_labels": "scores",
}
"""Columns that are made of a field of ``Span`` with another name."""

WITHOUT_CONTENT: Final = frozenset({
    "partition_id",  # names a partition of Kafka
    "arrival_partition_id",
    "trace_type",  # an enum
    "span_type",  # an enum
})  # fmt: skip
EXPORTED_AS: Final = {"name": "span_name"}
NOT_EXPORTED: Final = frozenset({"partition_id", "arrival_partition_id"})


def _text_columns() -> list[str]:
    """Return the columns that are written; the engine makes the others of them."""
    [table] = re.findall(r"\nCREATE TABLE IF NOT EXISTS spans\{.*?\n\(\n(.*?)\n\)\n", _ddl(), re.S)
    return re.findall(
        r"^    ([a-z_]+) +(?:(?:Nullable|LowCardinality|Map|Array)\(.*)?String\b(?!.* (?:MATERIALIZED|ALIAS)$)",
        table,
        re.M,
    )


def _ddl() -> str:
    return "".join(path.read_text() for path in sorted(DDL.glob("*.sql")))


def test_text_columns_of_spans_are_masked() -> None:
    columns = _text_columns()
    masked = set(Span._fields) - UNMASKED

    assert set(PROMOTED_TEXTS) < set(columns)
    assert [each for each in columns if OF_A_SPAN.get(each, each) not in masked | WITHOUT_CONTENT] == []


def test_fields_that_are_not_masked_have_no_text() -> None:
    assert set(Span._fields) > UNMASKED
    assert [name for name in UNMASKED if "str" in str(Span.__annotations__[name])] == []


def test_text_columns_of_spans_are_exported() -> None:
    members = {EXPORTED_AS.get(each, OF_A_SPAN.get(each, each)) for each in _text_columns()}

    assert members - NOT_EXPORTED - set(COLUMNS) == set()


def test_promoted_texts_are_the_same_everywhere() -> None:
    count = len(PROMOTED_TEXTS)

    assert Span._fields[-count:] == NormalizedSpan._fields[-count:] == tuple(PROMOTED_TEXTS)
    assert tuple(PromotedTexts.model_fields) == tuple(PROMOTED_TEXTS)
    assert set(PROMOTED_TEXTS) < set(OPTIONAL_MEMBERS)
    assert all(f"INDEX {name}_index {name} " in _ddl() for name in PROMOTED_TEXTS)
    assert [name for name in FIELDS if f"'{name}'" not in FILTER_JS.read_text()] == []
