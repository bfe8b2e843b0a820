from __future__ import annotations

from pathlib import Path

import pytest

from common.named_sql import load_named_sql
from common.postgres import projects


def test_query_ends_where_the_next_begins(tmp_path: Path):
    (tmp_path / "a.sql").write_text(
        "a preface\n-- one --\n-- Why it is there.\nSELECT 1;\n\n-- two --\nSELECT '-- x --';\n"
    )

    assert load_named_sql(tmp_path / "a.sql") == {"one": "SELECT 1;", "two": "SELECT '-- x --';"}


def test_duplicate_name_is_rejected(tmp_path: Path):
    (tmp_path / "a.sql").write_text("-- one --\nSELECT 1;\n-- one --\nSELECT 2;\n")

    with pytest.raises(ValueError, match="more than one query is named one"):
        load_named_sql(tmp_path / "a.sql")


def test_every_query_is_used():
    package = Path(projects.__file__).parent
    code = "".join(path.read_text() for path in package.glob("*.py"))

    assert [name for name in projects.SQL if f'SQL["{name}"]' not in code] == []
