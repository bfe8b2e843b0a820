"""The ids that topics have had, as rows of the table ``topic_ids`` (ADR 0027).

They are kept next to the spans, so that a backup of the spans has the partition ids and what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

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
        found: dict[str, list[str]] = {}
        for row in await self._select(cluster_id):
            found.setdefault(row["topic"].decode(), []).append(row["topic_id"].decode())
        return found

    async def add(self, cluster_id: str, topic_ids: Mapping[str, str], /) -> None:
        """Remember one id of each of these topics, as seen after every id of it that is stored.

        The clock alone does not decide: that of the worker which stored the others may have been fast. Raises the
        errors of ``ColumnStore``.
        """
        names, ids = list(topic_ids), list(topic_ids.values())
        now_us = self._clock.now_ns() // 1_000
        seen_us = dict.fromkeys(names, now_us)
        for row in await self._select(cluster_id):
            if (name := row["topic"].decode()) in seen_us:
                seen_us[name] = max(seen_us[name], row["last_seen_us"] + 1)
        rows = pa.table(
            {
                "cluster_id": pa.array([cluster_id] * len(names), pa.string()),
                "topic": pa.array(names, pa.string()),
                "topic_id": pa.array(ids, pa.string()),
                "seen_us": pa.array(seen_us.values(), pa.int64()),
            }
        )
        token = "/".join([cluster_id, *sorted(ids)])
        await self._store.insert(TOPIC_IDS_TABLE, rows, dedup_token=token, deadline_s=DEADLINE_S)

    async def _select(self, cluster_id: str) -> list[dict[str, Any]]:
        statement = Statement(SQL["topic_ids"], {"cluster_id": cluster_id})
        rows: list[dict[str, Any]] = (await self._store.select(statement, deadline_s=DEADLINE_S)).to_pylist()
        return rows
