"""What the formats of an export write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from query_api.export.formats import _cells


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+41 44", "'+41 44"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        *((f"{sign}1", f"'{sign}1") for sign in "\uff1d\uff0b\uff0d\uff20"),
        ("-5", "-5"),
        ("-5.25e-7", "-5.25e-7"),
        ("-5\n=1", "'-5\n=1"),
        ("a=1", "a=1"),
        ("", ""),
        (None, None),
    ],
)
def test_text_of_csv_is_no_formula(text: str | None, cell: str | None) -> None:
    assert _cells(pa.chunked_array([pa.array([text, "=", None])])).to_pylist() == [cell, "'=", None]
