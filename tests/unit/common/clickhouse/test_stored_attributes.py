"""Attributes that are joined from templates and leaves."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.clickhouse.leaves import SpanLeaves, template_of
from common.clickhouse.stored_attributes import LEAF_TEXTS, TEMPLATE, attributes_of
from tests.support.attributes import filled
from tests.unit.common.clickhouse.test_leaves import ATTRIBUTES


def stored(attributes: list[dict[str, Any]]) -> pa.Table:
    """Return the columns of spans with these attributes, as the engine returns them."""
    leaves = [leaves_of(nested) for nested in attributes]
    return pa.table(
        {
            LEAF_TEXTS: pa.array([[text.encode() for text in texts] for texts in leaves], pa.list_(pa.binary())),
            TEMPLATE: pa.array(list(map(template_of, attributes)), pa.binary()),
        }
    )


def leaves_of(nested: dict[str, Any]) -> list[str]:
    leaves = SpanLeaves()
    leaves.append(nested)
    return leaves.texts


@given(st.lists(ATTRIBUTES, max_size=4), st.data())
def test_attributes_come_back(attributes: list[dict[str, Any]], data: st.DataObject) -> None:
    rows = stored(attributes)
    cut = data.draw(st.integers(0, len(attributes)))
    in_two_blocks = pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])

    joined = attributes_of(in_two_blocks)

    assert joined == [filled(template_of(nested), leaves_of(nested)) for nested in attributes]
    assert list(map(orjson.loads, joined)) == [orjson.loads(orjson.dumps(nested)) for nested in attributes]


def test_values_of_each_type() -> None:
    nested = {
        "text": 'é"\\\n\u2028/',
        "number": -1.5,
        "true": True,
        "false": False,
        "null": None,
        "object": {},
        "list": [],
    }

    [joined] = attributes_of(stored([nested]))

    assert orjson.loads(joined) == nested


def test_leaves_that_do_not_fit_their_template_are_an_error() -> None:
    rows = stored([{"a": 1}])

    with pytest.raises(ValueError, match="extended slice"):
        attributes_of(rows.set_column(0, LEAF_TEXTS, pa.array([[]], pa.list_(pa.binary()))))
