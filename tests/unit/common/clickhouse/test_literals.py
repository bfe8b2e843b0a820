from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from common.clickhouse.engines import with_literals
from common.clickhouse.store import Statement
from common.errors import InvalidStatement


@pytest.mark.parametrize(
    ("placeholder", "value", "sql"),
    [
        ("{p:String}", "user-079", "'user-079'"),
        ("{p:String}", "", "''"),
        ("{p:String}", "it's", "'it\\x27s'"),
        ("{p:String}", "back\\slash", "'back\\x5cslash'"),
        ("{p:String}", "é", "'\\xc3\\xa9'"),
        ("{p:String}", "{q:String}", "'\\x7bq\\x3aString\\x7d'"),
        ("{p:String}", b"\x00\xff", "unhex('00ff')"),
        ("{p:UUID}", UUID(int=5), "CAST('00000000-0000-0000-0000-000000000005', 'UUID')"),
        ("{p:Int64}", -7, "CAST(-7, 'Int64')"),
        ("{p:UInt8}", True, "CAST(1, 'UInt8')"),
        ("{p:Float64}", 1e300, "CAST('1e+300', 'Float64')"),
        ("{p:Array(Int64)}", [1, -2], "CAST([1,-2], 'Array(Int64)')"),
        ("{p:Array(String)}", ["a", "b"], "CAST(['a','b'], 'Array(String)')"),
        (
            "{p:Array(String)}",
            ["a", "'"],
            "CAST(['a','\\x27'], 'Array(String)')",
        ),
        ("{p:Array(String)}", [], "CAST([], 'Array(String)')"),
    ],
)
def test_value_becomes_a_literal_that_cannot_end_early(placeholder: str, value: Any, sql: str) -> None:
    assert with_literals(Statement(f"f({placeholder})", {"p": value, "q": 1})) == f"f({sql})"


@pytest.mark.parametrize("value", [None, {"a": 1}, [None], [["a"]], [b"a"]])
def test_value_without_a_literal_is_refused(value: Any) -> None:
    with pytest.raises(InvalidStatement):
        with_literals(Statement("{p:String}", {"p": value}))


def test_name_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidStatement):
        with_literals(Statement("{p:String}", {}))
