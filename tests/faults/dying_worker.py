"""A worker that kills itself at a named point: ``python -m tests.faults.dying_worker POINT NTH``.

It gets SIGKILL when it reaches the point for the ``NTH`` time, so a supervisor starts a usual one after it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from clearspan.cli import main
from common.clickhouse.dead_letters import DeadLetterTable
from ingest.clickhouse_sink import ClickHouseSink
from ingest.dead_letter import DeadLetters
from ingest.decoding.queue import DecodingQueue
from ingest.flush import Flusher
from ingest.stored_positions import StoredPositions
from ingest.worker import Worker


class Point(NamedTuple):
    """A method of the worker, and whether the process dies before or after its call. ``when``: which calls count."""

    owner: type
    method: str
    is_before: bool
    when: Callable[..., bool] = lambda *_, **__: True


def _gives_up_partitions(_worker: Worker, partitions: Collection[object]) -> bool:
    return bool(partitions)  # a worker that joins gives up none


def _is_ending(worker: Worker, **_: object) -> bool:
    return worker._stopping.is_set()  # it drains in each rebalance, too


POINTS: Final[Mapping[str, Point]] = {
    "after decode": Point(DecodingQueue, "accept", is_before=False),
    "after insert": Point(ClickHouseSink, "write", is_before=False),
    "after position": Point(StoredPositions, "record", is_before=False),
    "after rows of dead letters": Point(DeadLetterTable, "insert", is_before=False),
    "after dead letters": Point(DeadLetters, "flush", is_before=False),
    "after commit": Point(Flusher, "_commit", is_before=False),
    "in a rebalance": Point(Worker, "_on_revoked", is_before=True, when=_gives_up_partitions),
    "in a drain": Point(Worker, "_drain", is_before=True, when=_is_ending),
}


def die_at(point: Point, nth: int) -> None:
    """Wrap the method of the point."""
    method: Callable[..., Any] = getattr(point.owner, point.method)
    left = nth

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if point.is_before and point.when(*arguments, **options):
            count()
        result = method(*arguments, **options)
        if isinstance(result, Awaitable):
            return _finished(result, point)
        if not point.is_before:
            count()
        return result

    async def _finished(result: Awaitable[Any], at: Point) -> Any:
        value = await result
        if not at.is_before:
            count()
        return value

    setattr(point.owner, point.method, wrapped)


if __name__ == "__main__":
    die_at(POINTS[sys.argv[1]], int(sys.argv[2]))
    sys.argv[1:] = ["ingest"]
    main()
