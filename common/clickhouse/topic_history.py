"""The ids that topics have had, as rows of the table ``topic_ids`` (ADR 0027).

They are kept next to the spans, so that a backup of the spans has the partition ids and what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from common.clickhouse.engines import SQL
from common.clickhouse.store import ColumnStore, Statement
from common.times import Clock

TOPIC_IDS_TABLE: Final = "topic_ids"
DEADLINE_S: Final = 10.0


class StoredTopicHistory:
    """A ``TopicHistory`` in the column store."""

    def __init__(self, store: ColumnStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def read(self, cluster_id: str, /) -> Mapping[str, Sequence[str]]:
        """Return the ids of each topic of a cluster, the one seen first at the beginning.

        Raises the errors of ``ColumnStore``.
        """
        rows = await self._store.select(Statement(SQL["topic_ids"], {"cluster_id": cluster_id}), deadline_s=DEADLINE_S)
        found: dict[str, list[str]] = {}
        for row in rows.to_pylist():
            found.setdefault(row["topic"].decode(), []).append(row["topic_id"].decode())
        return found

    async def add(self, cluster_id: str, topic_ids: Mapping[str, str], /) -> None:
        """Remember one id of each of these topics. Raises the errors of ``ColumnStore``."""
        names, ids = list(topic_ids), list(topic_ids.values())
        rows = pa.table(
            {
                "cluster_id": pa.array([cluster_id] * len(names), pa.string()),
                "topic": pa.array(names, pa.string()),
                "topic_id": pa.array(ids, pa.string()),
                "seen_us": pa.array([self._clock.now_ns() // 1_000] * len(names), pa.int64()),
            }
        )
        token = "/".join([cluster_id, *sorted(ids)])
        await self._store.insert(TOPIC_IDS_TABLE, rows, dedup_token=token, deadline_s=DEADLINE_S)
