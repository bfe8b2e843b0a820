from __future__ import annotations

from pathlib import Path

import pytest

from common.clickhouse.migrate import DDL
from common.clickhouse.sql_files import render, statements

GOLDEN = Path(__file__).parents[3] / "golden" / "ddl"


@pytest.mark.parametrize(("cluster", "suffix"), [("", "one_server"), ("main", "cluster")])
@pytest.mark.parametrize("path", sorted(DDL.glob("*.sql")), ids=lambda path: path.stem)
def test_the_ddl_reads_as_in_the_golden_file(path: Path, cluster: str, suffix: str, request: pytest.FixtureRequest):
    golden = GOLDEN / f"{path.stem}.{suffix}.sql"
    rendered = render(path.read_text(), cluster=cluster)
    if request.config.getoption("--rewrite-golden"):
        golden.write_text(rendered)

    assert rendered == golden.read_text()


def test_braces_that_are_not_ours_stay():
    assert render("SELECT {a:String}, {shard}{on_cluster}", cluster="") == "SELECT {a:String}, {shard}"


def test_a_filled_place_is_not_filled_again():
    assert render("{replica_arguments}", cluster="{on_cluster}").endswith("'{replica}', ")


def test_statements_end_with_a_semicolon_at_the_end_of_a_line():
    text = "SELECT ';' AS a; -- not here\n, 1;\n\nSELECT 2 ;  \n-- a comment alone\n"

    assert statements(text) == ["SELECT ';' AS a; -- not here\n, 1", "SELECT 2", "-- a comment alone"]
