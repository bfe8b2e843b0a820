"""Which traces are complete, also if some of them are so large that a statement about all of them fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from common.clickhouse.settled_traces import TraceName
from common.clickhouse.settling import JudgedTrace, versions_counts, visible_traces
from common.clickhouse.store import ColumnStore
from common.errors import DeadlineExceeded, OutOfMemory
from common.parts import parts_of_size
from common.telemetry import get_logger

VERSIONS_TOGETHER: Final = 200_000
"""Versions of spans in one statement, after one about more of them has failed."""

_log: Final = get_logger("clearspan.settling")


@dataclass(slots=True)
class Judge:
    """Judges traces together; after a failure those that are large apart, and after another one each by itself."""

    store: ColumnStore
    sizes: dict[TraceName, int] = field(default_factory=dict)
    """How many versions traces count as that were in a statement that failed."""

    async def judge(self, traces: Sequence[TraceName]) -> tuple[Sequence[TraceName], dict[TraceName, JudgedTrace]]:
        """Judge the first of some traces: as many as one statement takes.

        Returns them, and those that are visible. One that is too large to be judged is not complete: it must not stop
        all others.
        """
        while True:
            some = next(parts_of_size(traces, VERSIONS_TOGETHER, lambda name: self.sizes.get(name, 1)))
            try:
                return some, await visible_traces(self.store, some)
            except (DeadlineExceeded, OutOfMemory) as error:
                if len(some) == 1:
                    return some, {some[0]: await self._too_large(some[0], error.detail)}
            if some[0] in self.sizes:
                self.sizes |= dict.fromkeys(some, VERSIONS_TOGETHER)
            else:
                self.sizes |= {**dict.fromkeys(some, 1), **await versions_counts(self.store, some)}

    async def _too_large(self, name: TraceName, error: str) -> JudgedTrace:
        versions_count = (await versions_counts(self.store, [name])).get(name, 0)
        _log.warning(
            "A trace is too large to be judged.", trace_id=name.trace_id.hex(), versions=versions_count, error=error
        )
        return JudgedTrace(is_complete=False, versions_count=versions_count)
