from __future__ import annotations

import pytest

from common.clickhouse.cluster import divided_table, epochs_of, sharding_key
from common.settings import ClickHouseSettings
from common.store_settings import FIRST_US, ShardEpoch

SHARDED = {"cluster": "main", "sharding": "on", "replication": "off"}
TWO = [ShardEpoch(2, FIRST_US)]
THREE = [*TWO, ShardEpoch(3, 1_000), ShardEpoch(5, 2_000)]


def test_a_trace_is_on_one_shard():
    assert sharding_key("spans", TWO) == "cityHash64(project_id, trace_id) % 2"
    assert sharding_key("span_arrivals", TWO) is None


def test_new_spans_go_to_new_shards():
    key = "cityHash64(project_id, trace_id)"
    assert sharding_key("spans", THREE) == f"multiIf(start_us < 1000, {key} % 2, start_us < 2000, {key} % 3, {key} % 5)"


def test_small_tables_stay_on_the_first_shards():
    assert sharding_key("dead_letters", THREE) == "cityHash64(id) % 2"


def test_table_over_those_of_the_shards():
    divided = divided_table("stored_through", TWO, cluster="main", migration=7)

    assert divided.comment == "by cityHash64(project_id, partition_id) % 2, columns of migration 7"
    assert divided.create == (
        "CREATE OR REPLACE TABLE stored_through AS stored_through_local\n"
        "ENGINE = Distributed('main', currentDatabase(), 'stored_through_local',"
        f" cityHash64(project_id, partition_id) % 2)\nCOMMENT '{divided.comment}'"
    )


def test_epochs_come_from_the_settings_or_from_the_cluster():
    settings = ClickHouseSettings(**SHARDED, shard_epochs="2, 3@1970-01-01T00:00:01Z")

    assert epochs_of(settings, 3) == [ShardEpoch(2, FIRST_US), ShardEpoch(3, 1_000_000)]
    assert epochs_of(ClickHouseSettings(**SHARDED), 4) == [ShardEpoch(4, FIRST_US)]


@pytest.mark.parametrize("text", ["x", "0", "2,3", "2,3@", "2,3@soon", "2,3@2027-01-01,4@2026-01-01", "2@2026-01-01"])
def test_other_epochs_are_refused(text: str):
    with pytest.raises(ValueError, match="Input should be counts of shards"):
        ClickHouseSettings(**SHARDED, shard_epochs=text)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"sharding": "on"}, "unless CLEARSPAN_CLICKHOUSE__CLUSTER is set"),
        ({"cluster": "main", "replication": "off"}, "should be on if CLEARSPAN_CLICKHOUSE__CLUSTER is set"),
        ({"cluster": "main", "sharding": "on"}, "at least 2 if SHARDING is on"),
        ({"cluster": "main", "sharding": "on", "insert_quorum": "1"}, "at least 2 if SHARDING is on"),
    ],
)
def test_settings_that_lose_spans_are_refused(members: dict[str, str], message: str):
    with pytest.raises(ValueError, match=message):
        ClickHouseSettings.model_validate(members)
