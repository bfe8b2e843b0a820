"""An unknown member is refused where it would widen an answer, and ignored where something is created or edited (contract §1).

Walks every route with a body or a query string, as a client does, and puts one unknown member at every place where an object
with known members stands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from query_api.json_body import SCOPE_PARAMETERS
from query_api.route import Access, Answer, Call, Route
from query_api.routes import ROUTES
from tests.support.api import context_of, serving

UNKNOWN: Final = "slugg"
FORBIDDEN: Final = "extra_forbidden"
UNION_TAGS: Final = frozenset({"Condition", "Filtering", "list", "object"})
"""What pydantic writes into a path besides the members: which shape of several was read."""

STRICT_IN_CREATE: Final = frozenset({"data", "delta"})
"""Members of creating bodies in which unknown members are refused: what a revision holds."""


class Place(NamedTuple):
    """An object in a body that has known members. ``body`` holds the unknown one there."""

    path: tuple[str | int, ...]
    body: Any


def places_of(route: Route) -> Iterator[Place]:
    """Every place of a route's body, the outermost first."""
    if route.body is None:
        return
    schema = route.body.model_json_schema()
    yield from _places(schema, schema.get("$defs", {}), seen=())


def _places(schema: Any, definitions: Any, *, seen: tuple[str, ...]) -> Iterator[Place]:
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    if name and name not in seen:
        yield from _places(definitions[name], definitions, seen=(*seen, name))
    for alternative in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _places(alternative, definitions, seen=seen)
    if "properties" in schema:
        yield from _places_of_object(schema, definitions, seen=seen)
    elif isinstance(schema.get("additionalProperties"), dict):
        for path, body in _places(schema["additionalProperties"], definitions, seen=seen):
            yield Place(("name", *path), {"name": body})
    elif "items" in schema:
        for path, body in _places(schema["items"], definitions, seen=seen):
            yield Place((0, *path), [body])


def _places_of_object(schema: Any, definitions: Any, *, seen: tuple[str, ...]) -> Iterator[Place]:
    required = dict.fromkeys(schema.get("required", ()), "x")
    yield Place((UNKNOWN,), {**required, UNKNOWN: 1})
    for name, member in schema["properties"].items():
        for path, body in _places(member, definitions, seen=seen):
            yield Place((name, *path), {**required, name: body})


async def _accept(_call: Call) -> Answer:
    return Answer(b"{}")


TAKING = [route for route in ROUTES if route.body is not None or route.query is not None]
ANSWERING = tuple(replace(route, handler=_accept, reads_spans=False, access=Access.PUBLIC) for route in TAKING)
NARROWING = [route for route in TAKING if not route.ignores_unknown]
CREATING = [route for route in TAKING if route.ignores_unknown]
CREATING_WORDS: Final = ("commit", "fork", "revert", "deploy", "ingest", "accounts", "check")


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context_of(), routes=ANSWERING) as client:
        yield client


async def _problems(client: aiohttp.ClientSession, route: Route, **sent: Any) -> list[tuple[str, list[Any]]]:
    path = "/".join("0" * 32 if part.startswith("{") else part for part in route.path.split("/"))
    async with client.request(route.method, path, **sent) as response:
        if response.status != 422:
            return []
        detail = (await response.json())["detail"]
    return [(each["type"], [step for step in each["loc"] if step not in UNION_TAGS]) for each in detail]


def test_the_routes_that_ignore_unknown_members_are_those_that_create_or_edit() -> None:
    for route in TAKING:
        last = route.path.rsplit("/", 1)[-1]
        is_creating = route.method in ("PUT", "PATCH") or last in CREATING_WORDS
        is_creating |= route.method == "POST" and last in {
            *("applications", "environments", "queries", "variants", "revisions", "traces")
        }

        assert route.ignores_unknown is is_creating, _name(route)


@pytest.mark.parametrize("route", NARROWING, ids=_name)
@pytest.mark.asyncio(loop_scope="module")
async def test_where_it_would_widen_an_answer_it_is_422_and_says_where(
    client: aiohttp.ClientSession, route: Route
) -> None:
    for place in places_of(route):
        found = await _problems(client, route, json=place.body)

        assert ((FORBIDDEN, ["body", *place.path]) in found) is not _is_free(place), place

    assert (FORBIDDEN, ["query", UNKNOWN]) in await _problems(client, route, params={UNKNOWN: "x"})


@pytest.mark.parametrize("route", CREATING, ids=_name)
@pytest.mark.asyncio(loop_scope="module")
async def test_where_something_is_made_it_is_ignored_but_in_what_a_revision_holds(
    client: aiohttp.ClientSession, route: Route
) -> None:
    for place in places_of(route):
        found = await _problems(client, route, json=place.body)

        is_refused = (FORBIDDEN, ["body", *place.path]) in found
        assert is_refused is bool(STRICT_IN_CREATE.intersection(place.path) and not _is_free(place)), place

    assert (FORBIDDEN, ["query", UNKNOWN]) not in await _problems(client, route, params={UNKNOWN: "x"})


def _is_free(place: Place) -> bool:
    """Clients of the reference send other members in `schemas` (§1.4), which mean nothing."""
    return "schemas" in place.path


@pytest.mark.parametrize("route", TAKING, ids=_name)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_scope_is_accepted_everywhere(client: aiohttp.ClientSession, route: Route) -> None:
    found = await _problems(client, route, params=dict.fromkeys(SCOPE_PARAMETERS, "x"))

    assert not [loc for _, loc in found if loc[-1] in SCOPE_PARAMETERS]


def test_the_walk_reaches_every_depth() -> None:
    [query] = [route for route in NARROWING if _name(route) == "POST /spans/query"]
    paths = {place.path for place in places_of(query)}

    assert {
        (UNKNOWN,),
        ("windowing", UNKNOWN),
        ("filtering", "conditions", 0, "options", UNKNOWN),
        ("query_ref", UNKNOWN),
    } <= paths
