"""Spans that are stored record by record, and the job that settles their traces, with a clock that tests move."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.leases import Kind, Lease, Leases
from common.postgres.pool import Database
from common.span import Span
from common.stored_position import ALL_PROJECTS, StoredPosition
from jobs.settling.records import SettlingRecords
from jobs.settling.run import Settling, SettlingTimes
from tests.fakes.clock import ManualClock
from tests.support.span_corpus import store_record

START_NS: Final = ManualClock().now_ns()
PARTITION: Final = "cluster/spans/0"
TIMES: Final = SettlingTimes(30.0, 900.0)


def span_in(trace: int, span: int, parent: int | None = None, *, name: str = "s", start_ns: int = START_NS) -> Span:
    """A span of a trace, by number; a root without ``parent``."""
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=span.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        name=name,
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + 1_000,
        status_code=0,
        status_message=None,
        attributes={},
    )


@dataclass
class SettlingWorld:
    """An engine, a Postgres and the job."""

    store: ColumnStore
    database: Database
    times: SettlingTimes = TIMES
    clock: ManualClock = field(default_factory=ManualClock)
    offsets: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    rows_max: int = 50_000

    def job(self, store: ColumnStore | None = None) -> Settling:
        """The job of a process."""

        async def now_us() -> int:
            return self.clock.now_ns() // 1_000

        records = SettlingRecords(Leases(self.database, 60.0))
        job = Settling(store or self.store, records, self.times, self.clock, now_us, rows_max=self.rows_max)
        job._rows = self.rows_max
        return job

    async def lease(self) -> Lease:
        """Take the lease of the job away from its holder, if there is one."""
        await self.database.fetch_all("UPDATE leases SET holder = NULL, next_run = now() WHERE kind = 'settling'")
        lease = await Leases(self.database, 60.0).claim([Kind.SETTLING], full=())
        assert lease is not None
        return lease

    async def send(
        self,
        *spans: Span,
        partition_id: str = PARTITION,
        project_id: UUID = DEFAULT_PROJECT_ID,
        is_recorded: bool = True,
        offset: int | None = None,
    ) -> int:
        """Store the next record of a partition, as a worker does; return its offset."""
        if offset is None:
            offset = self.offsets[partition_id]
            self.offsets[partition_id] += 1
        await store_record(
            self.store,
            spans,
            partition_id=partition_id,
            offset=offset,
            record_ms=self.clock.now_ns() // 1_000_000,
            project_id=project_id,
        )
        if is_recorded:
            await self.record(offset, partition_id=partition_id, project_id=project_id)
        return offset

    async def record(
        self, offset: int, *, partition_id: str = PARTITION, project_id: UUID = DEFAULT_PROJECT_ID
    ) -> None:
        """Record that a partition is stored up to an offset."""
        positions = [StoredPosition(each, partition_id, offset, 1, 1) for each in (project_id, ALL_PROJECTS)]
        await self.store.insert(
            STORED_THROUGH_TABLE, positions_table(positions), dedup_token=str(uuid4()), deadline_s=60.0
        )

    async def run(self, seconds: float = 0.0) -> None:
        """Let time pass, then run until nothing is due; the first run notes what is stored before the time passes."""
        lease = await self.lease()
        job = self.job()
        while await job.step(lease):
            pass
        if seconds:
            self.clock.advance(seconds)
            while await job.step(lease):
                pass

    async def settled(self, project_id: UUID = DEFAULT_PROJECT_ID) -> list[tuple[int, int, str]]:
        """The settlings in their order: trace, generation and reason."""
        sql = """SELECT trace_id, generation, reason FROM settled_traces FINAL
            WHERE project_id = {project_id:UUID} ORDER BY run, trace_id"""
        rows = await self.store.select(Statement(sql, {"project_id": str(project_id)}), deadline_s=60.0)
        return [
            (int.from_bytes(row["trace_id"], "big"), row["generation"], row["reason"].decode())
            for row in rows.to_pylist()
        ]

    async def windows_count(self) -> int:
        """How many windows are kept."""
        row: Any = await self.database.fetch_one("SELECT count(*) AS windows_count FROM settling_windows")
        return int(row["windows_count"])
