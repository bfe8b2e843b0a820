"""Attributes as ``common/clickhouse/stored_attributes.py`` and the column ``attributes_json`` say them, leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa

from common.clickhouse.leaves import EMPTY_ARRAY, EMPTY_OBJECT, MARK


def attributes_of(rows: pa.Table) -> list[bytes]:
    """Return the JSON text of the attributes of rows of ``spans``."""
    templates, leaves = rows["attributes_template"].to_pylist(), rows["leaves"].to_pylist()
    return [filled(template, [text for _, text in pairs]) for template, pairs in zip(templates, leaves, strict=True)]


def filled(template: bytes, texts: Sequence[str]) -> bytes:
    """Return the JSON text of a template and the typed texts of its leaves."""
    values = [_json_of(text) for text in texts if text not in (EMPTY_OBJECT, EMPTY_ARRAY)]
    first, *pieces = template.split(MARK)
    return b"".join([first, *(value + piece for value, piece in zip(values, pieces, strict=True))])


def _json_of(typed: str) -> bytes:
    match typed[0]:
        case "s":
            return orjson.dumps(typed[1:])
        case "n":
            return typed[1:].encode()
        case _:
            return b"true" if typed == "b1" else b"false"
