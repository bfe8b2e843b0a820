"""Which traces are complete, also if some of them are so large that a statement about all of them fails."""

from __future__ import annotations

from collections import Counter
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

ATTEMPTS: Final = 3
"""Runs that fail because of a small trace before it is given up: usually the engine is overloaded, and the trace has no
part in it."""

FAILURES_MAX: Final = 1_000
"""Traces that are remembered as the cause of failures."""

_log: Final = get_logger("clearspan.settling")


@dataclass(slots=True)
class Judge:
    """Judges traces together; after a failure those that are large apart, and after another one each by itself."""

    store: ColumnStore
    failures: Counter[TraceName]
    """How many runs each trace has made fail."""

    sizes: dict[TraceName, int] = field(default_factory=dict)
    """How many versions traces count as that were in a statement that failed."""

    async def judge(self, traces: Sequence[TraceName]) -> tuple[Sequence[TraceName], dict[TraceName, JudgedTrace]]:
        """Judge the first of some traces: as many as one statement takes.

        Returns them, and those that are visible. One that is too large to be judged is not complete: it must not stop
        all others. Raises ``DeadlineExceeded`` or ``OutOfMemory`` if the engine does not manage a small one.
        """
        while True:
            some = next(parts_of_size(traces, VERSIONS_TOGETHER, lambda name: self.sizes.get(name, 1)))
            try:
                return some, await visible_traces(self.store, some)
            except (DeadlineExceeded, OutOfMemory) as error:
                if len(some) == 1:
                    return some, {some[0]: await self._given_up(some[0], error)}
            if some[0] in self.sizes:
                self.sizes |= dict.fromkeys(some, VERSIONS_TOGETHER)
            else:
                self.sizes |= {**dict.fromkeys(some, 1), **await versions_counts(self.store, some)}

    async def _given_up(self, name: TraceName, error: DeadlineExceeded | OutOfMemory) -> JudgedTrace:
        """Return that a trace is not complete, if it is large or has failed often; else raise the error again."""
        versions_count = (await versions_counts(self.store, [name])).get(name, 0)
        if versions_count < VERSIONS_TOGETHER and self.failures[name] < ATTEMPTS:
            if len(self.failures) >= FAILURES_MAX:
                self.failures.clear()
            self.failures[name] += 1
            raise error
        _log.warning(
            "A trace cannot be judged.", trace_id=name.trace_id.hex(), versions=versions_count, error=error.detail
        )
        return JudgedTrace(is_complete=False, versions_count=versions_count)
