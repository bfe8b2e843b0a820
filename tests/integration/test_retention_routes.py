"""``/retention`` as a client sees it, over a real engine and Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from common.times import format_us
from query_api.retention.rules import RetentionRecords
from tests.fakes.clock import ManualClock
from tests.support.history import HistoryClient, clients_of
from tests.support.retention import DAY_US, NOW_US, RetentionWorld, SentSpan

NOTHING = {"traces": 0, "spans": 0, "bytes": 0}


@pytest.fixture
async def clients(store: ColumnStore, database: Database) -> AsyncIterator[list[HistoryClient]]:
    async with clients_of(database, count=2, store=store, clock=ManualClock()) as opened:
        yield opened


def world_of(store: ColumnStore, database: Database, project_id: UUID) -> RetentionWorld:
    return RetentionWorld(store, RetentionRecords(database), project_id, ManualClock())


async def put(client: HistoryClient, rules: dict[str, Any], *, status: int = 200, **others: Any) -> Any:
    return await client.call("PUT", "/retention", json={"retention": rules, **others}, status=status)


async def test_rules_are_set_shown_replaced_and_removed(clients: list[HistoryClient]) -> None:
    client, stranger = clients

    assert (await client.call("GET", "/retention"))["retention"] == {"stored": NOTHING, "deleted": NOTHING}
    state = (await put(client, {"max_age_days": 30}))["retention"]
    assert state["max_age_days"] == 30
    assert state["next_run"] | {"at": ""} == {
        "at": "",
        "because": "max_age_days",
        "before": format_us(NOW_US - 30 * DAY_US),
        "deletes": NOTHING,
    }
    state = (await put(client, {"max_bytes": 5_000_000_000}))["retention"]
    assert (state.get("max_age_days"), state["max_bytes"]) == (None, 5_000_000_000)
    assert "max_bytes" not in (await stranger.call("GET", "/retention"))["retention"]
    state = (await client.call("DELETE", "/retention"))["retention"]
    assert {"max_bytes", "next_run"}.isdisjoint(state)


async def test_next_run_says_what_it_deletes_and_last_run_what_it_has_deleted(
    clients: list[HistoryClient], store: ColumnStore, database: Database
) -> None:
    client, _ = clients
    world = world_of(store, database, client.project_id)
    await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US), SentSpan(1, 2, NOW_US - 8 * DAY_US)])
    await world.send([SentSpan(2, 3, NOW_US - 5 * DAY_US)])
    sizes = {key: version.sent.bytes_count for key, version in world.model.visible().items()}
    first_trace = {"traces": 1, "spans": 2, "bytes": sizes[1, 1] + sizes[1, 2]}
    oldest = {"oldest": format_us(NOW_US - 9 * DAY_US)}

    state = (await put(client, {"max_age_days": 6, "max_bytes": 10**9}))["retention"]
    assert state["stored"] == {"traces": 2, "spans": 3, "bytes": sum(sizes.values()), **oldest}
    assert state["next_run"]["deletes"] == {**first_trace, **oldest}
    assert state["next_run"]["because"] == "max_age_days"

    state = (await put(client, {"max_bytes": sizes[2, 3]}))["retention"]
    assert state["next_run"]["deletes"] == {**first_trace, **oldest}
    assert state["next_run"]["because"] == "max_bytes"
    assert state["next_run"]["before"] == format_us(NOW_US - 8 * DAY_US + 1)

    await world.run()
    state = (await client.call("GET", "/retention"))["retention"]
    assert state["stored"] == {"traces": 1, "spans": 1, "bytes": sizes[2, 3], "oldest": format_us(NOW_US - 5 * DAY_US)}
    assert state["last_run"]["deleted"] == state["deleted"] == first_trace
    assert state["next_run"]["deletes"] == NOTHING


@pytest.mark.parametrize(
    ("rules", "status", "says"),
    [
        ({}, 400, "at least one of max_age_days and max_bytes is required"),
        ({"max_age_days": 0}, 400, 'retention.max_age_days: 0 deletes every trace of the project. Send \\"confirm\\"'),
        ({"max_age_days": 7, "max_bytes": 0}, 400, "retention.max_bytes: 0 deletes every trace"),
        ({"max_age_days": -1}, 422, "max_age_days"),
        ({"max_age_days": 36_501}, 422, "less than or equal to 36500"),
        ({"max_age_days": "x"}, 422, "max_age_days"),
        ({"max_bytes": 1.5}, 422, "max_bytes"),
        ({"max_age_day": 7}, 400, "at least one of max_age_days and max_bytes is required"),
    ],
)
async def test_bad_rules_are_rejected_and_change_nothing(
    clients: list[HistoryClient], rules: dict[str, Any], status: int, says: str
) -> None:
    code, body = await clients[0].try_call("PUT", "/retention", json={"retention": rules})

    assert code == status
    assert says.replace("\\", "") in str(body)
    assert "next_run" not in (await clients[0].call("GET", "/retention"))["retention"]


async def test_zero_days_need_to_be_confirmed(clients: list[HistoryClient]) -> None:
    state = (await put(clients[0], {"max_age_days": 0}, confirm=True))["retention"]

    assert state["max_age_days"] == 0


async def test_retention_of_one_project_leaves_another_alone(
    clients: list[HistoryClient], store: ColumnStore, database: Database
) -> None:
    first, second = (world_of(store, database, client.project_id) for client in clients)
    for world in (first, second):
        await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US)])
    await put(clients[0], {"max_age_days": 1})

    await first.run()

    counts = [(await client.call("GET", "/retention"))["retention"]["stored"]["spans"] for client in clients]
    assert counts == [0, 1]
    assert [await world.rows() for world in (first, second)] == [0, 1]
