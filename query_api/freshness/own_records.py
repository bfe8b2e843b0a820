"""Which records of the project of a request are queryable, by the place at which Kafka keeps them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from query_api.freshness.lookup import look_up_stored
from query_api.request.route import Request
from query_api.spans.request_spans import project_spans
from query_api.spans.tables import Table, read_from

_AT_PLACES: Final = "SELECT DISTINCT partition_id, record_offset\n" + read_from(
    Table.ARRIVALS, "partition_id IN {logs:Array(String)}", "record_offset IN {offsets:Array(UInt64)}"
)


class Place(NamedTuple):
    """Where Kafka keeps a record."""

    partition_id: str
    offset: int


class OwnRecords:
    """Looks up records of one project for one request. A place is looked up once, when the project is stored beyond it."""

    def __init__(self, request: Request) -> None:
        self._call = request
        self._is_looked_up = False
        self._stored_at: dict[Place, bool] = {}

    async def find(self, places: Sequence[Place]) -> Set[Place]:
        """The places at which a record with spans of the project is stored. Raises the errors of ``ColumnStore``."""
        if not places:
            return set()
        context, project_id = self._call.context, self._call.project_id
        if not self._is_looked_up:
            self._is_looked_up = True
            await look_up_stored(context, project_id)
        through = context.stored.through(project_id)
        due = [
            each
            for each in places
            if each not in self._stored_at
            and each.partition_id in through
            and each.offset <= through[each.partition_id].offset
        ]
        if due:
            await self._look_up(due)
        return {each for each in places if self._stored_at.get(each)}

    async def _look_up(self, places: Sequence[Place]) -> None:
        parameters = {"logs": [each.partition_id for each in places], "offsets": [each.offset for each in places]}
        rows = await project_spans(self._call, explain=False).select(_AT_PLACES, parameters)
        stored = {
            Place(partition_id.decode(), offset)
            for partition_id, offset in zip(
                rows["partition_id"].to_pylist(), rows["record_offset"].to_pylist(), strict=True
            )
        }
        self._stored_at |= {each: each in stored for each in places}
