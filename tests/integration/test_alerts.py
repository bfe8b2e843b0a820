"""Alerts over the real engine and Postgres, with a receiver of webhooks: one message when a breach begins and ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from common.clickhouse.store import ColumnStore
from common.errors import DeadlineExceeded
from common.fair_share import current_tenant
from common.host_names import resolve
from common.postgres.leases import Kind, Lease, LeaseLost, Leases, wake
from common.postgres.pool import Database
from common.span import Span
from common.times import SystemClock
from jobs.alerts import jobs
from jobs.alerts.store import LeasedAlerts
from query_api.delivery import addresses
from tests.support.delivery import SECRET, Deliveries, Receiver, deliveries, delivery_settings, receiving
from tests.support.span_corpus import OTHER_PROJECT_ID, store_record

COUNT = {"measure": {"of": "count"}, "above": 2, "window": "10m"}
WINDOW_S = 600


class ShiftedClock(SystemClock):
    """The clock of this machine, some seconds ahead."""

    ahead_s = 0

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_s * 1_000_000_000


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
async def api(store: ColumnStore, shared_database: Database, clock: ShiftedClock) -> AsyncIterator[Deliveries]:
    settings = delivery_settings(alert_every_min_s=1, alerts_max=3)
    try:
        async with deliveries(store, shared_database, settings, clock=clock) as opened:
            yield opened
    finally:
        await shared_database.fetch_all("DELETE FROM alerts WHERE true")


class AlertReceiver(Receiver):
    """A receiver of the messages of alerts."""

    async def until_messages(self, count: int) -> list[dict[str, Any]]:
        """Return what arrived as soon as it is that many messages."""
        async with asyncio.timeout(60):
            while len(self.messages) < count:  # noqa: ASYNC110 - what is waited for is the effect of a request
                await asyncio.sleep(0.01)
        return [message.body for message in self.messages]


@pytest.fixture
async def receiver() -> AsyncIterator[AlertReceiver]:
    receiver = AlertReceiver()
    async with receiving(0, receiver):
        yield receiver


_numbers = iter(range(1, 1_000_000))


async def claimed(leases: Leases, kind: Kind) -> Lease | None:
    """Claim the lease of an alert that exists: other tests leave leases of alerts that they have deleted."""
    while (lease := await leases.claim([kind], full=[])) is not None:
        if await leases.database.fetch_one("SELECT id FROM alerts WHERE id = $1", lease.id) is not None:
            return lease
    return None


async def expire(api: Deliveries) -> None:
    """Let every lease end now, as after the end of the process that holds it."""
    await api.database.fetch_all("UPDATE leases SET expires_at = now() - interval '1 s' WHERE holder IS NOT NULL")


async def store_spans(
    api: Deliveries, count: int, *, project_id: Any = None, age_s: float = 1.0, **members: Any
) -> None:
    """Store spans that began a moment ago."""
    start_ns = time.time_ns() - round(age_s * 1e9)
    usual = {"name": "s", "kind": 1, "status_code": 0, "status_message": None, "attributes": {}}
    spans = []
    for _ in range(count):
        number = next(_numbers)
        ids = number.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
        spans.append(Span(*ids, None, start_ns=start_ns, end_ns=start_ns + 1_000, **{**usual, **members}))
    project_id = project_id or api.context.settings.default_project_id
    await store_record(api.context.store, spans, offset=next(_numbers), project_id=project_id)


async def create(api: Deliveries, receiver: Receiver, *, slug: str = "alarm", **members: Any) -> Any:
    target = {"kind": "webhook", "url": receiver.url, "secret": SECRET}
    body = {"slug": slug, "target": target, "every": "1s", **COUNT, **members}
    return (await api.call("POST", "/alerts/", {"alert": body}))["alert"]


async def state(api: Deliveries, slug: str = "alarm") -> Any:
    return (await api.call("GET", f"/alerts/{slug}"))["alert"]


async def until(api: Deliveries, is_so: Callable[[Any], bool], slug: str = "alarm") -> Any:
    found: Any = None
    try:
        async with asyncio.timeout(60):
            while not is_so(found := await state(api, slug)):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(found) from None
    return found


@asynccontextmanager
async def evaluated_again(api: Deliveries) -> AsyncIterator[None]:
    """Wait at the end until an evaluation that began after the beginning is done."""
    before = (await state(api)).get("evaluated", {}).get("at", "")
    yield
    await until(api, lambda found: found.get("evaluated", {}).get("at", "") > before)


async def test_each_group_begins_and_ends_once(api: Deliveries, receiver: AlertReceiver) -> None:
    failing: dict[str, Any] = {
        "measure": {"ratio": [{"of": "errors"}, {"of": "count"}]},
        "above": 0.4,
        "group_by": ["model"],
    }
    a, b = ({"gen_ai.request.model": model, "gen_ai.operation.name": "chat"} for model in "ab")
    await store_spans(api, 2, attributes=a, status_code=2)
    await store_spans(api, 3, attributes=b)
    created = await create(api, receiver, **failing, window="1h")

    async with api.delivering():
        [begins] = await receiver.until_messages(1)
        now = await until(api, lambda found: found["messages"]["waiting"] == 0)
        async with evaluated_again(api):
            await store_spans(api, 4, attributes=a)
        [_, ends] = await receiver.until_messages(2)
        async with evaluated_again(api):
            pass
        after = await until(api, lambda found: found["messages"]["delivered"] == 2)

    assert begins["type"] == "alert.begins"
    data = begins["data"]
    assert {name: data[name] for name in ("alert", "alert_id", "by", "value", "above", "window", "measure")} == {
        "alert": "alarm",
        "alert_id": created["id"],
        "by": {"model": "a"},
        "value": 1,
        "above": 0.4,
        "window": "1h",
        "measure": {"ratio": [{"of": "errors"}, {"of": "count"}]},
    }
    assert data["oldest"] < data["newest"] == data["since"]
    assert [(each["by"], each["value"]) for each in now["breaches"]] == [({"model": "a"}, 1)]
    assert now["evaluated"]["groups"] == 2
    assert (ends["type"], ends["data"]["by"], ends["data"]["since"]) == ("alert.ends", {"model": "a"}, data["since"])
    assert ends["data"]["value"] == pytest.approx(1 / 3)
    assert len(receiver.messages) == len({message.id for message in receiver.messages}) == 2
    assert (after["breaches"], after["breaches_count"], after["messages"]["waiting"]) == ([], 0, 0)


async def test_no_data_is_no_breach_and_ends_one(api: Deliveries, receiver: AlertReceiver, clock: ShiftedClock) -> None:
    await create(api, receiver, measure={"of": "count"}, above=None, below=5)

    async with api.delivering():
        async with evaluated_again(api):
            pass
        assert receiver.messages == []
        await store_spans(api, 2)
        await receiver.until_messages(1)
        clock.ahead_s += WINDOW_S
        begins, ends = await receiver.until_messages(2)

    assert (begins["type"], begins["data"]["value"], begins["data"]["below"]) == ("alert.begins", 2, 5)
    assert (ends["type"], ends["data"]["value"], ends["data"]["by"]) == ("alert.ends", None, {})


async def test_bound_itself_is_no_breach(api: Deliveries, receiver: AlertReceiver) -> None:
    await store_spans(api, 2)
    await create(api, receiver)

    async with api.delivering():
        async with evaluated_again(api):
            pass
        assert (await state(api))["breaches"] == []
        await store_spans(api, 1)
        await receiver.until_messages(1)


async def test_retry_has_the_same_id_and_later_messages_wait(
    api: Deliveries, receiver: AlertReceiver, clock: ShiftedClock
) -> None:
    receiver.keeps_refused = True
    receiver.respond = lambda number: web.Response(status=500 if number < 3 else 204)
    await store_spans(api, 3)
    await create(api, receiver)

    async with api.delivering():
        await receiver.until_messages(1)
        retrying = await until(api, lambda found: found["status"] == "retrying")
        await receiver.until_messages(4)
        clock.ahead_s += WINDOW_S
        await receiver.until_messages(5)
        after = await until(api, lambda found: found["messages"]["waiting"] == 0)

    assert [message.body["type"] for message in receiver.messages] == ["alert.begins"] * 4 + ["alert.ends"]
    assert len({message.id for message in receiver.messages[:4]}) == 1
    assert retrying["last_error"]["reason"] == "The target answered 500."
    assert (after["status"], after["messages"]["delivered"]) == ("active", 2)


async def test_target_that_refuses_pauses_the_alert(api: Deliveries, receiver: AlertReceiver) -> None:
    receiver.respond = lambda _: web.Response(status=410)
    await store_spans(api, 3)
    await create(api, receiver)

    async with api.delivering():
        paused = await until(api, lambda found: found["status"] == "paused")
        assert paused["reason"] == "The target answered 410."
        assert "next_at" not in paused
        skipped = (await api.call("POST", "/alerts/alarm/skip"))["alert"]
        assert (skipped["messages"]["waiting"], skipped["status"]) == (0, "paused")
        await api.call("POST", "/alerts/alarm/skip", status=409)
        receiver.respond = lambda _: web.Response()
        async with evaluated_again(api):
            await api.call("POST", "/alerts/alarm/resume")

    assert receiver.messages == []


async def test_two_processes_send_each_message_once(api: Deliveries, receiver: AlertReceiver) -> None:
    await store_spans(api, 3)
    await create(api, receiver)

    async with api.delivering(), api.delivering():
        for _ in range(3):
            async with evaluated_again(api):
                pass

    assert len(receiver.messages) == 1


async def test_process_that_ends_is_taken_over(api: Deliveries, receiver: AlertReceiver) -> None:
    """One that claimed an evaluation, and one that sent a message and did not delete it."""
    await store_spans(api, 3)
    await create(api, receiver)
    killed = Leases(api.database, lease_s=300)
    lease = await claimed(killed, Kind.ALERT)
    assert lease is not None
    assert await claimed(killed, Kind.ALERT) is None
    await expire(api)

    async with api.delivering():
        await receiver.until_messages(1)
        await until(api, lambda found: found["messages"]["delivered"] == 1)
    with pytest.raises(LeaseLost):
        await LeasedAlerts(killed).fail(lease, reason="too late")

    await api.database.fetch_all(
        "INSERT INTO alert_messages SELECT project_id, id, 1, 'alert.begins', '{\"alert\": \"alarm\"}', now() FROM alerts"
    )
    await api.database.fetch_all("UPDATE alerts SET waiting_count = 1")
    await wake(api.database, Kind.MESSAGES, lease.id)
    assert await claimed(killed, Kind.MESSAGES) is not None
    await expire(api)
    async with api.delivering():
        await receiver.until_messages(2)

    assert {message.id for message in receiver.messages} == {f"msg_{lease.id.hex}_1"}


async def test_process_that_stops_gives_its_leases_back(
    api: Deliveries, receiver: AlertReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def slow(*_: Any, **__: Any) -> Any:
        began.set()
        await asyncio.sleep(60)

    await create(api, receiver)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "evaluate", slow)
        async with api.delivering():
            await began.wait()

    assert await claimed(Leases(api.database, lease_s=9), Kind.ALERT) is not None


async def test_user_who_changes_an_alert_wins(api: Deliveries, receiver: AlertReceiver) -> None:
    await store_spans(api, 3)
    await create(api, receiver)
    leases = Leases(api.database, lease_s=9)
    lease = await claimed(leases, Kind.ALERT)
    assert lease is not None

    edited = (await api.call("PUT", "/alerts/alarm", {"alert": {"below": 1, "name": "n", "every": "2s"}}))["alert"]

    with pytest.raises(LeaseLost):
        await LeasedAlerts(leases).fail(lease, reason="too late")
    assert ("above" in edited, edited["below"], edited["name"], edited["every"]) == (False, 1, "n", "2s")
    assert "last_error" not in await state(api)


async def test_breach_that_an_edit_leaves_out_ends(api: Deliveries, receiver: AlertReceiver) -> None:
    await store_spans(api, 3)
    await create(api, receiver, group_by=["span_name"])

    async with api.delivering():
        await receiver.until_messages(1)
        await api.call("PUT", "/alerts/alarm", {"alert": {"group_by": ["status_code"]}})
        async with asyncio.timeout(60):
            while len({message.id for message in receiver.messages}) < 3:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.01)

    messages = {message.id: message.body for message in receiver.messages}  # an edit repeats one that is under way
    assert sorted((message["type"], *message["data"]["by"]) for message in messages.values()) == [
        ("alert.begins", "span_name"),
        ("alert.begins", "status_code"),
        ("alert.ends", "span_name"),
    ]


async def test_evaluation_that_fails_changes_nothing(
    api: Deliveries, receiver: AlertReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_spans(api, 3)
    await create(api, receiver)

    async def too_slow(*_: Any, **__: Any) -> Any:
        raise DeadlineExceeded("The window of 10m could not be examined within the query budget.")

    async with api.delivering():
        await receiver.until_messages(1)
        monkeypatch.setattr(jobs, "evaluate", too_slow)
        failed = await until(api, lambda found: "last_error" in found)

    assert "could not be examined within the query budget" in failed["last_error"]["reason"]
    assert failed["breaches_count"] == 1
    assert len(receiver.messages) == 1


async def test_saved_query_and_its_filter_count(api: Deliveries, receiver: AlertReceiver) -> None:
    recent = {
        "conditions": [{"field": "span_name", "value": "x"}, {"field": "start_time", "operator": "gt", "value": "-1h"}]
    }
    query = {"slug": "x", "data": {"filtering": recent, "windowing": {"oldest": "-5m"}}}
    await api.call("POST", "/simple/queries/", {"query": query})
    await store_spans(api, 5)
    await store_spans(api, 3, name="x")
    await create(api, receiver, query_ref={"slug": "x"})

    async with api.delivering():
        [message] = await receiver.until_messages(1)

    assert message["data"]["value"] == 3
    assert (await state(api))["query_ref"]["slug"] == "x"


async def test_spans_of_other_projects_do_not_count(api: Deliveries, receiver: AlertReceiver) -> None:
    await store_spans(api, 9, project_id=OTHER_PROJECT_ID)
    await create(api, receiver)

    async with api.delivering(), evaluated_again(api):
        pass

    assert (await state(api))["evaluated"]["groups"] == 0


async def test_alerts_are_found_paused_tested_and_deleted(api: Deliveries, receiver: AlertReceiver) -> None:
    await create(api, receiver, name="Failing")
    await create(api, receiver, slug="other")

    found = (await api.call("POST", "/alerts/query", {"alert": {"slug": "other"}}))["alerts"]
    paused = (await api.call("POST", "/alerts/alarm/pause"))["alert"]
    test = (await api.call("POST", "/alerts/other/test"))["delivery"]
    deleted = (await api.call("DELETE", f"/alerts/{found[0]['id']}"))["alert"]

    assert [each["slug"] for each in found] == ["other"]
    assert (paused["status"], paused["reason"]) == ("paused", "Paused by request.")
    assert (await api.call("POST", "/alerts/query", {"alert": {"breaching": True}}))["count"] == 0
    assert (await api.call("POST", "/alerts/query", {"alert": {"status": "paused"}}))["count"] == 1
    assert test["delivered"] is True
    assert [message.body["type"] for message in receiver.messages] == ["alert.test"]
    assert deleted["slug"] == "other"
    assert "secret" not in deleted["target"]
    await api.call("GET", "/alerts/other", status=404)


WEBHOOK = {"kind": "webhook", "url": "https://hooks.example.org/x"}


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"above": None}, 400, "exactly one of 'above' and 'below' is needed"),
    ({"below": 1}, 400, "exactly one of 'above' and 'below' is needed"),
    ({"measure": {"of": "cost"}}, 400, "alert.measure.as: 'cost' needs at least one statistic"),
    ({"measure": {"of": "count", "as": "sum"}}, 400, "alert.measure.as: 'count' is a number by itself"),
    ({"measure": {"of": "start_time", "as": "max"}}, 400, "alert.measure.as: the 'max' of a time is no number"),
    ({"measure": {"ratio": [{"of": "count"}, {"of": "span_name", "as": "sum"}]}}, 400, "alert.measure.ratio[1].as"),
    ({"measure": {"ratio": [{"of": "count"}]}}, 422, "measure"),
    ({"measure": {"of": "count", "x": 1}}, 422, "x"),
    ({"group_by": ["color"]}, 400, "alert.group_by[0].field: 'color' is not a field"),
    ({"group_by": ["model", "model"]}, 400, "alert.group_by[1]: the same value as alert.group_by[0]"),
    ({"window": "10 m"}, 422, "must be a number and a unit of s m h d"),
    ({"window": "32d"}, 422, "must be at most 31d"),
    ({"every": "0s"}, 422, "must be a number and a unit of s m h d"),
    ({"above": True}, 422, "above"),
    ({"above": "NaN"}, 422, "above"),
    ({"filtering": {"conditions": [{"field": "nope"}]}}, 400, "alert.filtering.conditions[0]"),
    ({"query_ref": {"slug": "absent"}}, 404, "no revision"),
    ({"filtering": {"conditions": []}, "query_ref": {"slug": "x"}}, 400, "allowed is one of filtering, query_ref"),
    ({"target": {"kind": "otlp", "endpoint": "https://x.example.org"}}, 400, "'otlp' takes spans, and an alert sends"),
    ({"target": {"kind": "parquet", "url": "file:///x"}}, 400, "alert.target.kind: 'parquet' takes spans"),
    ({"slug": "01890000-0000-7000-8000-000000000000"}, 400, "alert.slug: an id is not a slug"),
]  # fmt: skip


async def test_bad_alert_is_refused_with_its_place(api: Deliveries) -> None:
    for members, status, words in BAD:
        body = {"slug": "bad", "target": WEBHOOK, **COUNT, **members}

        refused = await api.call("POST", "/alerts/", {"alert": body}, status=status)

        assert words in str(refused["detail"]), members


async def test_limits_name_their_settings(api: Deliveries, receiver: AlertReceiver) -> None:
    for number in range(3):
        await create(api, receiver, slug=f"a{number}")
    body = {"slug": "a3", "target": WEBHOOK, **COUNT}

    full = await api.call("POST", "/alerts/", {"alert": body}, status=409)

    assert "CLEARSPAN_DELIVERY__ALERTS_MAX allows 3" in str(full["detail"])


async def test_shortest_period_is_a_setting(store: ColumnStore, shared_database: Database) -> None:
    async with deliveries(store, shared_database, delivery_settings(private_addresses="off")) as api:
        body = {"slug": "a", "target": WEBHOOK, **COUNT}
        often = await api.call("POST", "/alerts/", {"alert": {**body, "every": "9s"}}, status=400)
        private = {**body, "target": {"kind": "webhook", "url": "http://127.0.0.1/x"}}
        inside = await api.call("POST", "/alerts/", {"alert": private}, status=400)

    assert "CLEARSPAN_DELIVERY__ALERT_EVERY_MIN_S" in often["detail"]
    assert "alert.target.url: the address 127.0.0.1 is not public (loopback, RFC 1122)" in inside["detail"]


async def test_look_up_of_a_name_counts_to_the_project_of_the_alert(
    api: Deliveries, receiver: AlertReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_spans(api, 3)
    await create(api, receiver)
    projects = set()

    async def counted(host: str, port: int | None = None) -> Any:
        projects.add(current_tenant().project_id)
        return await resolve(host, port)

    monkeypatch.setattr(addresses, "resolve", counted)
    await api.call("PUT", "/alerts/alarm", {"alert": {"target": named(receiver)}})
    projects.clear()
    async with api.delivering():
        await receiver.until_messages(1)

    assert projects == {api.context.settings.default_project_id}


def named(receiver: Receiver) -> dict[str, Any]:
    """Return a target whose address has a name."""
    return {"kind": "webhook", "url": receiver.url.replace("127.0.0.1", "localhost"), "secret": SECRET}
