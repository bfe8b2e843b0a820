"""The routes of subscriptions: what they accept, refuse and show. Nothing is delivered here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from tests.support.delivery import Deliveries, deliveries, delivery_settings, receiving

KAFKA = {"kind": "kafka", "bootstrap": "127.0.0.1:1", "topic": "out"}
USER = {"sasl_mechanism": "SCRAM-SHA-512", "username": "ada", "password": "S3CR3T"}
SECURED = {**KAFKA, "security_protocol": "SASL_SSL", **USER}
OTLP = {"kind": "otlp", "endpoint": "http://127.0.0.1:1", "headers": {"Authorization": "S3CR3T"}}


@pytest.fixture
async def api(shared_store: ColumnStore, shared_database: Database) -> AsyncIterator[Deliveries]:
    async with deliveries(shared_store, shared_database, delivery_settings(private_addresses="off")) as api:
        yield api


def of(**members: Any) -> dict[str, Any]:
    return {"subscription": {"slug": "s", "target": KAFKA, **members}}


def condition(field: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"field": field, "value": value, **more}]}


async def test_created_subscription_is_found_by_id_slug_and_query(api: Deliveries):
    made = await api.create("out", KAFKA, name="Out")

    for key in (made["id"], "out"):
        assert (await api.call("GET", f"/subscriptions/{key}"))["subscription"]["id"] == made["id"]
    found = await api.call("POST", "/subscriptions/query", {"subscription": {"status": "active", "kind": "kafka"}})
    assert [each["slug"] for each in found["subscriptions"]] == ["out"]
    for other in ({"slug": "in"}, {"status": "paused"}, {"kind": "webhook"}):
        assert (await api.call("POST", "/subscriptions/query", {"subscription": other}))["count"] == 0


async def test_target_that_cannot_be_reached_is_a_warning(api: Deliveries):
    answer = await api.call("POST", "/subscriptions", of())

    assert "cannot be reached now" in answer["warning"]
    assert answer["subscription"]["status"] == "active"


@pytest.mark.parametrize(
    ("members", "status", "says"),
    [
        ({"filtering": condition("start_time", "-1h", operator="gt")}, 400, "subscription.filtering: a subscription"),
        ({"filtering": condition("nam", "x")}, 400, "subscription.filtering.conditions[0].field"),
        ({"filtering": {"conditons": []}}, 422, "extra_forbidden"),
        ({"filterng": {}}, 422, "extra_forbidden"),
        ({"filtering": {}, "query_ref": {"slug": "q"}}, 400, "allowed is one of filtering, query_ref"),
        ({"query_ref": {"slug": "no-such-query"}}, 404, "There is no revision"),
        ({"query_revision_ref": {"version": "1"}}, 400, "query_revision_ref.version"),
        ({"from": "yesterday"}, 400, "subscription.from: this is neither a time nor a position"),
        ({"from": "2999-01-01T00:00:00Z"}, 400, "is not between 1970 and now"),
        ({"slug": "a b"}, 422, "URL-safe"),
        ({"slug": str(uuid4())}, 400, "an id is not a slug"),
        ({"slug": ""}, 422, "URL-safe"),
        ({"name": "\0"}, 422, "U+0000"),
        ({"target": {"kind": "pigeon"}}, 422, "'webhook'"),
        ({"target": {**KAFKA, "topic": "a b"}}, 422, "valid Kafka topic"),
        ({"target": {**KAFKA, "bootstrap": "127.0.0.1:99999"}}, 422, "host:port"),
        ({"target": {**KAFKA, "bootstrap": "127.0.0.1:9092", "topic": "spans"}}, 400, "Clearspan itself uses 'spans'"),
        ({"target": {**SECURED, "username": None}}, 400, "'SASL_SSL' needs sasl_mechanism, username and password"),
        ({"target": {**SECURED, "password": None}}, 400, "the password of 'ada' is missing"),
        ({"target": {**SECURED, "security_protocol": None}}, 400, "'PLAINTEXT' has no sasl_mechanism, username"),
        ({"target": {**KAFKA, "ca": "no certificate"}}, 422, "Input should be certificates in PEM"),
        ({"target": {"kind": "webhook", "url": "ftp://example.org"}}, 422, "must begin with https://"),
        ({"target": {"kind": "webhook", "url": "https://u:p@example.org"}}, 422, "must not contain a user"),
        ({"target": {"kind": "webhook", "url": "https://example.org", "secret": "x"}}, 422, "whsec_"),
    ],
)
async def test_bad_input_names_its_place_and_what_is_allowed(
    api: Deliveries, members: dict[str, Any], status: int, says: str
):
    answer = await api.call("POST", "/subscriptions/", of(**members), status=status)

    assert says in str(answer["detail"])
    assert (await api.call("POST", "/subscriptions/query", {}))["count"] == 0


@pytest.mark.parametrize(
    "target",
    [
        {name: value for name, value in SECURED.items() if name != "topic"},
        {**SECURED, "password": ["S3CR3T"]},
        {**SECURED, "pasword": "S3CR3T"},
        {"kind": "webhook", "url": "https://example.org", "secret": "S3CR3T"},
        {"kind": "otlp", "endpoint": "https://example.org", "headers": {"Authorization": {"S3CR3T": 1}}},
        {"kind": "pigeon", "password": "S3CR3T"},
    ],
)
async def test_problem_does_not_repeat_a_secret(api: Deliveries, target: dict[str, Any]):
    answer = await api.call("POST", "/subscriptions/", of(target=target), status=422)

    assert "S3CR3T" not in str(answer)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "10.1.2.3", "192.168.1.1", "169.254.169.254", "0.0.0.0", "[::1]", "[fe80::1]"),
        *("[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "100.64.0.1", "2130706433", "[fc00::1]"),
        *("168.63.129.16", "192.0.0.1", "[3fff::1]", "[64:ff9b:1::1]"),
    ],
)
async def test_webhook_to_a_private_address_is_refused_and_the_setting_is_named(api: Deliveries, host: str):
    target = {"kind": "webhook", "url": f"http://{host}:9/"}

    for _ in ("create", "edit"):
        answer = await api.call("POST", "/subscriptions", of(target=target), status=400)
        assert "subscription.target.url" in answer["detail"]
        assert "CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES" in answer["detail"]
    await api.create("out", KAFKA)
    await api.call("PUT", "/subscriptions/out", {"subscription": {"target": target}}, status=400)


async def test_private_address_is_refused_at_delivery_too(shared_store: ColumnStore, shared_database: Database):
    allowed, refused = delivery_settings(), delivery_settings(private_addresses="off")
    async with deliveries(shared_store, shared_database, allowed) as api, receiving() as receiver:
        await api.webhook(receiver)
        settings = refused.model_copy(update={"default_project_id": api.context.settings.default_project_id})
        object.__setattr__(api.context, "settings", settings)
        async with api.delivering():
            await api.store([1])
            state = await api.until(lambda state: state["status"] == "paused")

    assert "CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES" in state["reason"]
    assert receiver.requests_count == 0


async def test_networks_of_the_setting_are_refused_beside_private_addresses(
    shared_store: ColumnStore, shared_database: Database
):
    settings = delivery_settings(refused_networks=["127.0.0.0/8"])
    async with deliveries(shared_store, shared_database, delivery_settings()) as api, receiving() as receiver:
        await api.webhook(receiver)
        own = settings.model_copy(update={"default_project_id": api.context.settings.default_project_id})
        object.__setattr__(api.context, "settings", own)
        answer = await api.call(
            "POST", "/subscriptions", of(target={"kind": "webhook", "url": receiver.url}), status=400
        )
        async with api.delivering():
            await api.store([1])
            state = await api.until(lambda state: state["status"] == "paused")

    for text in (answer["detail"], state["reason"]):
        assert "is in 127.0.0.0/8, which the setting CLEARSPAN_DELIVERY__REFUSED_NETWORKS refuses" in text
    assert receiver.requests_count == 0


async def test_secret_is_shown_once_and_only_if_it_was_made(shared_store: ColumnStore, shared_database: Database):
    async with deliveries(shared_store, shared_database, delivery_settings()) as api, receiving() as receiver:
        made = await api.create("made", {"kind": "webhook", "url": receiver.url})
        given = await api.webhook(receiver, slug="given")
        shown = [await api.call("POST", "/subscriptions/query", {}), await api.state("made"), await api.state("given")]
        edited = {"subscription": {"target": {"kind": "webhook", "url": receiver.url + "/2"}}}
        shown.append(await api.call("PUT", "/subscriptions/made", edited))

    assert made["target"]["secret"].startswith("whsec_")
    assert "secret" not in given["target"]
    assert "whsec_" not in str(shown)


@pytest.mark.parametrize(
    ("target", "harmless", "moved", "secret"),
    [
        (SECURED, {"topic": "other"}, {"bootstrap": "127.0.0.1:2"}, "password"),
        (SECURED, {"username": "bob"}, {"security_protocol": "SASL_PLAINTEXT"}, "password"),
        (SECURED, {"topic": "other"}, {"sasl_mechanism": "PLAIN"}, "password"),
        (OTLP, {"ag": True}, {"endpoint": "http://127.0.0.1:2"}, "headers"),
    ],
    ids=["broker", "protocol", "mechanism", "endpoint"],
)
async def test_kept_secret_is_not_sent_to_another_system(
    shared_store: ColumnStore,
    shared_database: Database,
    target: dict[str, Any],
    harmless: dict[str, Any],
    moved: dict[str, Any],
    secret: str,
):
    async with deliveries(shared_store, shared_database, delivery_settings()) as api:
        created = await api.create("out", target)
        without = {name: value for name, value in target.items() if name != secret}
        path, at = "/subscriptions/out", f"subscription.target.{secret}"
        kept = await api.call("PUT", path, {"subscription": {"target": {**without, **harmless}}})
        refused = await api.call(
            "PUT", path, {"subscription": {"target": {**without, **harmless, **moved}}}, status=400
        )
        given = await api.call("PUT", path, {"subscription": {"target": {**target, **harmless, **moved}}})

    assert refused["detail"].startswith(f"{at}: give it again, because subscription.target.{next(iter(moved))} changes")
    assert "S3CR3T" not in str([created, kept, refused, given])


async def test_target_without_a_user_forgets_the_password(shared_store: ColumnStore, shared_database: Database):
    async with deliveries(shared_store, shared_database, delivery_settings()) as api:
        created = await api.create("out", SECURED)
        await api.call("PUT", "/subscriptions/out", {"subscription": {"target": KAFKA}})
        row = await shared_database.fetch_one("SELECT * FROM subscriptions WHERE id = $1", UUID(created["id"]))

    assert "S3CR3T" not in str(dict(row or {}))


async def test_position_of_another_project_is_refused(shared_store: ColumnStore, shared_database: Database):
    settings = delivery_settings()
    async with (
        deliveries(shared_store, shared_database, settings) as one,
        deliveries(shared_store, shared_database, settings) as other,
    ):
        position = (await one.create("out", KAFKA))["position"]
        await other.call("POST", "/subscriptions", of(**{"from": position}), status=400)
        await other.create("out", KAFKA)
        await other.call("POST", "/subscriptions/out/replay", {"from": position}, status=400)
        await one.call("POST", "/subscriptions/out/replay", {"from": position})
        await one.create("second", KAFKA, **{"from": position})


async def test_slug_is_unique_and_the_number_is_limited(shared_store: ColumnStore, shared_database: Database):
    async with deliveries(shared_store, shared_database, delivery_settings(subscriptions_max=3)) as api:
        await api.create("out", KAFKA)
        conflict = await api.call("POST", "/subscriptions", of(slug="out"), status=409)
        bodies = [of(slug=f"s{number}") for number in range(6)]
        statuses = await asyncio.gather(*(_status(api, body) for body in bodies))

    assert conflict["detail"]["conflict"] == {"slug": "out"}
    assert sorted(statuses) == [200, 200, 409, 409, 409, 409]


async def _status(api: Deliveries, body: Any) -> int:
    async with api.client.post("/subscriptions/", json=body) as response:
        return response.status


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/skip"), ("POST", "/test")]
)
async def test_unknown_subscription_is_404(api: Deliveries, method: str, path: str):
    for key in ("nothing", str(uuid4()), "%00"):
        await api.call(method, f"/subscriptions/{key}{path}", status=404)


async def test_skip_without_a_batch_is_a_conflict(api: Deliveries):
    await api.create("out", KAFKA)

    answer = await api.call("POST", "/subscriptions/out/skip", status=409)

    assert "no batch under way" in answer["detail"]


async def test_edit_keeps_what_is_not_given_and_the_position(api: Deliveries):
    made = await api.create("out", KAFKA, name="Out", filtering=condition("span_name", "a"))

    renamed = await api.call("PUT", "/subscriptions/out", {"subscription": {"name": "In"}})
    changed = await api.call("PUT", "/subscriptions/out", {"subscription": {"filtering": condition("span_name", "b")}})

    assert renamed["subscription"]["filtering"] == made["filtering"]
    assert changed["subscription"]["name"] == "In"
    assert changed["subscription"]["target"] == made["target"]
    assert changed["subscription"]["position"] == made["position"]
    wrong = {"subscription": {"id": str(uuid4()), "name": "x"}}
    await api.call("PUT", "/subscriptions/out", wrong, status=400)


async def test_lag_begins_when_something_is_left_to_deliver(api: Deliveries):
    made = await api.create("out", KAFKA)
    await api.store([1])
    await asyncio.sleep(0.05)

    assert made["lag_s"] == 0
    assert (await api.state("out"))["lag_s"] > 0


async def test_query_about_traces_and_a_saved_relative_bound_are_refused(api: Deliveries):
    for slug, data, status in (
        ("traces", {"formatting": {"focus": "trace"}}, 409),
        ("recent", {"windowing": {"oldest": "-1h"}}, 400),
        ("since", {"filtering": condition("start_time", "-1h", operator="gt")}, 400),
    ):
        await api.call("POST", "/simple/queries/", {"query": {"slug": slug, "data": data}})
        await api.call("POST", "/subscriptions", of(query_ref={"slug": slug}), status=status)


async def test_test_delivery_says_what_the_target_answered(shared_store: ColumnStore, shared_database: Database):
    async with deliveries(shared_store, shared_database, delivery_settings()) as api, receiving() as receiver:
        await api.webhook(receiver)
        good = (await api.call("POST", "/subscriptions/hook/test"))["delivery"]
    async with deliveries(shared_store, shared_database, delivery_settings()) as api:
        await api.webhook(receiver)
        bad = (await api.call("POST", "/subscriptions/hook/test"))["delivery"]
        state = await api.state()

    assert (good["delivered"], bad["delivered"]) == (True, False)
    assert receiver.messages[0].id == good["batch_id"]
    assert "cannot be reached" in bad["reason"]
    assert (state["status"], state["delivered"]["spans"]) == ("active", 0)
