from __future__ import annotations

from pathlib import Path

import pytest

from common.postgres.named_sql import load_named_sql
from common.postgres.queries import SQL


def test_a_query_ends_where_the_next_begins(tmp_path: Path):
    (tmp_path / "a.sql").write_text(
        "a preface\n-- one --\n-- Why it is there.\nSELECT 1;\n\n-- two --\nSELECT '-- x --';\n"
    )

    assert load_named_sql(tmp_path / "a.sql") == {"one": "-- Why it is there.\nSELECT 1;", "two": "SELECT '-- x --';"}


def test_a_name_that_stands_twice_is_refused(tmp_path: Path):
    (tmp_path / "a.sql").write_text("-- one --\nSELECT 1;\n-- one --\nSELECT 2;\n")

    with pytest.raises(ValueError, match="one stands twice"):
        load_named_sql(tmp_path / "a.sql")


def test_every_query_is_used():
    room = Path(load_named_sql.__code__.co_filename).parent
    code = "".join(path.read_text() for path in room.glob("*.py"))

    assert [name for name in SQL if f'SQL["{name}"]' not in code] == []
