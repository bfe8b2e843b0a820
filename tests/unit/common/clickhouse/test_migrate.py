from __future__ import annotations

from common.clickhouse.migrate import DDL, render, statements

TABLE = """
CREATE TABLE t{on_cluster} (a UInt8)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}a)
SETTINGS {dedup_window_setting} = 1
"""


def test_table_for_one_server():
    assert (
        render(TABLE, cluster="")
        == """
CREATE TABLE t (a UInt8)
ENGINE = ReplacingMergeTree(a)
SETTINGS non_replicated_deduplication_window = 1
"""
    )


def test_table_for_a_cluster_is_replicated():
    assert (
        render(TABLE, cluster="main")
        == """
CREATE TABLE t ON CLUSTER `main` (a UInt8)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', a)
SETTINGS replicated_deduplication_window = 1
"""
    )


def test_every_statement_of_the_ddl_names_the_cluster():
    ddl = "".join(path.read_text() for path in sorted(DDL.glob("*.sql")))
    created = [statement for statement in statements(render(ddl, cluster="main")) if "CREATE " in statement]

    assert len(created) >= 6
    assert all("IF NOT EXISTS" in statement and " ON CLUSTER `main`" in statement for statement in created)


def test_other_braces_are_kept():
    assert render("SELECT {a:String}, {shard}{on_cluster}", cluster="") == "SELECT {a:String}, {shard}"


def test_text_that_was_filled_in_is_not_filled_again():
    assert render("{replica_arguments}", cluster="{on_cluster}").endswith("'{replica}', ")


def test_statements_end_with_a_semicolon_at_the_end_of_a_line():
    text = "SELECT ';' AS a; -- not here\n, 1;\n\nSELECT 2 ;  \n-- a comment alone\n"

    assert statements(text) == ["SELECT ';' AS a; -- not here\n, 1", "SELECT 2", "-- a comment alone"]
