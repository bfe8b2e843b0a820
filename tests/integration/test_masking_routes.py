"""The routes of masking rules, over Postgres (contract §9 “Masking”)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from common.masking import NO_MASKS, MaskAction, MaskPlace, MaskRule
from common.postgres.keys import Keys, KeyWanted
from common.postgres.masking import MaskingRules
from common.postgres.pool import Database
from common.postgres.projects import Projects
from common.times import SystemClock
from ingest.masking.current import STALE_S
from ingest.masking.planned import planned_masks
from query_api.masking.handlers import APPLIED_WITHIN_S, RULES_MAX
from tests.support.api import context_of, serving

RULE = {"value": "sk-[a-z]+", "places": ["events", "events"], "action": "redact"}
HASHED = {"key": "user.email", "action": "hash"}


class Client:
    """An API with the key of a new project."""

    def __init__(self, session: aiohttp.ClientSession, project: UUID, key: str) -> None:
        self.project = project
        self._session = session
        self._headers = {"Authorization": f"ApiKey {key}"}

    async def call(self, method: str, body: Any = None) -> tuple[int, Any]:
        response = await self._session.request(method, "/masking", json=body, headers=self._headers)
        return response.status, await response.json()

    async def put(self, *rules: Any) -> tuple[int, Any]:
        return await self.call("PUT", {"masking": {"rules": list(rules)}})


@pytest.fixture
async def session(shared_database: Database) -> AsyncIterator[aiohttp.ClientSession]:
    keys = Keys(shared_database, SystemClock())
    async with serving(context_of(keys=keys, database=shared_database, clock=SystemClock())) as session:
        yield session


async def _client(session: aiohttp.ClientSession, database: Database) -> Client:
    project = await Projects(database, SystemClock()).create("p")
    key = await Keys(database, SystemClock()).create(project.id, KeyWanted("k"))
    return Client(session, project.id, key.text)


async def test_rules_are_replaced_shown_and_removed(session: aiohttp.ClientSession, shared_database: Database) -> None:
    client = await _client(session, shared_database)

    _, none = await client.call("GET")
    status, put = await client.put(RULE, HASHED)
    _, got = await client.call("GET")
    _, deleted = await client.call("DELETE")

    assert none == {
        "count": 1,
        "masking": {"rules": [], "masked": {"values": 0}, "applied_within_s": APPLIED_WITHIN_S},
    }
    assert (status, put) == (200, got)
    assert put["masking"]["rules"] == [
        {"value": "sk-[a-z]+", "places": ["events"], "action": "redact"},
        {"key": "user.email", "places": [], "action": "hash"},
    ]
    assert deleted["masking"]["rules"] == []
    assert (await client.call("GET"))[1] == deleted
    assert APPLIED_WITHIN_S == STALE_S


async def test_workers_read_the_rules_of_all_projects_that_have_some(
    session: aiohttp.ClientSession, shared_database: Database
) -> None:
    stored = MaskingRules(shared_database)
    first, second, empty = [await _client(session, shared_database) for _ in range(3)]
    await first.put(RULE)
    await second.put(HASHED)
    await empty.put()

    masks = planned_masks(await stored.read())
    email = {"user.email": "a@b"}
    hashed = masks[second.project].attributes(MaskPlace.ATTRIBUTES, email)
    await second.put()
    await second.put(HASHED)
    again = planned_masks(await stored.read())[second.project].attributes(MaskPlace.ATTRIBUTES, email)

    assert {first.project, second.project} <= set(masks)
    assert empty.project not in masks
    assert hashed == again != email  # the secret of the hashes stays
    assert masks[first.project].attributes(MaskPlace.EVENTS, {"a": "sk-x"}) == {"a": "[masked]"}


async def test_another_project_sees_and_changes_nothing(
    session: aiohttp.ClientSession, shared_database: Database
) -> None:
    own, other = [await _client(session, shared_database) for _ in range(2)]
    await own.put(RULE)

    assert (await other.call("GET"))[1]["masking"]["rules"] == []
    await other.call("DELETE")
    assert len((await own.call("GET"))[1]["masking"]["rules"]) == 1


async def test_masked_values_are_added_up_and_shown(session: aiohttp.ClientSession, shared_database: Database) -> None:
    stored, client = MaskingRules(shared_database), await _client(session, shared_database)
    other = await _client(session, shared_database)
    await client.put(RULE)
    await other.put(RULE)

    await asyncio.gather(*(stored.add_counts({client.project: 2, other.project: 1}) for _ in range(5)))
    await stored.add_counts({UUID(int=5): 1})  # a project that has no rules
    masked = (await client.call("GET"))[1]["masking"]["masked"]

    assert masked["values"] == 10
    assert masked["last_at"]


@pytest.mark.parametrize(
    ("rule", "status", "says"),
    [
        ({"action": "redact"}, 400, "masking.rules[1]: a rule needs `key`, `value` or both."),
        ({"value": "(", "action": "drop"}, 400, "rules[1].value: this regular expression is not allowed: missing )"),
        ({"value": "a*", "action": "drop"}, 400, "it matches the empty text"),
        ({"value": "(?=a)b", "action": "drop"}, 400, "masking.rules[1].value"),
        ({"value": "(a{1000}){40}", "action": "drop"}, 400, "masking.rules[1]"),
        ({"value": "x", "action": "encrypt"}, 422, "'drop', 'hash' or 'redact'"),
        ({"value": "x", "action": "drop", "places": ["logs"]}, 422, "places"),
        ({"value": "x", "action": "drop", "kye": "a"}, 422, "extra_forbidden"),
        ({"value": "", "action": "drop"}, 422, "at least 1"),
        ({"key": "a" * 501, "action": "drop"}, 422, "at most 500"),
        ({"key": "a\0b", "action": "drop"}, 422, "masking"),
    ],
)  # fmt: skip
async def test_bad_rule_is_named_and_nothing_is_replaced(
    rule: Any, status: int, says: str, session: aiohttp.ClientSession, shared_database: Database
) -> None:
    client = await _client(session, shared_database)
    await client.put(HASHED)

    answered, answer = await client.put(RULE, rule)

    assert (answered, says in str(answer["detail"])) == (status, True), answer
    assert len((await client.call("GET"))[1]["masking"]["rules"]) == 1


async def test_number_of_rules_is_limited(session: aiohttp.ClientSession, shared_database: Database) -> None:
    client = await _client(session, shared_database)

    assert (await client.put(*[HASHED] * RULES_MAX))[0] == 200
    assert (await client.put(*[HASHED] * (RULES_MAX + 1)))[0] == 422


async def test_without_rules_there_is_nothing_to_read(database: Database) -> None:
    assert await MaskingRules(database).read() == NO_MASKS


def test_stored_rule_is_read_as_it_was_checked() -> None:
    assert MaskRule(MaskAction.DROP)._asdict() == {"action": "drop", "key": None, "value": None, "places": ()}
