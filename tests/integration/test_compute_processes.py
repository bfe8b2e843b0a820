"""Child processes of the API that read large bodies: results, waiting tasks, and what happens when a child or the API
dies.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

from common.errors import InvalidInput, Overloaded, Unavailable
from common.fair_share import Tenant, working_for
from common.settings import ComputeSettings
from query_api.compute import ComputeFailed, ProcessCompute
from query_api.http import routes
from query_api.registry.applications import APPLICATION
from query_api.registry.schemas import CommitRevision
from query_api.registry.wire_models import for_kind
from query_api.request.errors import InvalidRequest

ONE, OTHER = Tenant(UUID(int=1), has_neighbors=True, queue_s=0.2), Tenant(UUID(int=2), has_neighbors=True)
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def compute() -> AsyncIterator[ProcessCompute]:
    pool = ProcessCompute(ComputeSettings(processes=2, run_s=120))
    yield pool
    await pool.close()


async def _run_for(tenant: Tenant, compute: ProcessCompute, function: Callable[..., Any], *arguments: Any) -> Any:
    with working_for(tenant):
        return await compute.run(function, *arguments)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - processes have no event to wait for
            await asyncio.sleep(0.01)


def raise_invalid_request() -> None:
    raise InvalidRequest([{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}])


def raise_invalid_input() -> None:
    raise InvalidInput("for us", public_message="for them")


def die_once(marker: str) -> str:
    """End the process, but only the first time."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


async def test_no_process_starts_before_the_first_task(compute: ProcessCompute) -> None:
    assert compute.process_ids == []


async def test_models_of_a_kind_travel_without_the_routes(compute: ProcessCompute) -> None:
    model = for_kind(CommitRevision, APPLICATION)
    sent = {"application_revision": {"data": {"uri": "x"}}}

    revision = await compute.run(model.model_validate, sent)

    assert type(revision) is model
    assert revision == model.model_validate(sent)
    assert not await compute.run(eval, f"{routes.__name__!r} in __import__('sys').modules")


async def test_large_value_is_returned_unchanged(compute: ProcessCompute) -> None:
    sent = os.urandom(9_000_000)

    assert await compute.run(bytes.upper, sent) == sent.upper()


async def test_errors_are_returned_with_all_attributes(compute: ProcessCompute) -> None:
    with pytest.raises(InvalidRequest) as invalid:
        await compute.run(raise_invalid_request)
    with pytest.raises(InvalidInput) as refused:
        await compute.run(raise_invalid_input)
    with pytest.raises(ComputeFailed, match="invalid literal for int"):
        await compute.run(int, "no number")

    assert invalid.value.problems[0]["loc"] == ["body"]
    assert (refused.value.detail, refused.value.public_message) == ("for us", "for them")


async def test_unpicklable_task_fails_only_its_request(compute: ProcessCompute) -> None:
    with pytest.raises(ComputeFailed, match="pickle"):
        await compute.run(lambda: 1)
    with pytest.raises(ComputeFailed, match="pickle"):
        await compute.run(memoryview, b"1")

    assert await compute.run(int, "1") == 1


async def test_killed_process_is_replaced_and_its_task_runs_again(compute: ProcessCompute, tmp_path: Path) -> None:
    assert await compute.run(die_once, str(tmp_path / "died")) == "done"


@pytest.mark.long
async def test_task_that_kills_every_process_fails_and_the_next_one_runs(compute: ProcessCompute) -> None:
    with pytest.raises(ComputeFailed, match="died 2 times"):
        await compute.run(os._exit, 1)

    assert await compute.run(int, "1") == 1


async def test_task_that_takes_too_long_is_killed() -> None:
    compute = ProcessCompute(ComputeSettings(processes=1, run_s=1))
    try:
        running = asyncio.create_task(compute.run(time.sleep, 600))
        await _until(lambda: compute.process_ids != [])
        process_ids = compute.process_ids
        with pytest.raises(Unavailable, match="took longer than 1 s"):
            await running

        assert not any(map(psutil.pid_exists, process_ids))
    finally:
        await compute.close()


async def test_project_with_neighbors_leaves_processes_to_them(compute: ProcessCompute) -> None:
    running = asyncio.create_task(_run_for(ONE, compute, time.sleep, 60))
    await asyncio.sleep(0)

    with pytest.raises(Overloaded, match=r"within 0\.2 s; this project may use 1 "):
        await _run_for(ONE, compute, int, "1")
    assert await _run_for(OTHER, compute, int, "1") == 1
    assert not running.done()
    running.cancel()


async def test_project_without_neighbors_gets_all_processes(compute: ProcessCompute) -> None:
    alone = replace(ONE, has_neighbors=False)
    running = asyncio.create_task(_run_for(alone, compute, time.sleep, 60))
    await asyncio.sleep(0)

    assert await _run_for(alone, compute, int, "1") == 1
    assert not running.done()
    running.cancel()


async def test_waiting_task_of_a_cancelled_request_never_runs(tmp_path: Path) -> None:
    compute = ProcessCompute(ComputeSettings(processes=1))
    try:
        first = asyncio.create_task(compute.run(time.sleep, 1))
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(compute.run(Path.touch, tmp_path / "run"))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await compute.run(int, "1")  # the next task gets its turn

        assert first.done()
        assert not (tmp_path / "run").exists()
    finally:
        await compute.close()


async def test_abandoned_response_is_not_returned_to_the_next_task() -> None:
    compute = ProcessCompute(ComputeSettings(processes=1))
    try:
        running = asyncio.create_task(compute.run(int, "1"))
        await asyncio.sleep(0.01)
        running.cancel()

        assert await compute.run(int, "2") == 2
    finally:
        await compute.close()


async def test_waiting_tasks_fail_when_the_pool_closes() -> None:
    compute = ProcessCompute(ComputeSettings(processes=1))
    running, waiting = (asyncio.create_task(compute.run(time.sleep, 60)) for _ in range(2))
    await asyncio.sleep(0.01)

    await compute.close()

    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(Unavailable, match="stopping"):
        await waiting


async def test_closing_ends_the_processes(compute: ProcessCompute) -> None:
    await asyncio.gather(compute.run(int, "1"), compute.run(int, "2"))
    process_ids = compute.process_ids
    assert len(process_ids) == 2

    await compute.close()

    assert not any(psutil.pid_exists(process_id) for process_id in process_ids)
    with pytest.raises(Unavailable):
        await compute.run(int, "1")


OWNER = """
import asyncio, time
from common.settings import ComputeSettings
from query_api.compute import ProcessCompute
async def main():
    compute = ProcessCompute(ComputeSettings(processes=1))
    await compute.run(int, "1")
    print(*compute.process_ids, flush=True)
    await compute.run(time.sleep, 60)
asyncio.run(main())
"""


async def test_processes_end_when_the_api_dies() -> None:
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    process_id = int(await owner.stdout.readline())
    assert psutil.pid_exists(process_id)
    owner.kill()
    await owner.wait()

    await _until(lambda: not psutil.pid_exists(process_id))
