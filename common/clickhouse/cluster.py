"""The servers of a cluster, and the tables that are divided among its shards (ADR 0037).

With ``SHARDING`` each server has its own tables, whose names end with ``LOCAL_SUFFIX``, and a ``Distributed`` table
before each, which has the name that all statements use. Statements about the own tables of a server, of migrations and
of retention, are sent to it: parts of two shards may have the same name, so none can be sent to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from common.clickhouse.engines import SQL
from common.clickhouse.select import LOCAL_SUFFIX
from common.clickhouse.store import ColumnStore, Statement
from common.errors import Unavailable
from common.migrations import InvalidMigration
from common.settings import ClickHouseSettings
from common.store_settings import FIRST_US, ShardEpoch

DEADLINE_S: Final = 60.0

BY_TRACE: Final = "cityHash64(project_id, trace_id)"
SHARDING_KEYS: Final = {
    "spans": BY_TRACE,
    "span_versions": BY_TRACE,
    "span_arrivals": None,  # filled by a view of each shard alone
    "span_events": BY_TRACE,
    "judged_spans": None,  # filled by a view, as span_arrivals
    "stored_through": "cityHash64(project_id, partition_id)",
    "dead_letters": "cityHash64(id)",
    "settled_traces": BY_TRACE,
    "trace_settlings": None,
}
"""The tables, and the hash that says which shard a row is on. Everything about a trace is on one shard."""

FOLLOWING_EPOCHS: Final = ("spans", "span_versions")
"""The tables of which new rows go to new shards. The others are small, and stay where they were."""


class Node(NamedTuple):
    """One server of a cluster."""

    shard: int
    """From 1."""

    host: str


async def nodes_of(store: ColumnStore, cluster: str) -> list[Node]:
    """Return the servers of a cluster, by shard. Raises ``Unavailable`` if the server knows no such cluster, and the
    errors of ``ColumnStore``.
    """
    rows = await store.select(Statement(SQL["cluster_nodes"], {"cluster": cluster}), deadline_s=DEADLINE_S)
    if not rows.num_rows:
        raise Unavailable(
            f"ClickHouse has no cluster {cluster!r} in system.clusters. See CLEARSPAN_CLICKHOUSE__CLUSTER."
        )
    return [Node(row["shard"], row["host"].decode()) for row in rows.to_pylist()]


def at_hosts(settings: ClickHouseSettings, hosts: Sequence[str]) -> ClickHouseSettings:
    """Return the settings of servers of the cluster; all have the same port and users."""
    return settings.model_copy(update={"host": ",".join(hosts)})


def epochs_of(settings: ClickHouseSettings, shards_count: int) -> list[ShardEpoch]:
    """Return the epochs of a cluster with this number of shards.

    Raises ``InvalidMigration`` if the settings end with another one.
    """
    epochs = settings.epochs or [ShardEpoch(shards_count, FIRST_US)]
    if epochs[-1].shards_count != shards_count:
        raise InvalidMigration(
            f"The cluster {settings.cluster} has {shards_count} shards, and the last of"
            f" CLEARSPAN_CLICKHOUSE__SHARD_EPOCHS ({settings.shard_epochs}) has {epochs[-1].shards_count}."
        )
    return epochs


def sharding_key(table: str, epochs: Sequence[ShardEpoch]) -> str | None:
    """Return the expression whose value is the number of the shard of a row, from 0."""
    key = SHARDING_KEYS[table]
    if key is None:
        return None
    first, last = epochs[0], epochs[-1]
    if len(epochs) == 1 or table not in FOLLOWING_EPOCHS:
        return f"{key} % {first.shards_count}"
    earlier = (f"start_us < {after.since_us}, {key} % {epoch.shards_count}" for epoch, after in pairwise(epochs))
    return f"multiIf({', '.join(earlier)}, {key} % {last.shards_count})"


class DividedTable(NamedTuple):
    """A ``Distributed`` table. Its ``comment`` is the same exactly if it has the same columns and key."""

    create: str
    comment: str


def divided_table(table: str, epochs: Sequence[ShardEpoch], *, cluster: str, migration: int) -> DividedTable:
    """Return the table over those of the shards, as ``migration`` has left these."""
    key = sharding_key(table, epochs)
    comment = f"{f'by {key}' if key else 'no inserts'}, columns of migration {migration}"
    arguments = f"'{cluster}', currentDatabase(), '{table}{LOCAL_SUFFIX}'" + (f", {key}" if key else "")
    return DividedTable(
        f"CREATE OR REPLACE TABLE {table} AS {table}{LOCAL_SUFFIX}\n"
        f"ENGINE = Distributed({arguments})\nCOMMENT '{comment}'",
        comment,
    )
