from __future__ import annotations

from common.clickhouse.migrate import DDL, render, statements
from common.settings import ClickHouseSettings

TABLE = """
CREATE TABLE t{local} (a UInt8)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}a)
SETTINGS {dedup_window_setting} = 1
"""
REPLICATED = ClickHouseSettings(cluster="main")
SHARDED = ClickHouseSettings(cluster="main", sharding="on", replication="off")


def test_table_for_one_server():
    assert (
        render(TABLE, ClickHouseSettings())
        == """
CREATE TABLE t (a UInt8)
ENGINE = ReplacingMergeTree(a)
SETTINGS non_replicated_deduplication_window = 1
"""
    )


def test_table_for_a_cluster_is_replicated():
    assert (
        render(TABLE, REPLICATED)
        == """
CREATE TABLE t (a UInt8)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', a)
SETTINGS replicated_deduplication_window = 1
"""
    )


def test_table_of_a_shard_without_replicas():
    assert (
        render(TABLE, SHARDED)
        == """
CREATE TABLE t_local (a UInt8)
ENGINE = ReplacingMergeTree(a)
SETTINGS non_replicated_deduplication_window = 1
"""
    )


def test_table_is_created_with_the_storage_policy():
    settings = "SETTINGS {storage_policy}{dedup_window_setting} = 1"

    assert render(settings, ClickHouseSettings()) == "SETTINGS non_replicated_deduplication_window = 1"
    assert (
        render(settings, ClickHouseSettings(storage_policy="tiered"))
        == "SETTINGS storage_policy = 'tiered', non_replicated_deduplication_window = 1"
    )


def test_every_table_of_the_ddl_may_be_that_of_a_shard():
    ddl = "".join(path.read_text() for path in sorted(DDL.glob("*.sql")))
    created = [statement for statement in statements(render(ddl, SHARDED)) if "CREATE " in statement]

    assert len(created) >= 6
    assert all("IF NOT EXISTS" in statement and "_local" in statement for statement in created)


def test_other_braces_are_kept():
    assert render("SELECT {a:String}, {shard}{local}", ClickHouseSettings()) == "SELECT {a:String}, {shard}"


def test_statements_end_with_a_semicolon_at_the_end_of_a_line():
    text = "SELECT ';' AS a; -- not here\n, 1;\n\nSELECT 2 ;  \n-- a comment alone\n"

    assert statements(text) == ["SELECT ';' AS a; -- not here\n, 1", "SELECT 2", "-- a comment alone"]
