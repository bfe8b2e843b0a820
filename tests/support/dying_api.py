"""An API that is killed between two statements: ``python -m tests.support.dying_api DSN``.

Reads one JSON object per line: method, path, body and ``dies_at``, the number of the step before which the process gets
SIGKILL. A step is a statement, or the begin or end of a transaction. Each case runs the API in a forked child process,
which gets the request over HTTP. Writes one line per case: ``{"steps", "status"}``; ``status`` is null if it died.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from typing import Any

from common.postgres.pool import Database, open_database
from common.settings import PostgresSettings
from tests.support.api import context_of, serving


class Steps:
    """Counts steps, and kills the process before a chosen one."""

    def __init__(self, dies_at: int) -> None:
        self.count = 0
        self._dies_at = dies_at

    def step(self) -> None:
        if self.count == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


class DyingTransaction:
    def __init__(self, transaction: Any, steps: Steps) -> None:
        self._transaction = transaction
        self._steps = steps

    async def start(self) -> None:
        self._steps.step()
        await self._transaction.start()

    async def commit(self) -> None:
        self._steps.step()
        await self._transaction.commit()
        self._steps.step()  # stored, but the client has no response

    async def rollback(self) -> None:
        await self._transaction.rollback()


class DyingConnection:
    def __init__(self, connection: Any, steps: Steps) -> None:
        self.connection = connection
        self._steps = steps

    async def fetchrow(self, *arguments: Any) -> Any:
        self._steps.step()
        return await self.connection.fetchrow(*arguments)

    async def fetch(self, *arguments: Any) -> Any:
        self._steps.step()
        return await self.connection.fetch(*arguments)

    def transaction(self) -> DyingTransaction:
        return DyingTransaction(self.connection.transaction(), self._steps)


class DyingPool:
    """A pool whose connections count their steps."""

    def __init__(self, pool: Any, steps: Steps) -> None:
        self._pool = pool
        self._steps = steps

    def get_max_size(self) -> int:
        size: int = self._pool.get_max_size()
        return size

    async def acquire(self, *, timeout: float) -> DyingConnection:  # noqa: ASYNC109 - as the driver's has it
        return DyingConnection(await self._pool.acquire(timeout=timeout), self._steps)

    async def release(self, connection: DyingConnection) -> None:
        await self._pool.release(connection.connection)


async def run(settings: PostgresSettings, case: dict[str, Any]) -> dict[str, Any]:
    steps = Steps(case["dies_at"])
    async with open_database(settings) as database:
        dying = Database(DyingPool(database._pool, steps), timeout_s=settings.timeout_s)
        async with (
            serving(context_of(database=dying)) as session,
            session.request(case["method"], case["path"], json=case["body"]) as response,
        ):
            await response.read()
            return {"steps": steps.count, "status": response.status}


def in_a_child(settings: PostgresSettings, case: dict[str, Any]) -> str:
    """Return the output of a child process. Raises ``RuntimeError`` if it neither responded nor was killed."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writing, json.dumps(asyncio.run(run(settings, case))).encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child must not continue with the parent's code
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    _, status = os.wait()
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("the API failed before the step at which it was to die")
    return text or json.dumps({"steps": case["dies_at"], "status": None})


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # logs of the API go to stderr
    settings = PostgresSettings.model_validate({"dsn": sys.argv[1]})
    for line in sys.stdin:
        answers.write(in_a_child(settings, json.loads(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
