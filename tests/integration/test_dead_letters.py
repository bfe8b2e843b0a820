"""The routes of dead letters: rows in the engine, a lock in Postgres, and a broker in memory."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from common.clickhouse.dead_letters import DeadLetterTable
from common.clickhouse.store import ColumnStore
from common.errors import Unavailable
from common.kafka.record import Coordinates
from common.postgres.pool import Database
from common.settings import Encoding, KafkaSettings, Settings, TopicSettings
from query_api.request.limits import Limits
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A, KnownKeys, context_of, serving
from tests.support.dead_letters import add_dead_letter, created_at, dead_letter

pytestmark = pytest.mark.timeout(120)

PATH = "/admin/dead-letters"
KEY = "a-key-of-a-project"
KAFKA = KafkaSettings(
    topics={
        "spans": TopicSettings(encoding=Encoding.SPAN_JSON),
        "of_a": TopicSettings(encoding=Encoding.SPAN_JSON, project_id=PROJECT_A),
    }
)


@dataclass
class Api:
    """The API, with its table and its broker."""

    client: aiohttp.ClientSession
    broker: MemoryBroker
    store: ColumnStore

    async def ask(self, method: str, path: str = "", *, status: int = 200, **sent: Any) -> dict[str, Any]:
        async with self.client.request(method, PATH + path, **sent) as response:
            answer: dict[str, Any] = await response.json()
            assert response.status == status, answer
        return answer

    async def offsets(self, **parameters: Any) -> list[int]:
        """Return the offsets of the original records that the list shows."""
        answer = await self.ask("GET", params=parameters)
        assert answer["count"] == len(answer["dead_letters"])
        return [each["offset"] for each in answer["dead_letters"]]

    async def add(self, offset: int, **rest: Any) -> str:
        return await add_dead_letter(self.store, offset, **rest)


@pytest.fixture
async def api(store: ColumnStore, shared_database: Database) -> AsyncIterator[Api]:
    broker = MemoryBroker(partitions=1)
    context = context_of(
        broker=broker,
        settings=Settings(auth="off", kafka=KAFKA),
        store=store,
        database=shared_database,
        limits=Limits(replayed_together=2),
    )
    async with serving(context) as client:
        yield Api(client, broker, store)


async def test_dead_letter_is_listed_with_its_members(api: Api) -> None:
    letter = dead_letter(
        3, code="invalid_trace_id", reason="It is zero.", value=b"\xff!", topic="of_a", project=str(PROJECT_A)
    )
    await DeadLetterTable(api.store, deadline_s=60.0).insert([letter])

    answer = await api.ask("GET")

    assert answer == {
        "count": 1,
        "dead_letters": [
            {
                "id": letter[0].id,
                "topic": "of_a",
                "partition": 1,
                "offset": 3,
                "code": "invalid_trace_id",
                "reason": "It is zero.",
                "created_at": created_at(0),
                "bytes_count": 2,
                "project": str(PROJECT_A),
            }
        ],
    }


async def test_pages_hold_every_dead_letter_once_while_more_arrive(api: Api) -> None:
    for number in range(7):
        await api.add(number, at_s=number // 2)  # some at the same time
    found: list[list[int]] = []
    parameters: dict[str, Any] = {"limit": 3}
    while True:
        answer = await api.ask("GET", params=parameters)
        found.append([each["offset"] for each in answer["dead_letters"]])
        if "windowing" not in answer:
            break
        parameters = {"limit": 2, "next": answer["windowing"]["next"]}
        await api.add(100, at_s=100)

    assert found == [[6, 5, 4], [3, 2], [1, 0]]


@pytest.mark.parametrize(
    ("parameters", "offsets"),
    [
        ({"code": "absurd_time"}, [2]),
        ({"topic": "of_a"}, [3]),
        ({"project": str(PROJECT_A)}, [3, 1]),
        ({"project": str(PROJECT_A).upper().replace("-", "")}, [3, 1]),
        ({"project": "not an id"}, [2]),
        ({"oldest": created_at(1), "newest": created_at(3)}, [2, 1]),
        ({"oldest": created_at(2.5)}, [3]),
        ({"code": "undecodable", "topic": "spans", "newest": created_at(1)}, [0]),
        ({"code": "many_spans"}, []),
    ],
)
async def test_filters_narrow_the_list(api: Api, parameters: Mapping[str, str], offsets: list[int]) -> None:
    await api.add(0)
    await api.add(1, at_s=1, project=str(PROJECT_A))
    await api.add(2, at_s=2, project="not an id", code="absurd_time")
    await api.add(3, at_s=3, topic="of_a", project=str(PROJECT_A))

    assert await api.offsets(**parameters) == offsets
    replayed = await api.ask("POST", "/replay", json={**parameters, "dry_run": True})
    assert [each["offset"] for each in replayed["dead_letters"]] == offsets[::-1]


@pytest.mark.parametrize(
    ("parameters", "at"),
    [
        ({"code": "absurd"}, "code"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"oldest": "soon"}, "oldest"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_bad_parameter_is_422_with_its_name(api: Api, parameters: Mapping[str, str], at: str) -> None:
    answer = await api.ask("GET", status=422, params=parameters)

    assert [each["loc"] for each in answer["detail"]] == [["query", at]]


async def test_cursor_of_other_filters_is_400(api: Api) -> None:
    for number in range(2):
        await api.add(number)
    next_ = (await api.ask("GET", params={"limit": 1}))["windowing"]["next"]

    answer = await api.ask("GET", status=400, params={"limit": 1, "next": next_, "topic": "spans"})

    assert "belongs to another query" in answer["detail"]


async def test_shown_dead_letter_has_its_bytes(api: Api) -> None:
    dead_letter_id = await api.add(3, value=b"\xff{}")

    answer = await api.ask("GET", f"/{dead_letter_id}")

    assert (answer["count"], base64.b64decode(answer["dead_letter"]["value_base64"])) == (1, b"\xff{}")
    assert answer["dead_letter"]["offset"] == 3


@pytest.mark.parametrize("dead_letter_id", ["x", "0", "0-17", "1-2-3", "-1", "0-17-5f2e9a60c3d41b7G"])
async def test_text_that_is_no_id_is_400(api: Api, dead_letter_id: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/replay")):
        answer = await api.ask(method, f"/{dead_letter_id}{path}", status=400)
        assert (
            answer["detail"]
            == f"'{dead_letter_id}' is not the id of a dead letter; ids look like 0-17-5f2e9a60c3d41b7e."
        )


async def test_replay_publishes_the_bytes_once(api: Api) -> None:
    dead_letter_id = await api.add(3, value=b"[]", key=b"key", project="p")

    would = await api.ask("POST", f"/{dead_letter_id}/replay", params={"dry_run": "true"}, json={})
    would_too = await api.ask("POST", f"/{dead_letter_id}/replay", json={"dry_run": True})
    before = api.broker.records("spans")
    replayed = await api.ask("POST", f"/{dead_letter_id}/replay", json={})
    again = await api.ask("POST", f"/{dead_letter_id}/replay", status=404)

    assert (would["dry_run"], would["dead_letter"]["id"], would) == (True, dead_letter_id, would_too)
    assert before == []
    assert replayed["dead_letter"]["went_to"] == {"topic": "spans", "partition": 0, "offset": 0}
    assert "dry_run" not in replayed
    [record] = api.broker.records("spans")
    assert (record.key, record.value, record.headers) == (b"key", b"[]", (("project-id", b"p"),))
    assert (
        again["detail"] == f"{dead_letter_id} is not an open dead letter: it was replayed or dropped, or never existed."
    )
    assert await api.ask("GET", f"/{dead_letter_id}") == {"count": 0}
    assert await api.offsets() == []


async def test_drop_marks_the_dead_letter(api: Api) -> None:
    dead_letter_id = await api.add(3)

    await api.ask("DELETE", f"/{dead_letter_id}", params={"dry_run": "true"})
    assert await api.offsets() == [3]
    await api.ask("DELETE", f"/{dead_letter_id}")

    await api.ask("DELETE", f"/{dead_letter_id}", status=404)
    assert await api.offsets() == []


async def test_unknown_dead_letter_is_404_with_the_reason(api: Api) -> None:
    answer = await api.ask("DELETE", "/0-17-5f2e9a60c3d41b7e", status=404)

    assert answer["detail"].startswith("0-17-5f2e9a60c3d41b7e is not an open dead letter")
    assert await api.ask("GET", "/0-17-5f2e9a60c3d41b7e") == {"count": 0}


async def test_dead_letter_of_an_unread_topic_is_not_replayed(api: Api) -> None:
    ids = [await api.add(number, at_s=number, topic=topic) for number, topic in enumerate(["old", "spans"])]
    reason = f"{ids[0]} came from the topic old, which CLEARSPAN_KAFKA__TOPICS does not name."

    single = await api.ask("POST", f"/{ids[0]}/replay", status=409)
    many = await api.ask("POST", "/replay", json={})

    assert single["detail"] == reason
    assert many["skipped"] == [{"id": ids[0], "reason": reason}]
    assert ([each["id"] for each in many["dead_letters"]], many["remaining"]) == ([ids[1]], 0)
    assert (await api.ask("POST", "/drop", json={}))["count"] == 1


async def test_two_administrators_replay_a_dead_letter_once(api: Api) -> None:
    dead_letter_id = await api.add(3)

    async def replay() -> int:
        async with api.client.post(f"{PATH}/{dead_letter_id}/replay") as response:
            return response.status

    statuses = await asyncio.gather(*(replay() for _ in range(8)))

    assert statuses.count(200) == 1
    assert {*statuses} <= {200, 404, 409}
    assert len(api.broker.records("spans")) == 1


async def test_many_are_replayed_in_the_order_of_their_rejection(api: Api) -> None:
    for number in range(6):
        await api.add(number, at_s=-number, value=b"%d" % number)

    would = await api.ask("POST", "/replay", json={"limit": 5, "dry_run": True})
    assert api.broker.records("spans") == []
    first = await api.ask("POST", "/replay", json={"limit": 5})
    second = await api.ask("POST", "/replay", json={})

    assert [each["offset"] for each in would["dead_letters"]] == [5, 4, 3, 2, 1]
    assert (would["count"], would["remaining"], would["dry_run"]) == (5, 1, True)
    assert (first["count"], first["remaining"]) == (5, 1)
    assert (second["count"], second["remaining"]) == (1, 0)
    assert [record.value for record in api.broker.records("spans")] == [b"5", b"4", b"3", b"2", b"1", b"0"]
    assert (await api.ask("POST", "/replay", json={})) == {"count": 0, "dead_letters": [], "remaining": 0}


async def test_many_are_dropped_by_filter(api: Api) -> None:
    for number in range(4):
        await api.add(number, at_s=number, code="absurd_time" if number % 2 else "undecodable")

    dropped = await api.ask("POST", "/drop", json={"code": "absurd_time"})

    assert (dropped["count"], dropped["remaining"]) == (2, 0)
    assert await api.offsets() == [2, 0]


@pytest.mark.parametrize("action", ["/replay", "/drop"])
async def test_many_need_a_body_without_unknown_members(api: Api, action: str) -> None:
    await api.add(0)

    for body in (b"", b"null", b'{"cod": "absurd_time"}', b'{"dry_run": "maybe"}', b'{"limit": true}'):
        await api.ask("POST", action, status=422, data=body, headers={"Content-Type": "application/json"})
    await api.ask("POST", action, status=422, json={}, params={"code": "absurd_time"})

    assert await api.offsets() == [0]


async def test_failure_after_some_says_how_many_are_done(api: Api) -> None:
    for number in range(3):
        await api.add(number, at_s=number)
    api.broker.publish_faults.extend([None, Unavailable("Kafka is unavailable.")])

    answer = await api.ask("POST", "/replay", status=503, json={})

    assert answer["detail"] == "1 dead letters were replayed, then: Kafka is unavailable. Ask again for the rest."
    assert await api.offsets() == [2, 1]
    assert (await api.ask("POST", "/replay", json={}))["count"] == 2


async def test_replay_without_kafka_is_503_and_leaves_it_open(api: Api) -> None:
    dead_letter_id = await api.add(0)
    api.broker.publish_faults.append(Unavailable("Kafka is unavailable."))

    await api.ask("POST", f"/{dead_letter_id}/replay", status=503)

    assert await api.offsets() == [0]


async def test_engine_that_is_away_is_503_and_never_an_empty_list(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letter_id = await api.add(0)

    async def fail(*_: Any, **__: Any) -> None:
        raise Unavailable("ClickHouse is unavailable.")

    monkeypatch.setattr(api.store, "select", fail)
    one = f"/{dead_letter_id}"
    for method, path in (("GET", ""), ("GET", one), ("DELETE", one), ("POST", f"{one}/replay")):
        assert await api.ask(method, path, status=503) == {"detail": "ClickHouse is unavailable."}
    await api.ask("POST", "/drop", status=503, json={})


async def test_record_that_is_delivered_again_opens_nothing_again(api: Api) -> None:
    ids = [await api.add(number, at_s=number) for number in range(3)]
    await api.ask("DELETE", f"/{ids[0]}")
    await api.ask("POST", f"/{ids[1]}/replay", json={})

    again = [await api.add(number, at_s=10 + number) for number in range(3)]

    assert again == ids
    assert await api.offsets() == [2]


async def test_spans_that_share_a_dead_letter_are_replayed_after_those_that_have_their_own(api: Api) -> None:
    shared = dead_letter(0, value=b"shared", codes={"absurd_time": 3, "invalid_link": 1})
    alone = [dead_letter(0, value=b"%d" % index, span_index=index) for index in (11, 2)]
    await DeadLetterTable(api.store, deadline_s=60.0).insert([shared, *alone])

    listed = (await api.ask("GET"))["dead_letters"]
    await api.ask("POST", "/replay", json={})

    assert (listed[0]["span_count"], listed[0]["codes"]) == (4, {"absurd_time": 3, "invalid_link": 1})
    assert [each.get("span_index") for each in listed] == [None, 11, 2]
    assert [record.value for record in api.broker.records("spans")] == [b"2", b"11", b"shared"]


async def test_dead_letter_without_its_value_is_not_replayed(api: Api) -> None:
    dead_letter_id = await api.add(0, value=b"")

    single = await api.ask("POST", f"/{dead_letter_id}/replay", status=409)
    many = await api.ask("POST", "/replay", json={})

    assert single["detail"].endswith("its project masks content, and its value is not kept.")
    assert many["skipped"] == [{"id": dead_letter_id, "reason": single["detail"]}]
    assert await api.offsets() == [0]


async def test_client_that_leaves_does_not_stop_a_replay(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letter_id = await api.add(0)
    is_published, go_on = asyncio.Event(), asyncio.Event()
    append = MemoryBroker.append

    async def append_slowly(broker: MemoryBroker, topic: str, value: bytes | None, **rest: Any) -> Coordinates:
        where = await append(broker, topic, value, **rest)
        is_published.set()
        await go_on.wait()
        return where

    monkeypatch.setattr(MemoryBroker, "append", append_slowly)
    leaving = asyncio.create_task(api.ask("POST", f"/{dead_letter_id}/replay"))
    await is_published.wait()
    leaving.cancel()
    await asyncio.wait({leaving})
    refused = await api.ask("POST", f"/{dead_letter_id}/replay", status=409)
    go_on.set()

    assert refused["detail"] == "Another request replays or drops dead letters now: ask again."
    async with asyncio.timeout(60):
        while await api.offsets():  # noqa: ASYNC110 - what is waited for is the effect of a request that nobody awaits
            await asyncio.sleep(0.01)
    assert len(api.broker.records("spans")) == 1


@pytest.mark.parametrize(
    ("authorization", "status"),
    [("Access the-admin-key", 200), (f"ApiKey {KEY}", 401), (f"Access {KEY}", 401), ("", 401)],
)
async def test_only_the_administrator_may_ask(
    store: ColumnStore, shared_database: Database, authorization: str, status: int
) -> None:
    dead_letter_id = await add_dead_letter(store, 0)
    settings = Settings(auth="on", admin_key=SecretStr("the-admin-key"), kafka=KAFKA)
    context = context_of(settings=settings, keys=KnownKeys({KEY: PROJECT_A}), store=store, database=shared_database)
    headers = {"Authorization": authorization} if authorization else {}

    async with serving(context) as client:
        for method, path in (
            ("GET", PATH),
            ("GET", f"{PATH}/{dead_letter_id}"),
            ("DELETE", f"{PATH}/{dead_letter_id}?dry_run=true"),
            ("POST", f"{PATH}/{dead_letter_id}/replay?dry_run=true"),
            ("POST", f"{PATH}/replay"),
            ("POST", f"{PATH}/drop"),
        ):
            body = {"dry_run": True} if method == "POST" else None
            async with client.request(method, path, headers=headers, json=body) as response:
                assert response.status == status, (method, path)
